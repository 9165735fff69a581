"""Sources that cannot be read, or are hard to: one line that says why, in bounded time."""

import gzip
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import Dataset
from pyarrow import ipc

from tasc.data import lines
from tasc.data.corpus import load, precheck
from tasc.data.source import Source
from tasc.errors import InputError
from tests.cli import refused
from tests.data.files import ROWS, contents, jsonl, message, no_file, pairs, source, write
from tests.pico import make_tokenizer


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
    given = source(tmp_path, ROWS, input_column="text")
    assert message(given) == (
        f"{given.path}:1: no column 'text'; it has id, input, output: "
        "choose one with --input-column, --output-column or in the template"
    )
    for kind in ("csv", "parquet"):
        other = write(tmp_path / f"t.{kind}", contents(kind, tmp_path))
        line = message(Source(other, output_column="label"))
        assert line.startswith(f"{other}: no column 'label'; it has id, input, output: choose one")
    unknown = source(tmp_path, ROWS, template="{input} {context}")
    assert "no column 'context'" in message(unknown)


LATIN = jsonl(ROWS[:2]) + b'{"input": "b\xe9d", "output": "x"}\n'
HUGE_NUMBER, DEEP_ROW = (
    jsonl(ROWS[:1]) + b'{"input": ' + value + b', "output": "x"}\n'
    for value in (b"9" * 100_000, b"[" * 100_000 + b"]" * 100_000)
)
NO_UTF8, EMPTY = ":3: invalid UTF-8 (byte 0xe9", ": the split 'train' is empty"
WIDE = "3 fields in a table of 2 columns"
# A file's name and bytes, and what the error says behind its path.
BROKEN = {
    "a row without the column": (
        "t.jsonl",
        jsonl(ROWS) + b'\n{"input": "x"}\n',
        ":5: no column 'output'; it has input: ",
    ),
    "a row without a column of others": (
        "t.jsonl",
        b'{"instruction": "a", "output": "b"}\n{"instruction": "a", "input": "b", "output": "c"}',
        ":1: no column 'input'; it has instruction, output: ",
    ),
    "half a character in a message": (
        "t.jsonl",
        b'{"messages": [{"role": "user", "content": "a", "name": "\\ud83d"}]}',
        ":1: column 'messages' holds half of a surrogate",
    ),
    "no UTF-8 in JSON Lines": ("t.jsonl", LATIN, NO_UTF8),
    "no UTF-8 in packed JSON Lines": ("t.jsonl.gz", LATIN, NO_UTF8),
    "no UTF-8 in JSON": ("t.json", LATIN, NO_UTF8),
    "no UTF-8 in CSV": ("t.csv", b"input,output\nok,ok\nb\xe9d,x\n", NO_UTF8),
    "a cut line of JSON": (
        "t.jsonl",
        jsonl(ROWS[:1]) + b'{"input": "x", "output": \n',
        ":2: invalid JSON",
    ),
    "JSON without a colon": ("t.json", b'[\n{"input": "x",\n "output" 1}\n]', ":3: invalid JSON"),
    "a deep line of JSON": ("t.jsonl", b"[" * 100_000, ":1: invalid JSON: "),
    "deep JSON": ("t.json", b"[" * 100_000, ":1: invalid JSON: "),
    "a long number in JSON": ("t.json", b"[" + b"1" * 5000, ":1: invalid JSON: "),
    "a line that is no object": ("t.jsonl", b'["a"]\n', ":1: expected a JSON object, found a list"),
    "a nested value": (
        "t.jsonl",
        jsonl([{"input": "a", "output": [["date", "today"]]}]),
        ":1: column 'output' holds [['date', 'today']]: ",
    ),
    "half of a surrogate pair": (
        "t.jsonl",
        b'{"input": "\\ud83d", "output": "x"}\n',
        ":1: column 'input' holds half of a surrogate",
    ),
    "malformed Parquet": ("t.parquet", b"input,output\na,b\na,b,c,d\n", ": invalid PARQUET"),
    "a column twice": (
        "t.csv",
        b"input,output,input\na,b,c\n",
        ":1: the column 'input' is repeated",
    ),
    "all rows wider than the names": ("t.csv", b"input,output\na,b,x\nc,d,y\n", f":2: {WIDE}"),
    "all rows wider by nothing": ("t.csv", b"input,output\na,b,\nc,d,\n", f":2: {WIDE}"),
    "one row wider than the names": ("t.csv", b"input,output\na,b\nc,d,e\n", f":3: {WIDE}"),
    "no JSON Lines": ("t.jsonl", b"", EMPTY),
    "no CSV": ("t.csv", b"", EMPTY),
    "names alone": ("t.csv", b"input,output\n", EMPTY),
    "no objects": ("t.json", b"[]", EMPTY),
    "no rows": ("t.json", b'{\n"data": []}', EMPTY),
    "columns": ("t.json", b'{"input": ["a", "b"], "output": ["c", "d"]}', " is one object of col"),
    "columns of pandas": ("t.json", b'{"input": {"0": 1},\n"output": {"0": 2}}', " is one object"),
    "a number": ("t.json", b"5", ": row 1: expected a JSON object, found a int"),
    "empty outputs": (
        "t.jsonl",
        jsonl([{"input": "a", "output": ""}] * 3),
        ": all 3 outputs of the split 'train' are empty",
    ),
    "an open quote": (
        "t.csv",
        b'input,output\na,"b\nc,d\ne,f\n',
        ":4: invalid CSV: unexpected end of data",
    ),
    "a name with a line end": (
        "t.jsonl",
        jsonl([{"in\nput": "a", "output": "b"}]),
        r":1: no column 'input'; it has 'in\nput', output",
    ),
    "a name after a space": (
        "t.csv",
        b"input, output\na, b\n",
        ": no column 'output'; it has input, ' output'",
    ),
    "a number beyond reason": ("t.jsonl", HUGE_NUMBER, ":2: "),
    "a row beyond reason": ("t.jsonl", DEEP_ROW, ":2: "),
    "another kind of file": ("notes.txt", b"hello", ": unknown file type"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_file_is_refused_with_its_line(tmp_path, kind):
    name, data, said = BROKEN[kind]
    path = write(tmp_path / name, data)
    assert message(Source(path)).startswith(f"{path}{said}")


@pytest.mark.parametrize("damage", [lambda packed: packed[:-10], lambda packed: packed + b"tail"])
def test_a_damaged_gzip_file_is_refused(tmp_path, damage):
    path = tmp_path / "t.jsonl.gz"
    path.write_bytes(damage(gzip.compress(jsonl(ROWS))))
    assert message(Source(str(path))).startswith(f"cannot read {path} (")


def test_csv_columns_without_a_name_are_passed_over(tmp_path):
    path = write(tmp_path / "t.csv", b"\n,input,output,\n0,a,b,\n1,c,d,\n")
    assert pairs(path) == [("a", "b"), ("c", "d")]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_csv_lines_end_in_any_of_the_usual_ways(tmp_path, end):
    lines = ["input,output", '"a, b",c', "d,e", ""]
    path = write(tmp_path / "t.csv", end.join(lines).encode())
    assert pairs(path) == [("a, b", "c"), ("d", "e")]


def test_a_limit_below_one_is_refused(tmp_path):
    assert message(source(tmp_path, ROWS), limit=0) == "limit is 0: pass 1 or more"


def test_paths_that_hold_no_data_are_refused(tmp_path):
    gone = str(tmp_path / "gone.jsonl")
    said = f"{gone}: no such file or folder: pass one, a Hub id, or builtin:NAME"
    assert message(Source(gone)) == said
    folder = Source(str(tmp_path))
    assert message(folder).endswith("but no files: pass one file or another folder")
    write(tmp_path / "notes.txt", b"hello")
    write(tmp_path / "data" / "train.csv", b"input,output\na,b\n")
    assert "but data/, notes.txt: pass one file or another folder" in message(folder)
    write(tmp_path / "dataset_info.json", b"{}")
    assert "with datasets' save_to_disk or to_json" in message(folder)


def test_a_folder_has_one_file_for_the_split(tmp_path):
    folder = Source(str(tmp_path))
    for name in ("train", "test"):
        write(tmp_path / f"{name}.jsonl", jsonl(ROWS))
    assert message(folder, "validation").endswith("it has train, test: choose one of them")
    write(tmp_path / "train.csv", b"input,output\n")
    assert "several files for the split 'train', train.csv, train.jsonl" in message(folder)
    for number in (0, 2):
        write(tmp_path / f"test-{number}-of-3.jsonl", jsonl(ROWS))
    (tmp_path / "train.csv").unlink()
    (tmp_path / "test.jsonl").unlink()
    assert "has 2 files for the split 'test', named as parts of 3" in message(folder)


@pytest.mark.parametrize(("name", "data"), [("t.csv", b"input,output\n"), ("t.jsonl", b"")])
def test_a_split_without_rows_is_told_before_a_run(tmp_path, name, data):
    with pytest.raises(InputError, match="the split 'train' is empty"):
        precheck(Source(write(tmp_path / name, data)), "train")


@pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl"])
def test_a_table_of_very_many_columns_is_read_at_once(tmp_path, kind):
    row = {f"c{n}": n for n in range(20_000)} | {"input": "a", "output": "b"}
    path = write(tmp_path / f"t.{kind}", contents(kind, tmp_path, [row]))
    assert pairs(path) == [("a", "b")]
    assert "and 19982 more: choose one" in message(Source(path, "text"))


def test_a_csv_field_may_be_large(tmp_path):
    path = write(tmp_path / "t.csv", b'input,output\na,"' + b"long, " * 500_000 + b'"\n')
    assert len(pairs(path)[0][1]) == 3_000_000


def test_missing_fields_at_the_end_of_a_csv_row_are_empty(tmp_path):
    path = write(tmp_path / "t.csv", b"output,input\na\nb,c\n\n")
    assert pairs(path) == [("", "a"), ("c", "b")]


@pytest.mark.parametrize("damage", [slice(0, 100), slice(0, -1), slice(9, None), slice(0, 0)])
def test_a_cut_parquet_file_is_refused(tmp_path, damage):
    path = write(tmp_path / "t.parquet", contents("parquet", tmp_path)[damage])
    assert message(Source(path)).startswith(f"{path}: invalid PARQUET")


def test_a_parquet_text_that_is_no_utf8_is_refused(tmp_path):
    buffers = [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")]
    bad = pa.Array.from_buffers(pa.string(), 1, buffers)
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"input": bad, "output": bad}), path)
    assert message(Source(str(path))).startswith(f"{path}: invalid PARQUET")


def test_a_gzip_bomb_is_refused_before_it_fills_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "_HARMLESS", 1 << 20)
    path = write(tmp_path / "t.jsonl.gz", b" " * (64 << 20))
    assert "decompresses to more than 100 times its size" in message(Source(path))
    path = write(tmp_path / "empty.jsonl.gz", b"\n" * (1 << 18))
    assert "decompresses to more than 100 times its size" in message(Source(path))
    assert pairs(write(tmp_path / "ok.jsonl.gz", jsonl(ROWS)))


@pytest.mark.parametrize("name", ["t.jsonl", "t.json", "t.csv"])
def test_a_line_without_end_is_refused(tmp_path, monkeypatch, name):
    monkeypatch.setattr(lines, "LONGEST", 1000)
    assert "a line of more than 1,000 bytes" in message(Source(write(tmp_path / name, b"[" * 9999)))


@pytest.mark.parametrize("kind", ["folder", "pipe", "link"])
@pytest.mark.parametrize("role", ["data", "tokenizer"])
def test_what_is_no_file_is_refused_and_never_read(tmp_path, capsys, kind, role):
    odd = tmp_path / ("odd.jsonl" if role == "data" else "odd.json")
    no_file(odd, kind)
    data = odd if role == "data" else write(tmp_path / "t.jsonl", jsonl(ROWS))
    tokenizer = odd if role == "tokenizer" else make_tokenizer(tmp_path / "tokenizer")
    options = ("--tokenizer", tokenizer, "--output", tmp_path / "o")
    assert refused(capsys, "index", data, *options).startswith(f"error: {odd}")


def test_odd_characters_are_kept_as_they_are(tmp_path):
    row = {"input": "\0\ufeff\u2028", "output": "\x1b[31m\r\n"}
    for name in ("t.jsonl", "t.json"):
        data = json.dumps([row] if name == "t.json" else row).encode()
        assert pairs(write(tmp_path / name, b"\xef\xbb\xbf" + data)) == [tuple(row.values())]


def saved(folder, rows):
    Dataset.from_list(rows).save_to_disk(folder)
    return folder


def test_a_folder_of_save_to_disk_is_read_or_told_what_it_lacks(tmp_path):
    rows = [{"input": "a", "output": "1"}, {"input": "b", "output": "2"}]
    alone = saved(tmp_path / "alone", rows)
    assert load(Source(str(alone)), "train").outputs == ["1", "2"]
    for split in ("train", "validation"):
        saved(tmp_path / "both" / split, rows[split == "validation" :])
    listed = tmp_path / "both" / "dataset_dict.json"
    listed.write_text('{"splits": ["train", "validation"]}')
    assert load(Source(str(listed.parent)), "valid").outputs == ["2"]
    assert "no split 'test'; it has train, validation" in message(
        Source(str(listed.parent)), "test"
    )
    for text, why in (
        ('{"splits": ["../alone"]}', "lists no splits"),
        ('{"splits": []}', "lists no splits"),
        ("[]", "is a JSON list"),
        ('{"splits": ["gone"]}', "has no state.json"),
    ):
        listed.write_text(text)
        assert why in message(Source(str(listed.parent)))
    state = alone / "state.json"
    for text, why in (
        ('{"_data_files": [{"filename": "../x.arrow"}]}', "lists no data files"),
        ('{"_data_files": [{"filename": "gone.arrow"}]}', "is missing"),
        ("{}", "lists no data files"),
    ):
        state.write_text(text)
        assert why in message(Source(str(alone)))


@pytest.mark.parametrize("cut", [0, 1, 9, 100, 400])
def test_a_damaged_arrow_file_is_one_line(tmp_path, cut):
    rows = [{"input": f"{i}", "output": "x" * i} for i in range(40)]
    whole = next(saved(tmp_path / "saved", rows).glob("*.arrow")).read_bytes()
    path = write(tmp_path / "t.arrow", whole[:cut])
    assert message(Source(path)).startswith(f"{path}: invalid ARROW: ")


def test_an_arrow_file_with_offsets_beyond_its_texts_is_refused(tmp_path):
    table = pa.table({"input": ["aa", "bb"], "output": ["cc", "dd"]})
    with ipc.new_file(str(tmp_path / "t.arrow"), table.schema) as file:
        file.write_table(table)
    whole = (tmp_path / "t.arrow").read_bytes()
    offsets = np.array([0, 2, 4], np.int32).tobytes()
    assert whole.count(offsets) == 2
    bad = np.array([0, 2, 2**30], np.int32).tobytes()
    write(tmp_path / "t.arrow", whole.replace(offsets, bad))
    assert "invalid ARROW" in message(Source(str(tmp_path / "t.arrow")))
