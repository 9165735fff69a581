"""Both exports of given tokens."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoTokenizer

from tasc.errors import InputError
from tasc.tokenizer.loaded import LoadedTokenizer, load_tokenizer
from tasc.vocab.exports.export import Addition, Export, Exporter, companions, save
from tasc.vocab.exports.splits import splits_of
from tasc.vocab.measure.saved import changed_outputs
from tests.vocab.tiny import END, TEXTS, TOOL, tokenizer

KINDS = ["bytelevel", "gpt2", "qwen2", "llama3", "o200k", "digits", "deepseek", "falcon"]
STRINGS = [
    " in the",
    " in the house",
    ", slot fills: {",
    "intent: play_music",
    "naïve, naïve",
    " 🙂",
]
TEXT = st.lists(
    st.sampled_from([*STRINGS, *TEXTS, " ", "\n", "rapy", "'s", "1", "é", "e\u0301", TOOL, "a"])
    | st.text(max_size=4),
    max_size=6,
).map("".join)


def additions(base: LoadedTokenizer, strings=tuple(STRINGS)) -> list[Addition]:
    size = len(base.vocabulary())
    return [Addition(size + k, string) for k, string in enumerate(strings)]


def exported(kind: str, export: Export) -> tuple[LoadedTokenizer, LoadedTokenizer]:
    base = tokenizer(kind)
    made = Exporter(base, export).tokenizer(additions(base))
    return base, LoadedTokenizer(made, kind)


PAIRS = {
    (kind, export): exported(kind, export) for kind in KINDS for export in ("pretoken", "added")
}


@pytest.mark.parametrize(("kind", "export"), PAIRS)
@settings(max_examples=60, deadline=None)
@given(text=TEXT)
def test_text_survives_encoding_and_decoding(kind, export, text):
    _, saved = PAIRS[kind, export]
    ids = saved.encode([text]).tokens.tolist()
    assert saved.tokenizer.decode(ids, skip_special_tokens=False) == text


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60, deadline=None)
@given(text=TEXT)
def test_pretoken_export_only_joins_what_the_base_tokenizer_makes(kind, text):
    base, saved = PAIRS[kind, "pretoken"]
    spelled = [base.encode([string]).tokens.tolist() for string in STRINGS]
    size = len(base.vocabulary())
    assert changed_outputs(base.encode([text]), saved.encode([text]), spelled, size) == 0


def test_a_token_that_is_never_whole_pre_tokens_is_not_matched_as_such():
    base = tokenizer("gpt2")
    inside = Addition(len(base.vocabulary()), " in the", spans=False)
    made = LoadedTokenizer(Exporter(base, "pretoken").tokenizer([inside]), "gpt2")
    assert made.encode([" in the"]).tokens.tolist() == base.encode([" in the"]).tokens.tolist()


@pytest.mark.parametrize("mark", ["continuing_subword_prefix", "end_of_word_suffix"])
def test_a_vocabulary_that_marks_parts_of_words_needs_the_other_export(mark):
    state = json.loads(tokenizer("gpt2").tokenizer.to_str())
    state["model"][mark] = "##"
    with pytest.raises(InputError, match="use --export added"):
        splits_of(state, "marked")


@pytest.mark.parametrize("kind", KINDS)
def test_only_the_added_export_fires_inside_a_word(kind):
    base, safe = PAIRS[kind, "pretoken"]
    _, paper = PAIRS[kind, "added"]
    new = len(base.vocabulary())
    assert (
        safe.encode([" in therapy"]).tokens.tolist() == base.encode([" in therapy"]).tokens.tolist()
    )
    assert paper.encode([" in therapy"]).tokens[0] == new
    for saved in (safe, paper):
        assert saved.encode([" in the"]).tokens.tolist() == [new]
        assert saved.encode([" in the house"]).tokens.tolist() == [new + 1]


@pytest.mark.parametrize(("kind", "export"), PAIRS)
def test_old_ids_stay_and_new_ones_follow(kind, export):
    base, saved = PAIRS[kind, export]
    assert saved.vocabulary()[: len(base.vocabulary())] == base.vocabulary()
    assert saved.vocabulary()[len(base.vocabulary()) :] == [string.encode() for string in STRINGS]
    assert saved.special_ids == base.special_ids
    for token in (END, TOOL):
        assert saved.tokenizer.token_to_id(token) == base.tokenizer.token_to_id(token)
    text = f"a{TOOL}b{END}"
    assert saved.encode([text]).tokens.tolist() == base.encode([text]).tokens.tolist()


def test_a_pair_inside_a_pretoken_is_a_merge_of_the_lowest_priority():
    base = tokenizer("gpt2", size=258)
    size = len(base.vocabulary())
    pair = [Addition(size, "qz", spans=False), Addition(size + 1, "qzx", spans=False)]
    made = Exporter(base, "pretoken").tokenizer(pair, [(b"q", b"z"), (b"qz", b"x")])
    assert made.encode("aqza qzx").ids == [
        *(base.tokenizer.token_to_id("a"), size, base.tokenizer.token_to_id("a")),
        *(base.tokenizer.token_to_id("Ġ"), size + 1),
    ]


def test_a_single_pretoken_is_matched_whole_without_a_trie():
    base = tokenizer("gpt2", size=258)
    made = Exporter(base, "pretoken").tokenizer(additions(base, ["therapy"]))
    size = len(base.vocabulary())
    assert made.encode("therapy").ids == [size]
    assert size not in made.encode("therapyx").ids
    pattern = json.loads(made.to_str())["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"]
    assert "therapy" not in pattern


def test_an_augmented_tokenizer_can_be_augmented_again():
    _, once = PAIRS["qwen2", "pretoken"]
    made = Exporter(once, "pretoken").tokenizer(additions(once, [" the beatles, year"]))
    ids = made.encode(" in the house the beatles, year").ids
    assert [made.id_to_token(i) for i in ids] == ["ĠinĠtheĠhouse", "ĠtheĠbeatles,Ġyear"]


def across_words() -> Tokenizer:
    made = Tokenizer(models.BPE({"▁": 0, "a": 1, "a▁": 2, "a▁a": 3}, [("a", "▁"), ("a▁", "a")]))
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Metaspace()
    return made


def prefixed() -> Tokenizer:
    made = Tokenizer(models.BPE({"a": 0}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    return made


def spaces_removed() -> Tokenizer:
    made = Tokenizer(models.BPE({"a": 0}, []))
    parts = [pre_tokenizers.ByteLevel(add_prefix_space=False), pre_tokenizers.WhitespaceSplit()]
    made.pre_tokenizer = pre_tokenizers.Sequence(parts)
    return made


@pytest.mark.parametrize(
    ("make", "seen"),
    [
        (across_words, "BPE split by Metaspace"),
        (prefixed, "BPE split by ByteLevel"),
        (spaces_removed, r"BPE split by ByteLevel \+ WhitespaceSplit"),
        (lambda: Tokenizer(models.WordPiece({"a": 0})), "WordPiece split by none"),
    ],
)
def test_other_tokenizers_are_sent_to_the_added_export(make, seen):
    base = LoadedTokenizer(make(), "odd")
    with pytest.raises(InputError, match=rf"odd: .*{seen}.*: use --export added"):
        Exporter(base, "pretoken")
    if make is not across_words:
        assert Exporter(base, "added").tokenizer([]).get_vocab() == base.tokenizer.get_vocab()


def test_holes_in_the_vocabulary_are_refused_where_ids_would_fall_into_them():
    made = Tokenizer(models.BPE({"a": 0, "b": 5}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    base = LoadedTokenizer(made, "holes")
    tokens = additions(base, ["a b"])
    with pytest.raises(InputError, match=r"'a b' would get another id than 6, .* holes"):
        Exporter(base, "added").tokenizer(tokens)
    assert Exporter(base, "pretoken").tokenizer(tokens).token_to_id("aĠb") == 6


@pytest.mark.parametrize("export", ["pretoken", "added"])
@pytest.mark.parametrize("model", [None, "qwen2", "llama", "gpt2"])
def test_auto_tokenizer_loads_the_folder_as_it_is_saved(tmp_path, export, model):
    base, saved = PAIRS["gpt2", export]
    files = {**base.files, "chat_template.jinja": b"{{ messages }}"}
    files = companions(LoadedTokenizer(base.tokenizer, "tiny", files))
    save(saved.tokenizer, files, tmp_path)
    if model:
        (tmp_path / "config.json").write_text(json.dumps({"model_type": model}))
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    for text in [*TEXTS, *STRINGS, " in therapy"]:
        ids = saved.encode([text]).tokens.tolist()
        assert loaded(text).input_ids == ids
        assert loaded.decode(ids) == text
    assert len(loaded) == len(saved.vocabulary())
    assert (loaded.eos_token, loaded.chat_template) == (END, "{{ messages }}")
    assert load_tokenizer(str(tmp_path)).vocabulary() == saved.vocabulary()


def test_a_tokenizer_without_companions_gets_its_end_token_named():
    made = tokenizer().tokenizer
    made.add_special_tokens([AddedToken("<|endoftext|>", special=True)])
    config = json.loads(companions(LoadedTokenizer(made, "bare"))["tokenizer_config.json"])
    assert config["eos_token"] == "<|endoftext|>"
