"""Both exports for tokenizers that mark spaces with "▁": SentencePiece's BPE and Unigram."""

import json

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from tasc.errors import InputError
from tasc.tokenizer.loaded import LoadedTokenizer
from tasc.tokenizer.word_boundaries import splitting
from tasc.vocab.augment import Augmentation, augment
from tasc.vocab.measure.saved import changed_outputs
from tests.options import AugmentOptions
from tests.vocab.marked import KINDS, REAL, marked, real
from tests.vocab.tiny import END, TEXTS, TOOL, corpus

ALWAYS = [kind for kind in KINDS if kind.endswith("always")]
OUTPUTS = [
    f"intent: {verb}, slot fills: {{colour: {word}, size: {k}}}"
    for verb in ("paint_wall", "buy_paint", "mix_paint_well")
    for k, word in enumerate(["red", "green", "blue", "old", "new", "tall"] * 4)
]
BASES = {kind: marked(kind) for kind in KINDS}
MADE = {
    (kind, export): augment(
        corpus(OUTPUTS), BASES[kind], AugmentOptions(new_tokens=12, export=export, pcs=2.0)
    )
    for kind in KINDS
    for export in ("pretoken", "added")
    if (kind in ALWAYS) <= (export == "pretoken")
}
TEXT = st.lists(
    st.sampled_from([*OUTPUTS[:9], *TEXTS, " ", "  ", "\n", "rapy", "1", "é", ",", TOOL, "_wall"])
    | st.text(max_size=4),
    max_size=5,
).map("".join)


KNOWN = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.filter_too_much]
)


def loaded(made: Augmentation) -> LoadedTokenizer:
    return LoadedTokenizer(made.tokenizer, "made")


def decoded(base: LoadedTokenizer, text: str) -> str:
    ids = base.encode([text]).tokens.tolist()
    return base.tokenizer.decode(ids, skip_special_tokens=False)


def knows(base: LoadedTokenizer, text: str) -> bool:
    """Unknown characters in a row are one token; cut apart they can be several."""
    return base.tokenizer.token_to_id("<unk>") not in base.encode([text]).tokens.tolist()


@pytest.mark.parametrize(("kind", "export"), MADE)
@settings(max_examples=25, deadline=None)
@given(text=TEXT)
def test_text_survives_wherever_it_survives_the_base_tokenizer(kind, export, text):
    if decoded(BASES[kind], text) == text:
        assert decoded(loaded(MADE[kind, export]), text) == text


@pytest.mark.parametrize("kind", KINDS)
@KNOWN
@given(text=TEXT)
def test_pretoken_only_joins_what_the_base_tokenizer_makes(kind, text):
    base, made = BASES[kind], MADE[kind, "pretoken"]
    assume(knows(base, text))
    spelled = [token.base_ids for token in made.tokens]
    size = len(base.vocabulary())
    assert changed_outputs(base.encode([text]), loaded(made).encode([text]), spelled, size) == 0


@pytest.mark.parametrize("kind", KINDS)
@KNOWN
@given(text=TEXT)
def test_cutting_a_text_finely_changes_no_token(kind, text):
    base = BASES[kind]
    assume(knows(base, text))
    tokens, starts = base.encode_with_boundaries([text])
    assert np.array_equal(tokens.tokens, base.encode([text]).tokens)
    assert len(starts) == len(tokens.tokens)


@pytest.mark.parametrize(("kind", "export"), MADE)
def test_every_new_token_is_produced_and_the_old_ones_stay(kind, export):
    base, made = BASES[kind], MADE[kind, export]
    size = len(base.vocabulary())
    produced = {i for entry in made.tokenizer.encode_batch(OUTPUTS) for i in entry.ids}
    assert produced >= set(range(size, size + len(made.tokens)))
    assert made.report.unused == 0
    assert len(made.tokens) in {11, 12}  # unused ones may leave no candidate behind
    strings = [token.string.encode() for token in made.tokens]
    assert loaded(made).vocabulary() == base.vocabulary() + strings
    for token in (END, TOOL):
        assert made.tokenizer.token_to_id(token) == base.tokenizer.token_to_id(token)
    text = f"a{TOOL}b{END}"
    assert loaded(made).encode([text]).tokens.tolist() == base.encode([text]).tokens.tolist()
    if export == "pretoken":
        assert (made.report.changed, made.report.train.tokens["reached"]) == (
            0,
            made.report.train.tokens["predicted"],
        )


@pytest.mark.parametrize("kind", ALWAYS)
def test_where_an_added_token_would_gain_a_space_behind_it_one_line_says_so(kind):
    with pytest.raises(InputError, match=rf"{kind}: .* inserts a space after .* --export pretoken"):
        augment(corpus(OUTPUTS), BASES[kind], AugmentOptions(new_tokens=2, export="added"))


def test_with_a_prepending_normalizer_only_words_with_their_space_are_added():
    for kind in ("bpe-normalizer", "unigram-normalizer"):
        made = MADE[kind, "added"]
        assert made.report.excluded["no_space"] > 0
        assert all(token.string.startswith(" ") for token in made.tokens)


@pytest.mark.parametrize(("kind", "export"), MADE)
def test_auto_tokenizer_loads_the_folder_as_it_is_saved(tmp_path, kind, export):
    made = MADE[kind, export]
    made.save(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama"}))
    found = AutoTokenizer.from_pretrained(tmp_path)
    for text in [*TEXTS, *OUTPUTS[:5]]:
        ids = made.tokenizer.encode(text).ids
        assert found(text).input_ids == ids
        assert found.decode(ids) == made.tokenizer.decode(ids, skip_special_tokens=False)
    assert found.eos_token == END


@pytest.mark.parametrize("kind", ["bpe-normalizer", "unigram-first"])
def test_an_augmented_tokenizer_can_be_augmented_again(kind):
    once = LoadedTokenizer(MADE[kind, "pretoken"].tokenizer, "once", BASES[kind].files)
    again = augment(corpus(OUTPUTS), once, AugmentOptions(new_tokens=3, pcs=2.0))
    assert (again.report.unused, again.report.changed, len(again.tokens)) == (0, 0, 3)
    assert (
        again.report.train.tokens["reached"] < MADE[kind, "pretoken"].report.train.tokens["reached"]
    )


def test_a_vocabulary_with_tokens_across_words_is_not_cut():
    state = json.loads(BASES["bpe-first"].tokenizer.to_str())
    assert splitting(state) is not None
    state["model"]["vocab"] |= {f"{a}▁b": 999 + k for k, a in enumerate("acde")}
    assert splitting(state) is None


@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize("export", ["pretoken", "added"])
def test_real_vocabularies(data_dir, name, export):
    base = real(data_dir, name)
    options = AugmentOptions(new_tokens=12, export=export)
    made = augment(corpus(OUTPUTS), base, options, OUTPUTS[::7])
    assert (made.report.unused, made.report.changed) == (0, 0)
    assert (
        made.report.train.tokens["predicted"]
        == made.report.train.tokens["reached"]
        < made.report.train.tokens["before"] / 3
    )


def test_no_split_where_a_token_could_cross_it():
    base = BASES["bpe-gemma"]
    crossing = base.tokenizer.token_to_id(",▁s")
    for text in (", slot", "a, s, s", ",  s", ", t", "x, s"):
        cut, _ = base.encode_with_boundaries([text])
        assert cut.tokens.tolist() == base.encode([text]).tokens.tolist()
    ids, starts = base.encode_with_boundaries(["a, s b"])
    assert crossing in ids.tokens.tolist()
    assert starts.sum() == 3  # "a", ",▁s" and "▁b"
