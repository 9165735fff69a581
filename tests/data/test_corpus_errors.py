"""Sources that cannot be read, in one line that says why."""

import gzip
import re

import pytest

from tasc.data.corpus import load
from tasc.data.source import Source
from tasc.errors import InputError
from tests.data.files import ROWS, contents, jsonl, message, write


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{input", "invalid template"),
        ("no column", "has no column"),
        ("{input.__class__}", "invalid field"),
        ("{input[0]}", "invalid field"),
        ("{input!r}", "invalid field"),
        ("{input:>9}", "invalid field"),
        ("{input:.2f}", "invalid field"),
        ("{}", "invalid field"),
        ("{input} {output}", "shows the model"),
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
        "choose one with --input-column, --output-column or in the template"
    )
    for kind in ("csv", "parquet"):
        other = write(tmp_path / f"t.{kind}", contents(kind, tmp_path))
        line = message(Source(other, output_column="label"))
        assert line.startswith(f"{other}: no column 'label'; it has id, input, output: choose one")


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
    assert message(Source(path)).startswith(f"{path}:1: expected a JSON object, found a list")


def test_nested_values_are_refused(tmp_path):
    path = write(tmp_path / "t.jsonl", jsonl([{"input": "a", "output": [["date", "today"]]}]))
    assert message(Source(path)).startswith(
        f"{path}:1: column 'output' holds [['date', 'today']]: "
    )


def test_half_a_surrogate_pair_is_refused(tmp_path):
    path = write(tmp_path / "t.jsonl", b'{"input": "\\ud83d", "output": "x"}\n')
    assert message(Source(path)).startswith(f"{path}:1: column 'input' holds half of a surrogate")


def test_a_cut_gzip_file_is_refused(tmp_path):
    path = tmp_path / "t.jsonl.gz"
    path.write_bytes(gzip.compress(jsonl(ROWS))[:-10])
    assert message(Source(str(path))).startswith(f"cannot read {path} (")


def test_a_malformed_parquet_file_is_refused(tmp_path):
    path = write(tmp_path / "t.parquet", b"input,output\na,b\na,b,c,d\n")
    assert message(Source(path)).startswith(f"{path}: invalid PARQUET")


def test_a_csv_column_that_is_there_twice_is_refused(tmp_path):
    path = write(tmp_path / "t.csv", b"input,output,input\na,b,c\n")
    assert message(Source(path)).startswith(f"{path}:1: the column 'input' is repeated")


@pytest.mark.parametrize("rows", [b"a,b,x\nc,d,y\n", b"a,b,\nc,d,\n", b"a,b\nc,d,e\n"])
def test_csv_rows_wider_than_the_names_are_refused(tmp_path, rows):
    path = write(tmp_path / "t.csv", b"input,output\n" + rows)
    assert re.match(rf"{path}:[23]: 3 fields in a table of 2 columns", message(Source(path)))


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
    assert message(Source(path), limit=0) == "limit is 0: pass 1 or more"


def test_positions_that_hold_no_data_are_refused(tmp_path):
    gone = str(tmp_path / "gone.jsonl")
    assert (
        message(Source(gone))
        == f"{gone}: no such file or folder: pass one, a Hub id, or builtin:NAME"
    )
    assert message(Source(str(tmp_path))).endswith("but no files: pass one file")
    notes = write(tmp_path / "notes.txt", b"hello")
    assert message(Source(notes)).startswith(f"{notes}: unknown file type")
    assert "but notes.txt: pass one file" in message(Source(str(tmp_path)))


def test_two_files_for_one_split_are_refused(tmp_path):
    write(tmp_path / "train.jsonl", jsonl(ROWS))
    write(tmp_path / "train.csv", b"input,output\n")
    assert "several files for the split 'train', train.csv, train.jsonl" in message(
        Source(str(tmp_path))
    )


def test_a_missing_split_of_a_folder_names_the_others(tmp_path):
    write(tmp_path / "train.jsonl", jsonl(ROWS))
    write(tmp_path / "test.jsonl", jsonl(ROWS))
    assert message(Source(str(tmp_path)), "validation").endswith(
        "it has train, test: choose one of them"
    )
