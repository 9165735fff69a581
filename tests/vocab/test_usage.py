"""How new tokens are used, and what a better segmentation would save."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasc.data.tokenizer import Encoded, LoadedTokenizer
from tasc.vocab.export import Addition, Exporter
from tasc.vocab.optimum import optimum
from tasc.vocab.outputs import Outputs
from tasc.vocab.usage import usage
from tests.vocab.marked import marked
from tests.vocab.tiny import tokenizer


def used(base, export, texts, strings):
    size = len(base.vocabulary())
    additions = [Addition(size + k, string) for k, string in enumerate(strings)]
    saved = LoadedTokenizer(Exporter(base, export).tokenizer(additions), "saved")
    outputs = Outputs.of(texts, base, export)
    added = [string.encode() for string in strings]
    after = saved.encode(outputs.texts)
    return usage(outputs, after, base.vocabulary(), added), outputs, after, added


@pytest.mark.parametrize("kind", ["gpt2", "qwen2", "bpe-normalizer", "bpe-never"])
def test_added_tokens_split_words_and_pretokens_do_not(kind):
    base = marked(kind) if kind.startswith("bpe") else tokenizer(kind)
    texts = ["go in therapy", "go in the house", "so in the house in the", "go in therapy"]
    strings = (" in the", " in the house")
    found, *_ = used(base, "added", texts, strings)
    assert (found.counts.tolist(), found.splits) == ([3, 2], 2)
    safe, *_ = used(base, "pretoken", texts, strings)
    assert (safe.counts.tolist(), safe.splits) == ([1, 2], 0)


def test_a_token_inside_a_base_token_splits_it():
    base = tokenizer("gpt2")
    assert len(base.encode([" house"]).tokens) == 1
    found, *_ = used(base, "added", [" house"], ("ous",))
    assert (found.counts.tolist(), found.splits) == ([1], 1)


def brute(pieces, starts, strings):
    """All ways to join runs of pieces, tried one after another."""
    best = len(pieces)
    edges = range(1, len(pieces))
    for count in range(len(pieces)):
        for cuts in itertools.combinations(edges, count):
            runs = itertools.pairwise([0, *cuts, len(pieces)])
            if all(allowed(pieces, starts, strings, a, b) for a, b in runs):
                best = min(best, count + 1)
    return best


def allowed(pieces, starts, strings, first, last):
    if last - first == 1:
        return True
    if b"".join(pieces[first:last]) not in strings:
        return False
    if starts is None:
        return True
    borders = [*starts, 1]
    borders[0] = 1
    whole = borders[first] and borders[last]
    return bool(whole or not any(borders[first + 1 : last]))


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from("ab"), min_size=1, max_size=9),
    st.lists(st.text("ab", min_size=2, max_size=5).map(str.encode), max_size=5, unique=True),
    st.lists(st.integers(0, 1), min_size=9, max_size=9),
    st.booleans(),
)
def test_the_optimum_is_that_of_all_segmentations(letters, strings, flags, restricted):
    tokens = np.array([ord(letter) - ord("a") for letter in letters], np.int32)
    starts = np.array(flags[: len(letters)], np.uint8)
    encoded = Encoded(tokens, np.array([0, len(tokens)], np.int64))
    outputs = Outputs(["".join(letters)], np.ones(1, np.int64), encoded, starts, restricted)
    found = optimum(outputs, encoded, [b"a", b"b"], strings)
    pieces = [letter.encode() for letter in letters]
    assert found.shortest == brute(pieces, starts.tolist() if restricted else None, set(strings))
    assert found.reached == len(letters)


def test_leftmost_longest_can_be_longer_than_the_optimum():
    strings = (" in the", " the house so")
    _, outputs, after, added = used(tokenizer("gpt2"), "pretoken", [" in the house so"], strings)
    found = optimum(outputs, after, tokenizer("gpt2").vocabulary(), added)
    assert found.shortest == 2
    assert found.reached > 2
    assert found.excess == found.reached / 2 - 1
