"""Loading a split: files, columns, words, samples, and one line for each kind of bad input."""

import csv
import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasc.data.corpus import load, splits
from tasc.data.source import Source
from tasc.errors import InputError, UnavailableError

ROWS = [
    {"id": 1, "input": "wake me at nine", "output": "alarm_set nine"},
    {"id": 2, "input": "play jazz", "output": "play_music jazz"},
    {"id": 3, "input": "naïve 日本語 😀", "output": "é — ü"},
]


def jsonl(rows):
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def write(path: Path, contents: bytes) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(contents) if path.suffix == ".gz" else contents)
    return str(path)


def as_csv(rows, path):
    with path.open("w", newline="", encoding="utf-8") as target:
        writer = csv.DictWriter(target, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path.read_bytes()


def as_parquet(rows, path):
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path.read_bytes()


def contents(kind, folder):
    spare = folder / "spare"
    if kind == "csv":
        return as_csv(ROWS, spare)
    if kind == "parquet":
        return as_parquet(ROWS, spare)
    return json.dumps(ROWS, indent=1).encode() if kind == "json" else jsonl(ROWS)


def message(source, split="train", **options):
    """The one line that the user sees."""
    with pytest.raises(InputError) as caught:
        load(source, split, **options)
    line = str(caught.value)
    assert "\n" not in line
    return line


@pytest.mark.parametrize("packed", ["", ".gz"])
@pytest.mark.parametrize("kind", ["jsonl", "json", "csv", "parquet"])
def test_every_kind_of_file_gives_the_same_examples(tmp_path, kind, packed):
    path = write(tmp_path / f"task.{kind}{packed}", contents(kind, tmp_path))
    corpus = load(Source(path, template="{id}: {input}\n"), "train")
    assert [(e.input, e.output) for e in corpus.examples] == [
        (row["input"], row["output"]) for row in ROWS
    ]
    assert corpus.prompts[0] == "1: wake me at nine\n"
    reference = write(tmp_path / "reference.jsonl", jsonl(ROWS))
    wanted = load(Source(reference, template="{id}: {input}\n"), "train")
    assert corpus.fingerprint == wanted.fingerprint


def test_a_json_file_may_hold_one_object_a_line(tmp_path):
    path = write(tmp_path / "task.json", jsonl(ROWS))
    assert load(Source(path), "train").outputs == [row["output"] for row in ROWS]


def test_reading_leaves_nothing_in_the_folder_of_the_user(tmp_path):
    as_csv(ROWS, tmp_path / "task.csv")
    load(Source(str(tmp_path / "task.csv")), "train")
    assert [path.name for path in tmp_path.iterdir()] == ["task.csv"]


def test_csv_text_is_taken_as_it_stands(tmp_path):
    rows = [{"input": "007", "output": "NA"}, {"input": "1e3", "output": "true"}]
    as_csv(rows, tmp_path / "task.csv")
    corpus = load(Source(str(tmp_path / "task.csv")), "train")
    assert [(e.input, e.output) for e in corpus.examples] == [("007", "NA"), ("1e3", "true")]


def test_a_folder_has_the_splits_its_files_are_named_after(tmp_path):
    write(tmp_path / "train.jsonl.gz", jsonl(ROWS))
    write(tmp_path / "dev.jsonl", jsonl(ROWS[:1]))
    write(tmp_path / "test-00000-of-00002.jsonl", jsonl(ROWS[:2]))
    write(tmp_path / "test-00001-of-00002.jsonl", jsonl(ROWS[2:]))
    write(tmp_path / "labels.jsonl", jsonl([{"label": 1}]))
    source = Source(str(tmp_path))
    assert splits(source) == ["train", "validation", "test"]
    for name in ("validation", "valid", "dev"):
        assert load(source, name).split == "validation"
    assert load(source, "test").outputs == [row["output"] for row in ROWS]


def test_a_single_file_is_the_training_split(tmp_path):
    path = write(tmp_path / "task.jsonl", jsonl(ROWS))
    assert splits(Source(path)) == ["train"]
    assert (
        message(Source(path), "test") == f"{path}: no split 'test'; it has train: name one of them"
    )


def test_a_list_valued_column_is_taken_as_words(tmp_path):
    rows = [
        {"tokens": ["do", "n't", "New York"], "output": ["A", "B"]},
        {"tokens": [], "output": "C D"},
    ]
    corpus = load(Source(write(tmp_path / "t.jsonl", jsonl(rows)), input_column="tokens"), "train")
    assert corpus.examples[0].input == "do n't New York"
    assert corpus.input_words == [["do", "n't", "New York"], []]
    assert corpus.output_words == [["A", "B"], ["C", "D"]]
    assert corpus.prompts[0] == "do n't New York\n"


def test_text_is_split_at_whitespace(tmp_path):
    rows = [{"input": " a  b\nc ", "output": "x"}]
    corpus = load(Source(write(tmp_path / "t.jsonl", jsonl(rows))), "train")
    assert corpus.input_words == [["a", "b", "c"]]


def test_scalars_become_text(tmp_path):
    rows = [{"input": 7, "output": 1.5}, {"input": None, "output": True}]
    corpus = load(Source(write(tmp_path / "t.jsonl", jsonl(rows))), "train")
    assert [(e.input, e.output) for e in corpus.examples] == [("7", "1.5"), ("", "True")]


def test_unused_columns_may_hold_anything(tmp_path):
    rows = [{**ROWS[0], "extra": 1}, {**ROWS[1], "extra": {"deep": [[]]}}]
    assert len(load(Source(write(tmp_path / "t.jsonl", jsonl(rows))), "train").examples) == 2


def test_rows_with_an_empty_output_are_dropped_and_counted(tmp_path):
    rows = [*ROWS, {"input": "x", "output": " "}, {"input": "y", "output": None}]
    corpus = load(Source(write(tmp_path / "t.jsonl", jsonl(rows))), "train")
    assert (len(corpus.examples), corpus.dropped) == (3, 2)


def test_blank_lines_and_a_byte_order_mark_are_passed_over(tmp_path):
    path = write(
        tmp_path / "t.jsonl", b"\xef\xbb\xbf" + jsonl(ROWS[:1]) + b"\n  \n" + jsonl(ROWS[1:])
    )
    assert load(Source(path), "train").outputs == [row["output"] for row in ROWS]


def test_a_limit_draws_the_same_sample_for_the_same_seed_in_the_original_order(tmp_path):
    rows = [{"input": str(n), "output": f"o{n}"} for n in range(100)]
    source = Source(write(tmp_path / "t.jsonl", jsonl(rows)))
    first = load(source, "train", limit=20, seed=1)
    numbers = [int(e.input) for e in first.examples]
    assert len(set(numbers)) == 20
    assert numbers == sorted(numbers)
    assert load(source, "train", limit=20, seed=1).fingerprint == first.fingerprint
    assert load(source, "train", limit=20, seed=2).fingerprint != first.fingerprint
    assert load(source, "train", limit=1000).fingerprint == load(source, "train").fingerprint


def test_the_fingerprint_tells_prompts_and_words_apart(tmp_path):
    path = write(
        tmp_path / "t.jsonl", jsonl([{"input": "a b", "words": ["a", "b"], "output": "x"}])
    )
    marks = {
        load(source, "train").fingerprint
        for source in (
            Source(path),
            Source(path, template="{input}"),
            Source(path, input_column="words"),
        )
    }
    assert len(marks) == 3


def test_a_template_fills_in_columns_and_keeps_braces(tmp_path):
    rows = [{"question": "why?", "context": "so", "answer": "because"}]
    path = write(tmp_path / "t.jsonl", jsonl(rows))
    source = Source(path, "question", "answer", "{{q}} {input} | {question} | {context}\n")
    assert load(source, "train").prompts == ["{q} why? | why? | so\n"]


def test_a_template_cuts_a_column(tmp_path):
    path = write(tmp_path / "t.jsonl", jsonl([{"input": "a long text", "output": "x"}]))
    assert load(Source(path, template="{input:.6}|{input:.99}"), "train").prompts == [
        "a long|a long text"
    ]


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{input", "cannot be read"),
        ("no column", "names no column"),
        ("{input.__class__}", "may only hold"),
        ("{input[0]}", "may only hold"),
        ("{input!r}", "may only hold"),
        ("{input:>9}", "may only hold"),
        ("{input:.2f}", "may only hold"),
        ("{}", "may only hold"),
        ("{input} {output}", "the answer"),
    ],
)
def test_a_bad_template_is_refused(template, words):
    with pytest.raises(InputError, match=words):
        Source("builtin:stdlib-tokens", template=template)


def test_an_empty_source_is_refused():
    with pytest.raises(InputError, match="empty"):
        Source("")


def test_a_missing_column_is_named_with_those_that_exist(tmp_path):
    path = write(tmp_path / "t.jsonl", jsonl(ROWS))
    assert message(Source(path, "text")) == (
        f"{path}:1: no column 'text'; it has id, input, output: "
        "name one with --input-column, --output-column or in the template"
    )
    for kind in ("csv", "parquet"):
        other = write(tmp_path / f"t.{kind}", contents(kind, tmp_path))
        line = message(Source(other, output_column="label"))
        assert line.startswith(f"{other}: no column 'label'; it has id, input, output: name one")


def test_a_row_without_the_column_is_named_by_its_line(tmp_path):
    path = write(tmp_path / "t.jsonl", jsonl(ROWS) + b'\n{"input": "x"}\n')
    assert message(Source(path)).startswith(f"{path}:5: no column 'output'; it has input: ")


def test_an_unknown_template_column_is_an_error_of_the_data(tmp_path):
    path = write(tmp_path / "t.jsonl", jsonl(ROWS))
    assert "no column 'context'" in message(Source(path, template="{input} {context}"))


@pytest.mark.parametrize("name", ["t.jsonl", "t.jsonl.gz", "t.json", "t.csv"])
def test_invalid_utf8_is_named_by_file_and_line(tmp_path, name):
    bad = b"input,output\nok,ok\nb\xe9d,x\n"
    if "json" in name:
        bad = jsonl(ROWS[:2]) + b'{"input": "b\xe9d", "output": "x"}\n'
    path = write(tmp_path / name, bad)
    assert message(Source(path)).startswith(f"{path}:3: invalid UTF-8 (byte 0xe9")


def test_invalid_json_is_named_by_file_and_line(tmp_path):
    path = write(tmp_path / "t.jsonl", jsonl(ROWS[:1]) + b'{"input": "x", "output": \n')
    assert message(Source(path)).startswith(f"{path}:2: invalid JSON")
    path = write(tmp_path / "t.json", b'[\n{"input": "x",\n "output" 1}\n]')
    assert message(Source(path)).startswith(f"{path}:3: invalid JSON")


def test_a_line_that_is_no_object_is_named(tmp_path):
    path = write(tmp_path / "t.jsonl", b'["a"]\n')
    assert message(Source(path)) == f"{path}:1: expected a JSON object, saw a list"


def test_nested_values_are_refused(tmp_path):
    path = write(tmp_path / "t.jsonl", jsonl([{"input": "a", "output": [["date", "today"]]}]))
    assert message(Source(path)).startswith(f"{path}:1: column 'output' holds a list of lists")


def test_half_a_surrogate_pair_is_refused(tmp_path):
    path = write(tmp_path / "t.jsonl", b'{"input": "\\ud83d", "output": "x"}\n')
    assert message(Source(path)).startswith(f"{path}:1: column 'input' holds half of a surrogate")


def test_a_cut_gzip_file_is_refused(tmp_path):
    path = tmp_path / "t.jsonl.gz"
    path.write_bytes(gzip.compress(jsonl(ROWS))[:-10])
    assert message(Source(str(path))).startswith(f"{path}: cannot be read")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_malformed_table_is_refused(tmp_path, kind):
    path = write(tmp_path / f"t.{kind}", b"input,output\na,b\na,b,c,d\n")
    assert message(Source(path)).startswith(f"{path}: invalid {kind.upper()}")


def test_a_csv_column_that_is_there_twice_is_refused(tmp_path):
    path = write(tmp_path / "t.csv", b"input,output,input\na,b,c\n")
    assert message(Source(path)).startswith(f"{path}:1: the column 'input' is there twice")


@pytest.mark.parametrize("rows", [b"a,b,x\nc,d,y\n", b"a,b,\nc,d,\n"])
def test_csv_rows_wider_than_the_names_are_refused(tmp_path, rows):
    path = write(tmp_path / "t.csv", b"input,output\n" + rows)
    assert message(Source(path)).startswith(f"{path}:2: 3 fields under 2 names")


def test_csv_columns_without_a_name_are_passed_over(tmp_path):
    path = write(tmp_path / "t.csv", b"\n,input,output,\n0,a,b,\n1,c,d,\n")
    examples = load(Source(path), "train").examples
    assert [(e.input, e.output) for e in examples] == [("a", "b"), ("c", "d")]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_csv_lines_end_in_any_of_the_usual_ways(tmp_path, end):
    lines = ["input,output", '"a, b",c', "d,e", ""]
    path = write(tmp_path / "t.csv", end.join(lines).encode())
    examples = load(Source(path), "train").examples
    assert [(e.input, e.output) for e in examples] == [("a, b", "c"), ("d", "e")]


@pytest.mark.parametrize(
    ("name", "value"),
    [("t.jsonl", b"[" * 100_000), ("t.json", b"[" * 100_000), ("t.json", b"[" + b"1" * 5000)],
)
def test_json_that_no_one_can_read_is_refused(tmp_path, name, value):
    path = write(tmp_path / name, value)
    assert message(Source(path)).startswith(f"{path}:1: invalid JSON: ")


@pytest.mark.parametrize(
    ("name", "empty"),
    [("t.jsonl", b""), ("t.csv", b""), ("h.csv", b"input,output\n"), ("t.json", b"[]")],
)
def test_an_empty_split_is_refused(tmp_path, name, empty):
    path = write(tmp_path / name, empty)
    assert message(Source(path)).startswith(f"{path}: the split 'train' is empty")


def test_empty_outputs_are_refused(tmp_path):
    path = write(tmp_path / "t.jsonl", jsonl([{"input": "a", "output": ""}] * 3))
    assert message(Source(path)).startswith(f"{path}: all 3 outputs of the split 'train' are empty")


def test_a_limit_below_one_is_refused(tmp_path):
    path = write(tmp_path / "t.jsonl", jsonl(ROWS))
    assert message(Source(path), limit=0) == "the limit must be 1 or more, saw 0"


def test_places_that_hold_no_data_are_refused(tmp_path):
    gone = str(tmp_path / "gone.jsonl")
    assert message(Source(gone)) == f"{gone}: no such file or folder"
    assert message(Source(str(tmp_path))).endswith("it has no files: name one of them")
    notes = write(tmp_path / "notes.txt", b"hello")
    assert message(Source(notes)).startswith(f"{notes}: unknown kind of file")
    assert "it has notes.txt" in message(Source(str(tmp_path)))


def test_two_files_for_one_split_are_refused(tmp_path):
    write(tmp_path / "train.jsonl", jsonl(ROWS))
    write(tmp_path / "train.csv", b"input,output\n")
    assert "several files for the split 'train': train.csv, train.jsonl" in message(
        Source(str(tmp_path))
    )


def test_a_missing_split_of_a_folder_names_the_others(tmp_path):
    write(tmp_path / "train.jsonl", jsonl(ROWS))
    write(tmp_path / "test.jsonl", jsonl(ROWS))
    assert message(Source(str(tmp_path)), "validation").endswith(
        "it has train, test: name one of them"
    )


@pytest.fixture
def hub(monkeypatch):
    """A Hub that holds one data set of two splits."""
    import datasets
    from huggingface_hub import HfApi

    monkeypatch.setattr(HfApi, "dataset_info", lambda *_, **__: None)
    monkeypatch.setattr(datasets, "get_dataset_split_names", lambda *_: ["train", "dev"])
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: datasets.Dataset.from_list(ROWS))
    return Source("someone/some-task")


def test_a_data_set_of_the_hub_is_read_like_a_file(hub):
    assert splits(hub) == ["train", "dev"]
    corpus = load(hub, "validation")
    assert (corpus.split, corpus.outputs) == ("dev", [row["output"] for row in ROWS])
    assert message(hub, "test").startswith(
        "someone/some-task: no split 'test'; it has train, dev: "
    )
    line = message(Source(hub.path, "text"))
    assert "someone/some-task (train): no column 'text'; it has id, input, output: " in line


def test_an_error_of_the_hub_is_one_line(hub, monkeypatch):
    import datasets

    def refuse(*_):
        raise ValueError("Config name is missing.\nPlease pick one among: ['a', 'b']")

    monkeypatch.setattr(datasets, "get_dataset_split_names", refuse)
    line = "someone/some-task: Config name is missing. Please pick one among: ['a', 'b']"
    assert message(hub) == line


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
