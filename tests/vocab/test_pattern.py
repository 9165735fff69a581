"""The guarded trie in the split pattern."""

from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasc.tokenizer.token_bytes import spell_bytes
from tasc.vocab.exports.pattern import BasePattern
from tasc.vocab.exports.sequence import one_pattern
from tests.vocab.tiny import BYTE_LEVEL, DIGITS, PATTERNS, SEQUENCES, sequence, split

PLAIN = SEQUENCES["deepseek"][-1]
BASES = {name: BasePattern(pattern) for name, pattern in PATTERNS.items()}
PUNCTUATION = {"type": "Punctuation", "behavior": "Contiguous"}
COMPOSED: dict[str, list[dict[str, Any]]] = {
    "digits": SEQUENCES["digits"],
    "deepseek": SEQUENCES["deepseek"],
    "runs of digits": [DIGITS | {"individual_digits": False}, BYTE_LEVEL],
    "punctuation": [PUNCTUATION, DIGITS, BYTE_LEVEL],
    "digits alone": [DIGITS, PLAIN],
}
SINGLE = {name: BasePattern(one_pattern(steps) or "") for name, steps in COMPOSED.items()}
BASES |= {name: SINGLE[name] for name in COMPOSED if name in SEQUENCES}
PARTS = [
    *("the", " the", " in", "a", "B", " s", "ll", "日", "ʰ", "ǅ", "e\u0301", " \u0301"),
    *("1", "22", "3333", " 7", "²", " ", "  ", "\n", "\n\n", " \n", "\r\n", "\t", "\u00a0"),
    *(".", "...", " -", "'", "'s", "'LL", " '", "/", "_", "{", " {", "}", "🙂", "\u200d", "$"),
]
texts = st.lists(st.sampled_from(PARTS), max_size=12).map("".join)


def cuts(base: BasePattern, text: str) -> set[int]:
    return {0, *accumulate(len(piece) for piece in base.pieces(text))}


@pytest.mark.parametrize("name", BASES)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_ngrams_never_cut_where_the_base_pattern_does_not(name, data):
    base = BASES[name]
    ngrams = []
    for source in data.draw(st.lists(texts.filter(bool), min_size=1, max_size=5)):
        pieces = base.pieces(source)
        begin = data.draw(st.integers(0, len(pieces) - 1))
        end = data.draw(st.integers(begin + 1, len(pieces)))
        ngrams.append("".join(pieces[begin:end]))
    extended = BasePattern(base.extended(ngrams))
    around = st.tuples(texts, st.sampled_from(ngrams), texts).map("".join)
    text = data.draw(around)
    assert "".join(extended.pieces(text)) == text
    assert cuts(extended, text) <= cuts(base, text)


@pytest.mark.parametrize("name", BASES)
def test_the_longest_ngram_that_may_end_there_wins(name):
    base = BASES[name]
    extended = BasePattern(base.extended([" in the", " in the house", " in"]))
    assert extended.pieces(" in the house") == [" in the house"]
    assert extended.pieces(" in the houses") == [" in the", " houses"]
    assert extended.pieces(" in therapy") == base.pieces(" in therapy")


def test_the_look_ahead_follows_the_base_pattern():
    # GPT-2 keeps numbers whole, Qwen2 splits digits; only o200k reads on from a letter to 's.
    assert BASES["gpt2"].guard(" 19") == r"(?!\p{N})"
    assert BASES["qwen2"].guard("19") == ""
    assert BASES["llama3"].guard("19") == r"(?!\p{N})"
    assert BASES["llama3"].guard("199") == ""
    assert BASES["gpt2"].guard(" the") == BASES["qwen2"].guard(" the") == r"(?!\p{L})"
    assert BASES["o200k"].guard(" the") == r"(?!\p{L}|\p{M}|')"


def test_characters_of_regular_expressions_are_taken_literally():
    ngrams = ["a.b", "(x)*", "[^]", "\\d+", "a|b", "#{}-&~", "\x00?"]
    extended = BasePattern(BASES["gpt2"].extended(ngrams))
    for ngram in ngrams:
        assert extended.pieces(ngram) == [ngram]
    assert extended.pieces("axb") == ["axb"]


def test_a_long_chain_of_prefixes_does_not_nest_without_end():
    words = ["ab " * n + "c" for n in range(1, 400)]
    chain = ["x" * n + " y" for n in range(1, 400)] + words
    extended = BasePattern(BASES["gpt2"].extended(chain))
    assert extended.pieces("ab " * 300 + "c") == ["ab " * 300 + "c"]
    assert extended.pieces("x" * 300 + " y") == ["x" * 300 + " y"]


def test_no_ngrams_leave_the_pattern_as_it_is():
    assert BASES["gpt2"].extended([]) == PATTERNS["gpt2"]


@pytest.mark.parametrize("name", COMPOSED)
@settings(max_examples=300, deadline=None)
@given(text=st.one_of(texts, st.text(max_size=20)))
def test_one_pattern_splits_as_the_sequence_does(name, text):
    pieces = [spell_bytes(piece.encode()) for piece in SINGLE[name].pieces(text)]
    assert pieces == [piece for piece, _ in sequence(COMPOSED[name]).pre_tokenize_str(text)]


@pytest.mark.parametrize(
    "steps",
    [
        # Falcon: digits are split after byte level, whose alphabet has digits of its own.
        [PUNCTUATION, BYTE_LEVEL, DIGITS, split("[0-9][0-9][0-9]")],
        # Earlier pieces that are no runs of one class of characters.
        [split(r"\s?[A-Za-z]+"), BYTE_LEVEL],
        [split(r"(?<=a)b"), BYTE_LEVEL],
        [split(r"\p{N}"), split(r"^a+|b"), PLAIN],
        [{"type": "WhitespaceSplit"}, BYTE_LEVEL],
    ],
)
def test_a_sequence_without_an_equivalent_pattern_has_none(steps):
    assert one_pattern(steps) is None
