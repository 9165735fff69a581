"""What becomes of files, folders and the Hub: examples."""

import json
from dataclasses import replace
from datetime import date, time
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from tasc.analysis.scan import scan
from tasc.data.corpus import load, read_table, splits
from tasc.data.source import Source
from tasc.errors import InputError, UnavailableError
from tests.cli import tasc
from tests.data.files import (
    ROWS,
    as_csv,
    as_parquet,
    contents,
    jsonl,
    message,
    pairs,
    read,
    source,
    write,
)
from tests.pico import make_tokenizer

OUTPUTS = [row["output"] for row in ROWS]


@pytest.mark.parametrize("packed", ["", ".gz"])
@pytest.mark.parametrize("kind", ["jsonl", "json", "csv", "parquet"])
def test_every_kind_of_file_gives_the_same_examples(tmp_path, kind, packed):
    path = write(tmp_path / f"other.{kind}{packed}", contents(kind, tmp_path))
    corpus = load(Source(path, template="{id}: {input}\n"), "train")
    assert pairs(path) == [(row["input"], row["output"]) for row in ROWS]
    assert corpus.prompts[0] == "1: wake me at nine\n"
    assert corpus.fingerprint == read(tmp_path, ROWS, template="{id}: {input}\n").fingerprint


@pytest.mark.parametrize("indent", [None, 2])
def test_a_json_file_may_hold_one_object_a_line_or_all_rows_as_data(tmp_path, indent):
    rows = {"version": 1, "data": ROWS}
    for data in (jsonl(ROWS), json.dumps(rows, indent=indent).encode()):
        assert load(Source(write(tmp_path / "task.json", data)), "train").outputs == OUTPUTS
    path = write(tmp_path / "one.json", json.dumps(ROWS[0], indent=indent).encode())
    assert load(Source(path), "train").outputs == OUTPUTS[:1]
    splits = write(tmp_path / "splits.json", json.dumps({"train": ROWS}, indent=indent).encode())
    assert "1: no column 'input'; it has train: " in message(Source(splits))


@pytest.mark.parametrize(("name", "separator"), [("t.csv", ";"), ("t.csv", "\t"), ("t.tsv", "\t")])
def test_semicolons_and_tabs_separate_too(tmp_path, name, separator):
    text = 'input;output\n"a; b, c";d,e\n'.replace(";", separator)
    assert pairs(write(tmp_path / name, text.encode())) == [(f"a{separator} b, c", "d,e")]


def test_tabs_separate_a_tsv_whose_header_has_more_commas_and_a_stray_quote_is_refused(tmp_path):
    rows = b"input\toutput\tx, y, z and more\na\tb\t\n"
    assert pairs(write(tmp_path / "t.tsv", rows)) == [("a", "b")]
    with pytest.raises(InputError, match=r"t\.tsv:5: a quote that began in a line before ends"):
        pairs(write(tmp_path / "t.tsv", rows + b'"c\td\t\ne\tf\t\ng"\th\t\n'))


def test_csv_text_is_taken_as_it_stands_and_nothing_is_left_in_the_folder(tmp_path):
    rows = [{"input": "007", "output": "NA"}, {"input": "1e3", "output": "true"}]
    as_csv(rows, tmp_path / "task.csv")
    assert pairs(tmp_path / "task.csv") == [("007", "NA"), ("1e3", "true")]
    assert [path.name for path in tmp_path.iterdir()] == ["task.csv"]


def test_a_folder_has_the_splits_its_files_are_named_after(tmp_path):
    write(tmp_path / "train.jsonl.gz", jsonl(ROWS))
    write(tmp_path / "dev.jsonl", jsonl(ROWS[:1]))
    write(tmp_path / "test-00000-of-00002.jsonl", jsonl(ROWS[:2]))
    write(tmp_path / "test-00001-of-00002.jsonl", jsonl(ROWS[2:]))
    write(tmp_path / "labels.jsonl", jsonl([{"label": 1}]))
    folder = Source(str(tmp_path))
    assert splits(folder) == ["train", "validation", "test"]
    for name in ("validation", "valid", "dev"):
        assert load(folder, name).split == "validation"
    assert load(folder, "test").outputs == OUTPUTS


def test_a_single_file_is_the_training_split(tmp_path):
    given = source(tmp_path, ROWS)
    assert splits(given) == ["train"]
    said = f"{given.path}: no split 'test'; it has train: choose one of them"
    assert message(given, "test") == said


def test_a_list_valued_column_is_taken_as_words(tmp_path):
    rows = [
        {"tokens": ["do", "n't", "New York"], "output": ["A", "B"]},
        {"tokens": [], "output": "C D"},
    ]
    corpus = read(tmp_path, rows, input_column="tokens")
    assert corpus.examples[0].input == "do n't New York"
    first = next(corpus.rows())
    assert first.input_words == (("do", "n't", "New York"), ())
    assert first.output_words == (("A", "B"), ("C", "D"))
    assert corpus.prompts[0] == "do n't New York\n"


def test_text_has_no_list_of_words_and_is_split_at_whitespace_where_they_are_counted(tmp_path):
    corpus = read(tmp_path, [{"input": " a  b\nc ", "output": "x"}])
    assert next(corpus.rows()).input_words is None
    assert scan(corpus).input.words.words == 3


def test_scalars_become_text_and_unused_columns_may_hold_anything(tmp_path):
    deep = {"input": None, "output": True, "extra": {"deep": [[]]}}
    rows = [{"input": 7, "output": 1.5, "extra": 1}, deep]
    assert pairs(source(tmp_path, rows).path) == [("7", "1.5"), ("", "true")]
    as_parquet([{"input": date(2026, 1, 2), "output": Decimal("1.50")}], tmp_path / "t.parquet")
    assert pairs(tmp_path / "t.parquet") == [("2026-01-02", "1.50")]
    as_parquet([{"input": time(3, 4, 5), "output": "x"}], tmp_path / "t.parquet")
    assert pairs(tmp_path / "t.parquet") == [("03:04:05", "x")]


@pytest.mark.parametrize("kind", ["float32", "float16"])
@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_short_floats_have_the_digits_that_json_has(tmp_path, kind, suffix):
    written = [0.1, 1.5, 2.0, 3e-05, 0.3]
    numbers = pa.array(np.array(written, kind))
    objects = pa.StructArray.from_arrays([numbers], ["share"])
    lists = pa.ListArray.from_arrays(range(6), objects)
    if suffix == "arrow":  # Parquet has one kind of lists
        lists = pa.ListViewArray.from_arrays(range(5), [1] * 5, objects)
    table = pa.table({"input": numbers, "output": ["a"] * 5, "rows": lists})
    path = tmp_path / f"t.{suffix}"
    (pq.write_table if suffix == "parquet" else feather.write_feather)(table, str(path))
    assert pairs(path) == [(json.dumps(number), "a") for number in written]
    found = read_table(Source(str(path), input_column="rows"), "train").columns["rows"]
    assert found == [[{"share": number}] for number in written]


@pytest.mark.parametrize("number", ["1e400", "-1e400", "Infinity"])
def test_a_number_that_json_cannot_hold_is_no_text(tmp_path, number):
    line = f'{{"input": "x", "output": {number}}}\n'
    path = write(tmp_path / "t.jsonl", line.encode())
    assert "t.jsonl:1: column 'output' holds a number beyond 1.8e308" in message(Source(path))


def test_rows_with_an_empty_output_are_dropped_and_counted(tmp_path):
    nothing = [{"input": "x", "output": empty} for empty in (" ", None, float("nan"))]
    corpus = read(tmp_path, [*ROWS, *nothing])
    assert (len(corpus.examples), corpus.dropped) == (3, 3)


def test_a_step_tells_how_many_examples_it_leaves_out(capsys, tmp_path):
    folder, tokenizer = tmp_path / "task", make_tokenizer(tmp_path / "tokenizer")
    empty = {"input": "x", "output": ""}
    write(folder / "train.jsonl", jsonl([*ROWS, empty, empty]))
    write(folder / "validation.jsonl", jsonl([*ROWS, empty]))
    out = ("--output", tmp_path / "tuned")
    code, _, err = tasc(capsys, "tune", folder, "--tokenizer", tokenizer, *out)
    assert code == 0, err
    line = f"{folder}: skipped examples with an empty output: "
    assert line + "1 of validation and 2 of train" in err.splitlines()


def test_space_lines_and_a_byte_order_mark_are_passed_over(tmp_path):
    lines = b"\xef\xbb\xbf" + jsonl(ROWS[:1]) + b"\n  \n" + jsonl(ROWS[1:])
    assert load(Source(write(tmp_path / "t.jsonl", lines)), "train").outputs == OUTPUTS


def test_a_limit_draws_the_same_sample_for_the_same_seed_in_the_original_order(tmp_path):
    given = source(tmp_path, [{"input": str(n), "output": f"o{n}"} for n in range(100)])
    first = load(given, "train", limit=20, seed=1)
    numbers = [int(e.input) for e in first.examples]
    assert len(set(numbers)) == 20
    assert numbers == sorted(numbers)
    assert load(given, "train", limit=20, seed=1).fingerprint == first.fingerprint
    assert load(given, "train", limit=20, seed=2).fingerprint != first.fingerprint
    assert load(given, "train", limit=1000).fingerprint == load(given, "train").fingerprint


def test_the_fingerprint_tells_prompts_and_words_apart(tmp_path):
    rows = [{"input": "a b", "words": ["a", "b"], "output": "x"}]
    ways = ({}, {"template": "{input}"}, {"input_column": "words"})
    assert len({read(tmp_path, rows, **named).fingerprint for named in ways}) == 3


def test_a_template_fills_in_columns_cuts_them_and_keeps_braces(tmp_path):
    rows = [{"question": "why?", "context": "so long", "answer": "because"}]
    template = "{{q}} {input} | {question:.99} | {context:.2}\n"
    named = {"input_column": "question", "output_column": "answer", "template": template}
    assert read(tmp_path, rows, **named).prompts == ["{q} why? | why? | so\n"]


def test_the_first_column_of_a_template_without_input_is_the_input(tmp_path):
    path = write(tmp_path / "task.csv", b"text,place,label\nred,here,a\n")
    given = Source(path, output_column="label", template="{text} ({place}):\n")
    corpus = load(given, "train")
    assert corpus.prompts == ["red (here):\n"]
    assert corpus.examples[0].input == "red"
    with pytest.raises(InputError, match="no column 'input'"):
        load(replace(given, template="{input} ({place}):\n"), "train")


@pytest.fixture
def hub(monkeypatch):
    import datasets
    from huggingface_hub import HfApi

    monkeypatch.setattr(HfApi, "dataset_info", lambda *_, **__: None)
    monkeypatch.setattr(datasets, "get_dataset_split_names", lambda *_: ["train", "dev"])
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: datasets.Dataset.from_list(ROWS))
    monkeypatch.setattr(datasets, "load_dataset_builder", lambda *_, **__: None)
    return Source("someone/some-task")


def test_a_data_set_of_the_hub_is_read_like_a_file(hub):
    assert splits(hub) == ["train", "dev"]
    corpus = load(hub, "validation")
    assert (corpus.split, corpus.outputs) == ("dev", OUTPUTS)
    line = message(hub, "test")
    assert line.startswith("someone/some-task: no split 'test'; it has train, dev: ")
    line = message(Source(hub.path, "text"))
    assert "someone/some-task (train): no column 'text'; it has id, input, output: " in line


ODD = ["007", "1.0", "1e3", "NA", "null", "None", "nan", "true", "2024-01-02"]
ODD += ["2024-01-02T03:04:05"]


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A folder that `datasets` finds, and the Hub's client fetches files from."""
    import datasets
    import huggingface_hub
    from huggingface_hub import HfApi

    builder, names = datasets.load_dataset_builder, datasets.get_dataset_split_names
    folder = tmp_path / "repository"

    def remote(*_, **__):
        found = builder(str(folder))
        files = {
            split: [f"hf://datasets/some/one@refs%2Fpr%2F1/{Path(name).name}" for name in listed]
            for split, listed in found.config.data_files.items()
        }
        found.config.data_files = files
        return found

    def fetch(repository, name, repo_type, revision):
        assert (repository, repo_type, revision) == ("some/one", "dataset", "refs/pr/1")
        return str(folder / name)

    monkeypatch.setattr(HfApi, "dataset_info", lambda *_, **__: None)
    monkeypatch.setattr(datasets, "load_dataset_builder", remote)
    monkeypatch.setattr(datasets, "get_dataset_split_names", lambda *_: names(str(folder)))
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", fetch)
    return folder


@pytest.mark.parametrize("kind", ["csv", "jsonl", "json"])
def test_outputs_of_the_hub_are_the_text_of_its_files(repository, kind):
    """`datasets` 5.2.0 would make other types, and so other texts, of most of these columns."""
    row = {f"c{i}": text for i, text in enumerate(ODD)}
    for split in ("train", "test"):
        rows = [{"input": f"{split} {i}", **row} for i in range(3)]
        write(repository / f"{split}.{kind}", contents(kind, repository.parent, rows))
    for name, text in row.items():
        corpus = load(Source("some/one", output_column=name), "test")
        assert corpus.outputs == [text] * 3
        assert [e.input for e in corpus.examples] == ["test 0", "test 1", "test 2"]


CARD = """---
dataset_info:
  features:
  - name: input
    dtype: string
  - name: output
    dtype:
      class_label:
        names:
          '0': 'no'
          '1': 'yes'
---
"""


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_labels_of_the_hub_have_the_names_that_datasets_gives_them(repository, monkeypatch, kind):
    """The card of a data set may name the labels of CSV files."""
    import datasets

    label = datasets.ClassLabel(names=["no", "yes"])
    features = datasets.Features({"input": datasets.Value("string"), "output": label})
    rows = [{"input": str(i), "output": i % 2} for i in range(3)]
    made = datasets.Dataset.from_list(rows, features=features)
    repository.mkdir()
    (repository / "README.md").write_text(CARD if kind == "csv" else "")
    file = str(repository / f"train.{kind}")
    made.to_csv(file) if kind == "csv" else made.to_parquet(file)
    read_folder, cache = datasets.load_dataset, str(repository.parent / "cache")

    def load_folder(*_, split):
        return read_folder(str(repository), split=split, cache_dir=cache)

    monkeypatch.setattr(datasets, "load_dataset", load_folder)
    found = load_folder(split="train")
    assert found["output"] == [0, 1, 0]
    expected = [found.features["output"].int2str(value) for value in found["output"]]
    assert load(Source("some/one"), "train").outputs == expected == ["no", "yes", "no"]


def test_chats_of_the_hub_are_recognised(repository):
    chat = [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}]
    write(repository / "train.jsonl", jsonl([{"messages": chat}]))
    corpus = load(Source("some/one"), "train")
    assert (corpus.recognised, corpus.outputs) == ("chats", ["4"])


def test_an_error_of_the_hub_is_one_line(hub, monkeypatch):
    import datasets

    def refuse(*_):
        raise ValueError("Config name is missing.\nPlease pick one among: ['a', 'b']")

    monkeypatch.setattr(datasets, "get_dataset_split_names", refuse)
    line = "someone/some-task: Config name is missing. Please pick one among: ['a', 'b']"
    assert message(hub) == f"{line}; pass a file, a folder or another dataset"


def test_an_unreachable_hub_is_one_line(monkeypatch):
    from huggingface_hub import HfApi

    def unreachable(*_, **__):
        raise OSError("no network")

    monkeypatch.setattr(HfApi, "dataset_info", unreachable)
    with pytest.raises(UnavailableError, match="the Hub cannot be reached"):
        load(Source("someone/some-task"), "train")


def test_real_files_load_completely(data_dir):
    assert len(load(Source(str(data_dir / "massive-en")), "train").examples) == 11514
    assert len(load(Source(str(data_dir / "massive-en")), "validation").examples) == 2033
