"""Both exports of every kind of tokenizer."""

import json
import re
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoTokenizer

from tasc.errors import InputError
from tasc.tokenizer.loaded import LoadedTokenizer, load_tokenizer
from tasc.tokenizer.word_boundaries import splitting
from tasc.vocab.augment import Augmentation
from tasc.vocab.exports.export import Addition, Exporter, companions, save
from tasc.vocab.measure.saved import changed_outputs
from tests.vocab.families import augmented, base_of
from tests.vocab.marked import KINDS, MARK, marked
from tests.vocab.tiny import END, OUTPUTS, TEXTS, TOOL, added, tokenizer

BYTE_LEVEL = ["bytelevel", "gpt2", "qwen2", "llama3", "o200k", "digits", "deepseek", "falcon"]
ALWAYS = [kind for kind in KINDS if kind.endswith("always")]
PAIRS = [(kind, "pretoken") for kind in (*BYTE_LEVEL, *KINDS)]
PAIRS += [(kind, "added") for kind, _ in PAIRS if kind not in ALWAYS]
small = cache(base_of)
PARTS = [*TEXTS, " in the", " in the house", " ", "  ", "\n", "rapy", "'s", "1", "é", "e\u0301"]
PARTS += [" 🙂", ",", TOOL, "_music", "a"]


@cache
def made_from(kind: str, export: Any) -> tuple[Augmentation, LoadedTokenizer]:
    made = augmented(small(kind), export)
    return made, LoadedTokenizer(made.tokenizer, kind, made.files)


@pytest.mark.parametrize("kind", [*BYTE_LEVEL, *KINDS])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(data=st.data())
def test_pretoken_export_only_joins_what_the_base_tokenizer_makes(kind, data):
    base, (made, saved) = small(kind), made_from(kind, "pretoken")
    parts = st.sampled_from([*PARTS, *(token.string for token in made.tokens)])
    text = "".join(data.draw(st.lists(parts | st.text(max_size=4), max_size=6)))
    before = base.encode([text])
    # Unknown characters in a row are one token; cut apart they can be several.
    assume(base.tokenizer.token_to_id("<unk>") not in before.tokens)
    spelled, size = [token.base_ids for token in made.tokens], made.report.base_size
    assert changed_outputs(before, saved.encode([text]), spelled, size) == 0
    cut, starts = base.encode_with_boundaries([text])
    assert np.array_equal(cut.tokens, before.tokens)
    assert len(starts) == len(cut.tokens)


@pytest.mark.parametrize(("kind", "export"), PAIRS)
def test_every_new_token_is_produced_and_the_old_ones_stay(kind, export):
    base, (made, saved) = small(kind), made_from(kind, export)
    size, count = len(base.vocabulary()), len(made.tokens)
    assert count == 40
    assert [token.new_id for token in made.tokens] == list(range(size, size + count))
    assert saved.vocabulary() == base.vocabulary() + [t.string.encode() for t in made.tokens]
    assert made.report.unused == 0
    assert saved.special_ids == base.special_ids
    for token in (END, TOOL):
        assert saved.tokenizer.token_to_id(token) == base.tokenizer.token_to_id(token)
    spelled, text = [token.base_ids for token in made.tokens], f"a{TOOL}b{END}"
    assert changed_outputs(base.encode([text]), saved.encode([text]), spelled, size) == 0
    assert made.report.changed == 0 or export == "added"


def additions(base: LoadedTokenizer, *strings: str) -> list[Addition]:
    size = len(base.vocabulary())
    return [Addition(size + k, string) for k, string in enumerate(strings)]


@pytest.mark.parametrize("kind", [*BYTE_LEVEL, "bpe-normalizer", "bpe-never"])
def test_only_the_added_export_matches_inside_words(kind):
    base, uses = small(kind), {}
    size = len(base.vocabulary())
    tokens = additions(base, " in the", " in the house")
    for export in ("pretoken", "added"):
        made = LoadedTokenizer(Exporter(base, export).tokenizer(tokens), kind)
        found = made.encode(["go in therapy", "go in the house", "so in the house in the"])
        uses[export] = np.bincount(found.tokens, minlength=size + 2)[size:].tolist()
    assert uses == {"pretoken": [1, 2], "added": [2, 2]}


def test_a_token_that_is_never_whole_pre_tokens_is_not_matched_as_such():
    base = tokenizer("gpt2")
    inside = Addition(len(base.vocabulary()), " in the", spans=False)
    made = LoadedTokenizer(Exporter(base, "pretoken").tokenizer([inside]), "gpt2")
    assert made.encode([" in the"]).tokens.tolist() == base.encode([" in the"]).tokens.tolist()


def test_a_pair_inside_a_pretoken_is_a_merge_of_the_lowest_priority():
    base = tokenizer("gpt2", size=258)
    size = len(base.vocabulary())
    a, space = map(base.tokenizer.token_to_id, "aĠ")
    pair = [Addition(size, "qz", spans=False), Addition(size + 1, "qzx", spans=False)]
    made = Exporter(base, "pretoken").tokenizer(pair, [(b"q", b"z"), (b"qz", b"x")])
    assert made.encode("aqza qzx").ids == [a, size, a, space, size + 1]


def test_a_single_pretoken_is_matched_whole_without_a_trie():
    base = tokenizer("gpt2", size=258)
    made = Exporter(base, "pretoken").tokenizer(additions(base, "therapy"))
    size = len(base.vocabulary())
    assert made.encode("therapy").ids == [size]
    assert size not in made.encode("therapyx").ids
    pattern = json.loads(made.to_str())["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"]
    assert "therapy" not in pattern


@pytest.mark.parametrize("kind", ["qwen2", *KINDS])
def test_an_augmented_tokenizer_reaches_what_was_predicted_and_can_be_augmented_again(kind):
    base = small(kind)
    for new_tokens in (12, 3):
        made = added(base=base, new_tokens=new_tokens, pcs=2.0)
        report, tokens = made.report, made.report.train.tokens
        assert (report.unused, report.changed, report.added) == (0, 0, new_tokens)
        assert tokens["predicted"] == tokens["reached"] < tokens["before"]
        base = LoadedTokenizer(made.tokenizer, "made", made.files)


def split_by(*parts: Any, **options: Any) -> Tokenizer:
    made = Tokenizer(models.BPE({"a": 0}, [], **options))
    made.pre_tokenizer = parts[0] if len(parts) == 1 else pre_tokenizers.Sequence([*parts])
    return made


def across_words() -> Tokenizer:
    made = Tokenizer(models.BPE({"▁": 0, "a": 1, "a▁": 2, "a▁a": 3}, [("a", "▁"), ("a▁", "a")]))
    made.pre_tokenizer, made.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    return made


PLAIN = pre_tokenizers.ByteLevel(add_prefix_space=False)


@pytest.mark.parametrize(
    ("made", "seen"),
    [
        (split_by(pre_tokenizers.ByteLevel(add_prefix_space=True)), "BPE split by ByteLevel;"),
        (split_by(PLAIN, pre_tokenizers.WhitespaceSplit()), r"by ByteLevel \+ WhitespaceSplit;"),
        (split_by(PLAIN, end_of_word_suffix="##"), "BPE split by ByteLevel;"),
        (split_by(PLAIN, continuing_subword_prefix="##"), "BPE split by ByteLevel;"),
        (Tokenizer(models.WordPiece({"a": 0})), "WordPiece split by none;"),
        (across_words(), "BPE split by Metaspace;"),
    ],
)
def test_other_tokenizers_are_sent_to_the_added_export(made, seen):
    base = LoadedTokenizer(made, "odd")
    with pytest.raises(InputError, match=rf"odd: .*{seen}.*: use --export added, or no new"):
        Exporter(base, "pretoken")
    if MARK not in made.get_vocab():
        assert Exporter(base, "added").tokenizer([]).get_vocab() == made.get_vocab()


def test_holes_in_the_vocabulary_are_refused_where_ids_would_fall_into_them():
    made = Tokenizer(models.BPE({"a": 0, "b": 5}, []))
    made.pre_tokenizer = PLAIN
    base = LoadedTokenizer(made, "holes")
    tokens = additions(base, "a b")
    with pytest.raises(InputError, match=r"'a b' would get another id than 6, .* holes"):
        Exporter(base, "added").tokenizer(tokens)
    assert Exporter(base, "pretoken").tokenizer(tokens).token_to_id("aĠb") == 6


@pytest.mark.parametrize(
    ("kind", "export", "model"),
    [
        *(
            ("gpt2", way, m)
            for way in ("pretoken", "added")
            for m in ("", "qwen2", "llama", "gpt2")
        ),
        *((kind, way, "llama") for kind, way in PAIRS if kind in KINDS),
    ],
)
def test_auto_tokenizer_loads_the_folder_as_it_is_saved(tmp_path, kind, export, model):
    base, (_, saved) = small(kind), made_from(kind, export)
    files = {**base.files, "chat_template.jinja": b"{{ messages }}"}
    save(saved.tokenizer, companions(LoadedTokenizer(base.tokenizer, "tiny", files)), tmp_path)
    if model:
        (tmp_path / "config.json").write_text(json.dumps({"model_type": model}))
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    for text in [*TEXTS, *OUTPUTS[:5], " in therapy"]:
        ids = saved.tokenizer.encode(text).ids
        assert loaded(text).input_ids == ids
        assert loaded.decode(ids) == saved.tokenizer.decode(ids, skip_special_tokens=False)
    assert len(loaded) == len(saved.vocabulary())
    assert (loaded.eos_token, loaded.chat_template) == (END, "{{ messages }}")
    assert load_tokenizer(str(tmp_path)).vocabulary() == saved.vocabulary()


def test_a_tokenizer_without_companions_gets_its_end_token_named():
    made = tokenizer().tokenizer
    made.add_special_tokens([AddedToken("<|endoftext|>", special=True)])
    config = json.loads(companions(LoadedTokenizer(made, "bare"))["tokenizer_config.json"])
    assert config["eos_token"] == "<|endoftext|>"


# What is particular to tokenizers that mark spaces with "▁".
KEPT = [(kind, export) for kind, export in PAIRS if kind in KINDS and kind not in ALWAYS]
PIECES = [MARK, " ", "\n", "é", "日本語", *(word for text in TEXTS for word in text.split())]


def decoded(tokenizer: LoadedTokenizer, text: str) -> str:
    """The text that comes back; unknown characters in a row are one token or several."""
    ids = tokenizer.encode([text]).tokens.tolist()
    return re.sub("(<unk>)+", "<unk>", tokenizer.tokenizer.decode(ids, skip_special_tokens=False))


@pytest.mark.parametrize(("kind", "export"), KEPT)
@settings(max_examples=60, deadline=None)
@given(pieces=st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=6))
def test_a_text_that_begins_with_a_mark_decodes_as_the_base_tokenizer_decodes_it(
    kind, export, pieces
):
    """That is not the text: a base tokenizer reads a mark as the space that it stands for."""
    made, saved = made_from(kind, export)
    text = MARK + "".join(pieces)
    new = {entry.content for entry in made.tokenizer.get_added_tokens_decoder().values()}
    if text not in new:
        assert decoded(saved, text) == decoded(small(kind), text)


@pytest.mark.parametrize("text", ["\n", " ", "\nthe house", MARK, f"{MARK} "])
def test_the_mark_before_a_text_is_put_before_any_character(text):
    _, saved = made_from("bpe-normalizer", "added")
    assert decoded(saved, text) == decoded(small("bpe-normalizer"), text)
    assert not saved.encode([""]).tokens.size


def test_only_a_text_that_spells_a_new_token_and_nothing_else_is_read_as_that_token():
    made, saved = made_from("bpe-normalizer", "added")
    size = made.report.base_size
    spelled = made.tokenizer.id_to_token(size)
    assert spelled.startswith(MARK)
    assert saved.encode([spelled]).tokens.tolist() == [size]
    assert size not in saved.encode([spelled + "q"]).tokens.tolist()[:1]


@pytest.mark.parametrize("kind", ALWAYS)
def test_where_an_added_token_would_gain_a_space_behind_it_one_line_says_so(kind):
    with pytest.raises(InputError, match=rf"{kind}: .* inserts a space after .* --export pretoken"):
        made_from(kind, "added")


@pytest.mark.parametrize("kind", ["bpe-normalizer", "unigram-normalizer"])
def test_with_a_prepending_normalizer_only_words_with_their_space_are_added(kind):
    made, _ = made_from(kind, "added")
    assert made.report.excluded["no_space"] > 0
    assert all(token.string.startswith(" ") for token in made.tokens)


def test_a_vocabulary_with_tokens_across_words_is_not_cut():
    state = json.loads(small("bpe-first").tokenizer.to_str())
    assert splitting(state) is not None
    assert (
        splitting(state | {"pre_tokenizer": state["pre_tokenizer"] | {"replacement": "_"}}) is None
    )
    state["model"]["vocab"] |= {f"{a}▁b": 999 + k for k, a in enumerate("acde")}
    assert splitting(state) is None


@pytest.mark.parametrize("name", ["llama2", "mistral-v1", "mistral-v3"])
@pytest.mark.parametrize("export", ["pretoken", "added"])
def test_real_vocabularies(real_tokenizer, name, export):
    base = real_tokenizer(name)
    made = added(held_out=OUTPUTS[::7], base=base, new_tokens=12, export=export)
    assert (made.report.unused, made.report.changed) == (0, 0)
    tokens = made.report.train.tokens
    assert tokens["predicted"] == tokens["reached"] < tokens["before"] / 3


def test_no_split_where_a_token_could_cross_it():
    base = marked("bpe-gemma")
    for text in (", slot", "a, s, s", ",  s", ", t", "x, s"):
        cut, _ = base.encode_with_boundaries([text])
        assert cut.tokens.tolist() == base.encode([text]).tokens.tolist()
    ids, starts = base.encode_with_boundaries(["a, s b"])
    assert base.tokenizer.token_to_id(",▁s") in ids.tokens
    assert starts.sum() == 3  # "a", ",▁s" and "▁b"
