"""Indexes that are built in pieces or merged: equal byte for byte, however they are cut."""

from itertools import chain

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tasc._native import NgramBuilder, NgramIndex, pack_text
from tasc.commands.calls import index
from tasc.decoding.drafters.ngram.building import IndexFile
from tasc.decoding.drafters.ngram.index import FILE, build_index, load_index
from tasc.decoding.drafters.ngram.options import Counts, IndexOptions, read_counts
from tasc.errors import InputError
from tasc.tokenizer.loaded import Encoded
from tests.cli import done
from tests.decoding.scripted import ints
from tests.oracles import MARK, counts_of
from tests.recipes import write

samples = st.lists(st.lists(st.integers(0, 4), max_size=12), min_size=1, max_size=12)


def encoded(texts):
    offsets = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    return Encoded(np.array([*chain.from_iterable(texts)], np.int32), offsets)


@given(
    samples,
    samples,
    st.builds(Counts, n_max=st.integers(1, 15), p_min=st.integers(1, 3), mark=st.booleans()),
    st.sampled_from([1, 200, 1000, 1 << 30]),
)
@example([[]], [[]], Counts(p_min=3), 1)  # without any n-gram
@settings(max_examples=100, deadline=None)
def test_pieces_on_disk_are_the_index_that_is_made_in_memory(
    tokenizer, tmp_path_factory, first, second, counts, memory
):
    folder = tmp_path_factory.mktemp("index")
    file = IndexFile(folder / FILE, tokenizer, counts)
    file.add(encoded(first))
    file.add(encoded(second))
    file.finish(memory)
    assert [path.name for path in folder.iterdir()] == [FILE]
    outputs = [ints(*text) for text in (*first, *second)]
    whole = build_index(outputs, tokenizer.eos_id, counts)
    made = load_index(folder, tokenizer)
    assert made.check_integrity() is None
    assert made.block.tobytes() == whole.block.tobytes()
    assert (file.texts, file.tokens) == (len(outputs), sum(map(len, outputs)))


@given(samples, st.integers(1, 6), st.integers(1, 3), st.booleans())
@settings(max_examples=100, deadline=None)
def test_contexts_are_those_that_occur_again(texts, n_max, p_min, mark):
    end = 9
    made = build_index([ints(*t) for t in texts], end, Counts(n_max, p_min, mark=mark))
    seen = counts_of([[*[MARK] * mark, *text, end] for text in texts], n_max)
    again = {c for c, follow in seen.items() if c and follow.total() >= max(2, p_min)}
    if mark and len(texts) > 1:
        again.add((MARK,))  # whatever is dropped
    assert made.contexts == 1 + len(again)
    assert made.vocabulary == end + 1


def test_borders_cut_between_tokens_and_a_frequent_one_stands_alone():
    texts = encoded([[1, 2, 1, 3, 1, 1]])
    text = pack_text(texts.tokens, texts.offsets, 9, True)
    builder = NgramBuilder(text, 9, 6, 0.8, 1.0, 1, True)
    assert builder.vocabulary == 10
    assert builder.borders(2) == [0, 2, 10, 11]
    assert builder.borders(1 << 40) == [0, 11]
    with pytest.raises(ValueError, match=r"a piece has tokens of 0\.\.10"):
        builder.piece(3, 12)


def test_a_text_that_is_none_is_refused():
    for text, word in (
        (b"\1\0", "three bytes"),
        (b"\1\0\0", "last sample ends"),
        (b"\1\0\0\xff\xff\x0f\x09\0\0", "marks before samples"),
        (b"\xff\xff\xff\x09\0\0", "20 bits"),
    ):
        with pytest.raises(ValueError, match=word):
            NgramBuilder(np.frombuffer(text, np.uint8), 9, 6, 0.8, 1.0, 1, True)


def rows(count):
    return [{"input": str(i), "output": f"play {i % 7} of {i % 5} songs"} for i in range(count)]


def test_merged_indexes_are_the_index_of_the_whole(capsys, tmp_path, tokenizer):
    whole = rows(300)
    parts = {"whole": whole, "1": whole[:90], "2": whole[90:110], "3": whole[110:]}
    for name, part in parts.items():
        write(tmp_path / f"{name}.jsonl", part)
    given = ("--tokenizer", tokenizer.path, "--output")
    for name in ("whole", "1", "2"):
        done(capsys, "index", tmp_path / f"{name}.jsonl", *given, tmp_path / name)
    merge = [word for name in "12" for word in ("--merge", tmp_path / name)]
    more = (*merge, "--memory", "0.001", "--executor", "processes")
    joined = done(capsys, "index", tmp_path / "3.jsonl", *given, tmp_path / "joined", *more)
    assert joined["outputs"] == 300
    files = [(tmp_path / name / FILE).read_bytes() for name in ("whole", "joined")]
    assert files[0] == files[1]


def test_what_cannot_be_merged_is_refused_in_a_line(tmp_path, tokenizer):
    (tmp_path / "old").mkdir()
    other = IndexFile(tmp_path / "old" / FILE, tokenizer, Counts(mark=False))
    other.add(encoded([[1, 2]]))
    other.finish(1 << 20)
    file = IndexFile(tmp_path / FILE, tokenizer, Counts())
    with pytest.raises(
        InputError, match=r"does not mark where outputs begin.*make it again with tasc index"
    ):
        file.add_index(tmp_path / "old")
    with pytest.raises(InputError, match="holds no index"):
        file.add_index(tmp_path / "none")
    with pytest.raises(InputError, match="token ids below"):
        file.add(encoded([[1 << 20]]))


def test_an_index_is_there_after_its_temporary_folder_is_gone(tmp_path, tokenizer):
    task = write(tmp_path / "task.jsonl", rows(20))
    made = index(IndexOptions(source=str(task), tokenizer=tokenizer.path))
    assert not made.path.exists()
    made.save(tmp_path)
    assert NgramIndex(load_index(tmp_path, tokenizer).block).check_integrity() is None
    assert made.index.block.tobytes() == load_index(tmp_path, tokenizer).block.tobytes()


def test_what_is_counted_is_written_as_the_options_of_a_method_are():
    assert IndexOptions(source="d", tokenizer="t").rules == Counts()
    text = "n_max=8,p_min=2,discount=0.6,strength=4,mark=false"
    assert read_counts(text) == Counts(8, 2, 0.6, 4.0, mark=False)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("width=1", "with the keys n_max, p_min, discount, strength, mark"),
        ("n_max=2,n_max=3", "once each"),
        ("n_max", "n_max must be int, got ''"),
        ("n_max=" + "9" * 5000, "n_max must be int"),
        ("n_max=99", "n_max must lie between 1 and 15, got 99"),
        ("discount=nan", "discount must be at least 0 and below 1, got nan"),
        ("mark=1", "mark must be true or false, got '1'"),
    ],
)
def test_what_cannot_be_counted_is_refused_in_one_line(text, said):
    with pytest.raises(InputError) as caught:
        IndexOptions(source="d", tokenizer="t", counts=text)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
