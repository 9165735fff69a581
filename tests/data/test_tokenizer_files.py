"""Where tokenizers come from: folders, files of several kinds, the Hub."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers

from tasc.errors import InputError, UnavailableError
from tasc.tokenizer.loaded import LoadedTokenizer, load_tokenizer
from tasc.tokenizer.tiktoken import bpe
from tests.data.byte_level import SAMPLES, strings_of, train


def save(folder, config=None):
    tokenizer = train()
    tokenizer.enable_truncation(3)
    tokenizer.enable_padding(length=3)
    tokenizer.add_special_tokens(["<|im_end|>"])
    tokenizer.save(str(folder / "tokenizer.json"))
    if config is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


def test_a_folder_and_its_file_are_the_same_without_truncation(tmp_path):
    folder = save(tmp_path, {"eos_token": "<|im_end|>"})
    for path in (folder, folder / "tokenizer.json"):
        loaded = load_tokenizer(str(path))
        assert loaded.path == str(path)
        assert list(loaded.files) == ["tokenizer_config.json"]
        assert len(loaded.encode(["the cat and the dog"]).tokens) > 3
        assert len(loaded.encode(["a"]).tokens) == 1


@pytest.mark.parametrize(
    ("config", "name"),
    [
        ({"eos_token": "<|im_end|>"}, "<|im_end|>"),
        ({"eos_token": {"content": "<|im_end|>"}}, "<|im_end|>"),
        ({"eos_token": "<nowhere>"}, "<|endoftext|>"),
        ({}, "<|endoftext|>"),
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


@pytest.mark.parametrize(
    ("path", "saw"),
    [
        ("gone/tokenizer.json", "no such tokenizer"),
        ("empty", "found nothing"),
        ("notes.json", "not a tokenizer.json"),
        ("notes.txt", "is not a tokenizer.json, tiktoken file or SentencePiece model"),
        ("few.tiktoken", "is a tiktoken file of 1 tokens, and not one of"),
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
    ("name", "size", "end", "hello_world"),
    [
        ("gpt2", 50257, 50256, [15496, 995]),
        ("qwen2", 151646, 151643, [9707, 1879]),
        ("cl100k_base", 100277, 100257, [9906, 1917]),
        ("llama3", 128256, 128001, [9906, 1917]),
    ],
)
def test_published_vocabularies_round_trip(real_tokenizer, name, size, end, hello_world):
    loaded = real_tokenizer(name)
    assert len(loaded.vocabulary()) == size
    assert loaded.eos_id == end
    assert loaded.encode(["Hello world"]).tokens.tolist() == hello_world
    special = loaded.tokenizer.id_to_token(end)
    for text in SAMPLES:
        assert b"".join(strings_of(loaded, text)).decode() == text.replace(special, "")
    assert len(strings_of(loaded, " the house of the Commission")) == 5


@settings(max_examples=50, deadline=None)
@given(st.text("abc ", max_size=20))
def test_the_model_encodes_as_the_ranks_do(text):
    """The definition: merge the neighbours of the lowest rank, leftmost first, to the end."""
    tokens = b"a|b|c| |ab|bc| a|abc|cc|aa|aaa|ccc| ab".split(b"|")
    ranks = {token: rank for rank, token in enumerate(tokens)}
    parts = [bytes([byte]) for byte in text.encode()]
    while True:
        positions = [i for i in range(len(parts) - 1) if parts[i] + parts[i + 1] in ranks]
        if not positions:
            break
        position = min(positions, key=lambda i: (ranks[parts[i] + parts[i + 1]], i))
        parts[position : position + 2] = [parts[position] + parts[position + 1]]
    tokenizer = Tokenizer(bpe(ranks))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    assert tokenizer.encode(text).ids == [ranks[part] for part in parts]
