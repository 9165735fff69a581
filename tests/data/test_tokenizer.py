"""Token strings as bytes, flat encodings, pre-token boundaries, and tokenizer files."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from tasc.data.tiktoken import merges_of
from tasc.data.token_bytes import byte_alphabet, spell_bytes
from tasc.data.tokenizer import LoadedTokenizer, load_tokenizer
from tasc.errors import InputError, UnavailableError

TEXTS = (
    "the cat and the dog in the house, the theory of the thing",
    "intent: alarm_set, slot fills: {time: nine am, date: friday}",
    "naïve café über 日本語 😀 tab\tand\nline",
)
SAMPLES = (
    " in the house",
    "naïve 😀😀 x",
    "a<|endoftext|>b the",
    "  two  spaces\n\nx",
    "日本語 テキスト é",
    "",
    "12345 don't",
)


def train(size=400):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=alphabet,
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    return tokenizer


@pytest.fixture(scope="module")
def byte_level():
    return LoadedTokenizer(train(), "trained")


def strings_of(loaded, text):
    vocabulary = loaded.vocabulary()
    return [vocabulary[token] for token in loaded.encode([text]).tokens]


def test_the_byte_alphabet_holds_each_byte_once():
    table = byte_alphabet()
    assert sorted(table.values()) == list(range(256))
    assert set(table) == set(pre_tokenizers.ByteLevel.alphabet())
    assert spell_bytes(b" a\n") == "ĠaĊ"


@pytest.mark.parametrize("text", SAMPLES)
def test_token_strings_put_together_give_the_text(byte_level, text):
    assert b"".join(strings_of(byte_level, text)).decode() == text.replace("<|endoftext|>", "")


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=30))
def test_any_text_is_the_bytes_of_its_tokens(text):
    loaded = LoadedTokenizer(TRAINED, "trained")
    strings = strings_of(loaded, text)
    assert b"".join(strings).decode() == text.replace("<|endoftext|>", "")


TRAINED = train()


def test_special_tokens_have_no_string_and_added_ones_their_text():
    tokenizer = train()
    tokenizer.add_tokens([" naïve the"])
    loaded = LoadedTokenizer(tokenizer, "added")
    vocabulary = loaded.vocabulary()
    assert len(vocabulary) == tokenizer.get_vocab_size()
    assert vocabulary[-1] == " naïve the".encode()
    assert vocabulary[tokenizer.token_to_id("<|endoftext|>")] == b""
    assert loaded.special_ids == {tokenizer.token_to_id("<|endoftext|>")}


def test_texts_are_encoded_one_after_the_other(byte_level):
    encoded = byte_level.encode(SAMPLES)
    assert encoded.tokens.dtype == np.int32
    assert encoded.offsets.dtype == np.int64
    assert encoded.offsets[0] == 0
    assert encoded.offsets[-1] == len(encoded.tokens)
    for place, text in enumerate(SAMPLES):
        part = encoded.tokens[encoded.offsets[place] : encoded.offsets[place + 1]]
        assert part.tolist() == byte_level.tokenizer.encode(text).ids


def test_no_texts_give_no_tokens(byte_level):
    encoded, starts = byte_level.encode_with_boundaries([])
    assert (len(encoded.tokens), encoded.offsets.tolist(), len(starts)) == (0, [0], 0)


@pytest.mark.parametrize("text", [sample for sample in SAMPLES if "<|" not in sample])
def test_boundaries_are_where_the_pre_tokenizer_splits(byte_level, text):
    pieces = [piece for piece, _ in byte_level.tokenizer.pre_tokenizer.pre_tokenize_str(text)]
    starts = byte_level.boundaries([text])
    joined, place = [], -1
    for start, string in zip(starts, strings_of(byte_level, text), strict=True):
        if start:
            joined.append(b"")
            place += 1
        joined[place] += string
    assert starts.dtype == np.uint8
    assert joined == [bytes(byte_alphabet()[letter] for letter in piece) for piece in pieces]


def test_an_emoji_of_several_tokens_is_one_pre_token(byte_level):
    starts = byte_level.boundaries(["🦜🦜 x"])
    assert len(starts) > 4
    assert starts.sum() == 2


def test_each_sample_and_each_added_token_starts_a_pre_token(byte_level):
    encoded, starts = byte_level.encode_with_boundaries(["the", "the", "a<|endoftext|>b"])
    assert starts[encoded.offsets[:-1]].tolist() == [1, 1, 1]
    assert starts[-3:].tolist() == [1, 1, 1]
    assert np.array_equal(
        encoded.tokens, byte_level.encode(["the", "the", "a<|endoftext|>b"]).tokens
    )


def test_without_a_pre_tokenizer_a_sample_is_one_pre_token():
    tokenizer = Tokenizer(models.BPE({"a": 0, "b": 1, "▁": 2}, []))
    loaded = LoadedTokenizer(tokenizer, "bare")
    assert loaded.boundaries(["ab", "ba"]).tolist() == [1, 0, 1, 0]


def test_sentencepiece_spellings_become_bytes():
    vocabulary = {"<unk>": 0, "</s>": 1, "<0x0A>": 2, "<0xF0>": 3, "▁the": 4, "a": 5, "▁": 6}
    tokenizer = Tokenizer(models.BPE(vocabulary, [], unk_token="<unk>", byte_fallback=True))
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    tokenizer.add_special_tokens(["</s>"])
    loaded = LoadedTokenizer(tokenizer, "pieces")
    assert loaded.vocabulary() == [b"", b"", b"\n", b"\xf0", b" the", b"a", b" "]
    assert loaded.special_ids == {0, 1}
    assert loaded.eos_id == 1


def test_unigram_wordpiece_and_word_suffix_spellings_become_bytes():
    unigram = Tokenizer(models.Unigram([("▁the", -1.0), ("x", -2.0)]))
    unigram.decoder = decoders.Metaspace()
    assert LoadedTokenizer(unigram, "u").vocabulary() == [b" the", b"x"]
    pieces = {"[UNK]": 0, "the": 1, "##ory": 2}
    wordpiece = Tokenizer(models.WordPiece(pieces, unk_token="[UNK]"))
    assert LoadedTokenizer(wordpiece, "w").vocabulary() == [b"", b" the", b"ory"]
    suffixed = Tokenizer(models.BPE({"the</w>": 0, "th": 1}, [], end_of_word_suffix="</w>"))
    assert LoadedTokenizer(suffixed, "s").vocabulary() == [b"the ", b"th"]


def test_ids_that_no_token_has_are_empty():
    tokenizer = Tokenizer(models.WordLevel({"a": 0, "b": 3}, unk_token="?"))
    assert LoadedTokenizer(tokenizer, "holes").vocabulary() == [b"a", b"", b"", b"b"]


def save(folder, config=None):
    folder.mkdir(exist_ok=True)
    tokenizer = train()
    tokenizer.enable_truncation(3)
    tokenizer.enable_padding(length=3)
    tokenizer.add_special_tokens(["<|im_end|>"])
    tokenizer.save(str(folder / "tokenizer.json"))
    if config is not None:
        (folder / "tokenizer_config.json").write_text(config)
    return folder


def test_a_folder_and_its_file_are_the_same_without_truncation(tmp_path):
    folder = save(tmp_path, json.dumps({"eos_token": "<|im_end|>"}))
    for path in (folder, folder / "tokenizer.json"):
        loaded = load_tokenizer(str(path))
        assert loaded.path == str(path)
        assert list(loaded.files) == ["tokenizer_config.json"]
        assert len(loaded.encode(["the cat and the dog"]).tokens) > 3
        assert len(loaded.encode(["a"]).tokens) == 1


@pytest.mark.parametrize(
    ("config", "name"),
    [
        ('{"eos_token": "<|im_end|>"}', "<|im_end|>"),
        ('{"eos_token": {"content": "<|im_end|>"}}', "<|im_end|>"),
        ('{"eos_token": "<nowhere>"}', "<|endoftext|>"),
        ("{}", "<|endoftext|>"),
        (None, "<|endoftext|>"),
    ],
)
def test_the_end_token_is_the_configured_one_else_a_usual_one(tmp_path, config, name):
    loaded = load_tokenizer(str(save(tmp_path, config)))
    assert loaded.eos_id == loaded.tokenizer.token_to_id(name)


def test_a_tokenizer_without_an_end_token_says_so():
    loaded = LoadedTokenizer(Tokenizer(models.BPE({"a": 0}, [])), "T")
    with pytest.raises(InputError, match="T: the tokenizer has no end token"):
        _ = loaded.eos_id


def test_a_broken_config_is_named(tmp_path):
    loaded = load_tokenizer(str(save(tmp_path, "{")))
    with pytest.raises(InputError, match=r"tokenizer_config\.json is not JSON"):
        _ = loaded.eos_id


def save_pair(folder, names):
    tokenizer = train()
    written = tokenizer.model.save(str(folder))
    for path, name in zip(written, names, strict=True):
        (folder / path.rsplit("/", 1)[-1]).rename(folder / name)
    return tokenizer


@pytest.mark.parametrize("names", [("vocab.json", "merges.txt"), ("encoder.json", "vocab.bpe")])
def test_gpt2_pairs_are_put_together(tmp_path, names):
    original = save_pair(tmp_path, names)
    loaded = load_tokenizer(str(tmp_path))
    for text in SAMPLES:
        assert loaded.encode([text]).tokens.tolist() == original.encode(text).ids
    assert loaded.eos_id == original.token_to_id("<|endoftext|>")


def test_a_pair_of_another_family_is_refused(tmp_path):
    save_pair(tmp_path, ("vocab.json", "merges.txt"))
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "Qwen2Tokenizer"}')
    with pytest.raises(InputError, match="belongs to a Qwen2Tokenizer"):
        load_tokenizer(str(tmp_path))


def test_merges_come_back_from_ranks():
    tokens = [b"a", b"b", b"c", b"ab", b"bc", b"abc", b"cc", b"ccc"]
    ranks = {token: rank for rank, token in enumerate(tokens)}
    assert merges_of(ranks) == [
        (b"a", b"b"),
        (b"b", b"c"),
        (b"ab", b"c"),  # not a + bc: ab has the lower rank
        (b"c", b"c"),
        (b"cc", b"c"),
    ]


@pytest.mark.parametrize(
    ("path", "saw"),
    [
        ("gone/tokenizer.json", "no such tokenizer file or folder"),
        ("empty", "saw nothing"),
        ("notes.json", "not a tokenizer.json"),
        ("notes.txt", "no tokenizer.json, tiktoken file or SentencePiece model"),
        ("few.tiktoken", "a tiktoken file of 1 tokens is not one of"),
        ("bad.tiktoken", "bad.tiktoken:2: expected 'base64 rank'"),
    ],
)
def test_what_is_no_tokenizer_is_refused_in_one_line(tmp_path, path, saw):
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.json").write_text("{}")
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "few.tiktoken").write_text("IQ== 0\n")
    (tmp_path / "bad.tiktoken").write_text("IQ== 0\n!! x\n")
    with pytest.raises(InputError) as caught:
        load_tokenizer(str(tmp_path / path))
    assert saw in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unreachable_hub_is_one_line(monkeypatch):
    import huggingface_hub
    from huggingface_hub.errors import LocalEntryNotFoundError

    def unreachable(*_, **__):
        raise LocalEntryNotFoundError("no network")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", unreachable)
    with pytest.raises(UnavailableError, match="the Hub cannot be reached"):
        load_tokenizer("someone/some-model")


@pytest.mark.parametrize(
    ("name", "size", "end"),
    [("gpt2", 50257, 50256), ("qwen2", 151646, 151643), ("cl100k_base", 100277, 100257)],
)
def test_real_vocabularies_round_trip(data_dir, name, size, end):
    loaded = load_tokenizer(str(data_dir / "tokenizers" / name))
    assert len(loaded.vocabulary()) == size
    assert loaded.eos_id == end
    for text in SAMPLES:
        assert b"".join(strings_of(loaded, text)).decode() == text.replace("<|endoftext|>", "")
    assert len(strings_of(loaded, " the house of the Commission")) == 5


@pytest.mark.parametrize(
    ("name", "ids"), [("gpt2", [15496, 995]), ("qwen2", [9707, 1879]), ("llama3", [9906, 1917])]
)
def test_known_vocabularies_give_the_published_ids(data_dir, name, ids):
    loaded = load_tokenizer(str(data_dir / "tokenizers" / name))
    assert loaded.encode(["Hello world"]).tokens.tolist() == ids


@settings(max_examples=50, deadline=None)
@given(st.text("abc ", max_size=20))
def test_merges_from_ranks_encode_as_the_ranks_do(text):
    """The definition: merge the neighbours of the lowest rank, leftmost first, to the end."""
    tokens = [
        b"a",
        b"b",
        b"c",
        b" ",
        b"ab",
        b"bc",
        b" a",
        b"abc",
        b"cc",
        b"aa",
        b"aaa",
        b"ccc",
        b" ab",
    ]
    ranks = {token: rank for rank, token in enumerate(tokens)}
    parts = [bytes([byte]) for byte in text.encode()]
    while True:
        places = [i for i in range(len(parts) - 1) if parts[i] + parts[i + 1] in ranks]
        if not places:
            break
        place = min(places, key=lambda i: (ranks[parts[i] + parts[i + 1]], i))
        parts[place : place + 2] = [parts[place] + parts[place + 1]]
    vocabulary = {spell_bytes(token): rank for token, rank in ranks.items()}
    merges = [(spell_bytes(left), spell_bytes(right)) for left, right in merges_of(ranks)]
    tokenizer = Tokenizer(models.BPE(vocabulary, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    assert tokenizer.encode(text).ids == [ranks[part] for part in parts]


def test_llama3_and_qwen2_share_the_published_number_of_strings(data_dir):
    folders = [data_dir / "tokenizers" / name for name in ("llama3", "qwen2")]
    llama3, qwen2 = (set(load_tokenizer(str(folder)).vocabulary()) - {b""} for folder in folders)
    assert len(llama3 & qwen2) == 109566


def test_a_normalizer_does_not_move_the_boundaries():
    tokenizer = train()
    tokenizer.normalizer = normalizers.NFC()
    loaded = LoadedTokenizer(tokenizer, "nfc")
    assert loaded.boundaries(["cafe\u0301 the"]).sum() == 2
