"""The pass: whatever the windows and batches, it counts what plain counting counts."""

from collections import Counter

import numpy as np
import pytest

import tasc.analysis.sample
import tasc.analysis.scan
from tasc.analysis.scan import scan
from tasc.analysis.token_counts import load_counts, save_counts
from tasc.data.corpus import load
from tasc.data.source import Source
from tasc.data.stream import open_stream
from tasc.errors import InputError, IntegrityError
from tasc.tokenizer.loaded import load_tokenizer
from tests import pico
from tests.analysis.conftest import assert_same
from tests.recipes import write

ROWS = [(f"say {n % 7} again", f"intent {n % 11}: \u00a0slot {n % 3}") for n in range(3000)]


@pytest.fixture
def task(tmp_path):
    rows = [{"input": text, "output": output} for text, output in ROWS]
    rows.insert(5, {"input": "nothing", "output": " "})
    return write(tmp_path / "train.jsonl", rows)


def test_the_pass_counts_every_token_of_every_row(task, tokenizer):
    found = scan(open_stream(Source(str(task)), "train"), tokenizer)
    outputs = [tokenizer.encode([output]).tokens.tolist() for _, output in ROWS]
    unigrams = Counter(token for ids in outputs for token in ids)
    assert {i: c for i, c in enumerate(found.output.counts.tolist()) if c} == dict(unigrams)
    stats = found.output.tokens
    assert (stats.samples, found.dropped) == (3000, 1)
    assert stats.tokens == unigrams.total()
    assert stats.longest == max(map(len, outputs))
    assert stats.bytes_per_token == sum(len(o.encode()) for _, o in ROWS) / stats.tokens
    for row in stats.ngrams:
        grams = Counter(tuple(x[i : i + row.n]) for x in outputs for i in range(len(x) - row.n + 1))
        assert (row.total, row.distinct) == (grams.total(), len(grams))
    assert found.output.words.words == sum(len(output.split()) for _, output in ROWS)
    assert found.distinct_outputs == len({output for _, output in ROWS}) == 33
    assert dict(zip(found.sample.texts, found.sample.weights.tolist(), strict=True)) == Counter(
        output for _, output in ROWS
    )


def test_memory_windows_and_batches_change_nothing(task, tokenizer, monkeypatch):
    source = Source(str(task))
    stream = open_stream(source, "train")
    whole = scan(stream, tokenizer)
    assert_same(scan(load(source, "train"), tokenizer), whole)
    monkeypatch.setattr(tasc.analysis.scan, "WINDOW", 200)
    monkeypatch.setattr(tasc.analysis.scan, "BATCH", 50)
    assert_same(scan(stream, tokenizer), whole)


def test_a_sample_keeps_the_multiplicity_of_what_it_keeps(task, tokenizer, monkeypatch):
    monkeypatch.setattr(tasc.analysis.sample, "SAMPLE", 200)
    monkeypatch.setattr(tasc.analysis.scan, "WINDOW", 100)
    found = scan(open_stream(Source(str(task)), "train"), tokenizer)
    counts = Counter(output for _, output in ROWS)
    assert 0 < sum(map(len, found.sample.texts)) <= 200
    for text, weight in zip(found.sample.texts, found.sample.weights.tolist(), strict=True):
        assert counts[text] == weight
    assert found.distinct_outputs == 33


def test_a_faulty_row_is_named_and_empty_splits_are_refused(task, tokenizer):
    task.write_text('{"input": "a", "output": "b"}\n{"input": \n')
    with pytest.raises(InputError, match=r"train\.jsonl:2: invalid JSON"):
        scan(open_stream(Source(str(task)), "train"), tokenizer)
    task.write_text('{"input": "a", "output": ""}\n')
    with pytest.raises(InputError, match="all 1 outputs of the split 'train' are empty"):
        scan(open_stream(Source(str(task)), "train"))


def test_token_counts_are_bound_to_their_tokenizer(tmp_path):
    one = load_tokenizer(str(pico.make_tokenizer(tmp_path / "one")))
    other = load_tokenizer(str(pico.make_tokenizer(tmp_path / "other", ["abc abd"])))
    counts = np.arange(len(one.vocabulary()))
    save_counts(tmp_path, one, counts[::-1].copy(), counts)
    assert load_counts(tmp_path, one).tolist() == counts.tolist()
    with pytest.raises(InputError, match="does not belong to the tokenizer"):
        load_counts(tmp_path, other)
    with pytest.raises(InputError, match="does not exist: write it with tasc analyze"):
        load_counts(tmp_path / "one", one)
    (tmp_path / "token_counts.safetensors").write_bytes(b"nonsense")
    with pytest.raises(IntegrityError, match="damaged"):
        load_counts(tmp_path, one)
