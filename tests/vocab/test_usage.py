"""How new tokens are used."""

import numpy as np
import pytest

from tasc.tokenizer.loaded import LoadedTokenizer
from tasc.vocab.exports.export import Addition, Exporter
from tasc.vocab.measure.saved import changed_outputs
from tests.vocab.marked import marked
from tests.vocab.tiny import tokenizer


def used(base, export, texts, strings):
    """Return the occurrences of each new token, and the number of texts that it changes."""
    size = len(base.vocabulary())
    additions = [Addition(size + k, string) for k, string in enumerate(strings)]
    saved = LoadedTokenizer(Exporter(base, export).tokenizer(additions), "saved")
    before, after = base.encode(texts), saved.encode(texts)
    counts = np.bincount(after.tokens, minlength=size + len(strings))[size:]
    spelled = [base.encode([string]).tokens.tolist() for string in strings]
    return counts.tolist(), changed_outputs(before, after, spelled, size)


@pytest.mark.parametrize("kind", ["gpt2", "qwen2", "bpe-normalizer", "bpe-never"])
def test_added_tokens_match_inside_words_and_pretokens_do_not(kind):
    base = marked(kind) if kind.startswith("bpe") else tokenizer(kind)
    texts = ["go in therapy", "go in the house", "so in the house in the"]
    strings = (" in the", " in the house")
    assert used(base, "added", texts, strings)[0] == [2, 2]
    assert used(base, "pretoken", texts, strings)[0] == [1, 2]


def test_a_token_inside_a_base_token_changes_its_text():
    base = tokenizer("gpt2")
    assert len(base.encode([" house"]).tokens) == 1
    assert used(base, "added", [" house"], ("ous",)) == ([1], 1)
