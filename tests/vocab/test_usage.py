"""How new tokens are used."""

import pytest

from tasc.analysis.outputs import encode_outputs
from tasc.tokenizer.loaded import LoadedTokenizer
from tasc.vocab.exports.export import Addition, Exporter
from tasc.vocab.measure.saved import usage
from tests.vocab.marked import marked
from tests.vocab.tiny import tokenizer


def used(base, export, texts, strings):
    size = len(base.vocabulary())
    additions = [Addition(size + k, string) for k, string in enumerate(strings)]
    saved = LoadedTokenizer(Exporter(base, export).tokenizer(additions), "saved")
    outputs = encode_outputs(texts, base, export)
    added = [string.encode() for string in strings]
    after = saved.encode(outputs.texts)
    counts, splits = usage(outputs, after, base.vocabulary(), added)
    return counts.tolist(), splits


@pytest.mark.parametrize("kind", ["gpt2", "qwen2", "bpe-normalizer", "bpe-never"])
def test_added_tokens_split_words_and_pretokens_do_not(kind):
    base = marked(kind) if kind.startswith("bpe") else tokenizer(kind)
    texts = ["go in therapy", "go in the house", "so in the house in the", "go in therapy"]
    strings = (" in the", " in the house")
    found = used(base, "added", texts, strings)
    assert found == ([3, 2], 2)
    safe = used(base, "pretoken", texts, strings)
    assert safe == ([1, 2], 0)


def test_a_token_inside_a_base_token_splits_it():
    base = tokenizer("gpt2")
    assert len(base.encode([" house"]).tokens) == 1
    found = used(base, "added", [" house"], ("ous",))
    assert found == ([1], 1)
