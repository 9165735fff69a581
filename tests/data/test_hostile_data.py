"""Data files that strangers broke: read, or refused in one line, in bounded time and memory."""

import gzip
import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasc.data import lines
from tasc.data.corpus import load
from tasc.data.source import Source
from tests.cli import tasc
from tests.data.files import ROWS, jsonl, message, write
from tests.pico import make_tokenizer


def texts(path: object) -> list[tuple[str, str]]:
    return [(e.input, e.output) for e in load(Source(str(path)), "train").examples]


@pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl"])
def test_a_table_of_very_many_columns_is_read_at_once(tmp_path, kind):
    row = {f"c{n}": n for n in range(20_000)} | {"input": "a", "output": "b"}
    path = tmp_path / f"t.{kind}"
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist([row]), path)
    elif kind == "csv":
        path.write_text("\n".join([",".join(row), ",".join(map(str, row.values()))]))
    else:
        path.write_bytes(jsonl([row]))
    assert texts(path) == [("a", "b")]
    line = message(Source(str(path), "text"))
    assert "and 19982 more: choose one" in line


def test_a_csv_field_may_be_large(tmp_path):
    path = write(tmp_path / "t.csv", b'input,output\na,"' + b"long, " * 500_000 + b'"\n')
    assert len(texts(path)[0][1]) == 3_000_000


def test_an_open_quote_takes_no_rows_with_it(tmp_path):
    path = write(tmp_path / "t.csv", b'input,output\na,"b\nc,d\ne,f\n')
    assert "invalid CSV: unexpected end of data" in message(Source(path))


def test_missing_fields_at_the_end_of_a_csv_row_are_empty(tmp_path):
    path = write(tmp_path / "t.csv", b"output,input\na\nb,c\n\n")
    assert texts(path) == [("", "a"), ("c", "b")]


def test_a_name_with_a_line_end_leaves_the_error_one_line(tmp_path):
    path = write(tmp_path / "t.jsonl", jsonl([{"in\nput": "a", "output": "b"}]))
    assert r"it has 'in\nput', output" in message(Source(path))


@pytest.mark.parametrize("damage", [slice(0, 100), slice(0, -1), slice(9, None), slice(0, 0)])
def test_a_cut_parquet_file_is_refused(tmp_path, damage):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.Table.from_pylist(ROWS), path)
    path.write_bytes(path.read_bytes()[damage])
    assert message(Source(str(path))).startswith(f"{path}: invalid PARQUET")


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
    assert texts(write(tmp_path / "ok.jsonl.gz", jsonl(ROWS)))


@pytest.mark.parametrize("name", ["t.jsonl", "t.json", "t.csv"])
def test_a_line_without_end_is_refused(tmp_path, monkeypatch, name):
    monkeypatch.setattr(lines, "LONGEST", 1000)
    assert "a line of more than 1,000 bytes" in message(Source(write(tmp_path / name, b"[" * 9999)))


def test_a_gzip_file_with_something_behind_it_is_refused(tmp_path):
    path = tmp_path / "t.jsonl.gz"
    path.write_bytes(gzip.compress(jsonl(ROWS)) + b"tail")
    assert "cannot read" in message(Source(str(path)))


@pytest.mark.parametrize("kind", ["folder", "pipe", "link"])
@pytest.mark.parametrize("role", ["data", "tokenizer"])
def test_what_is_no_file_is_refused_and_never_read(tmp_path, capsys, kind, role):
    odd = tmp_path / ("odd.jsonl" if role == "data" else "odd.json")
    if kind == "folder":
        odd.mkdir()
    elif kind == "pipe":
        os.mkfifo(odd)
    else:
        odd.symlink_to("/dev/zero")
    task = Path(write(tmp_path / "t.jsonl", jsonl(ROWS)))
    data = odd if role == "data" else task
    tokenizer = odd if role == "tokenizer" else make_tokenizer(tmp_path / "tokenizer")
    code, out, err = tasc(
        capsys, "index", data, "--tokenizer", tokenizer, "--output", tmp_path / "o"
    )
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {odd}")
    assert err.count("\n") == 1


def test_numbers_and_rows_beyond_reason_are_named_by_their_line(tmp_path):
    for value in ("9" * 100_000, "[" * 100_000 + "]" * 100_000):
        row = '{"input": ' + value + ', "output": "x"}\n'
        path = write(tmp_path / "t.jsonl", jsonl(ROWS) + row.encode())
        assert f"{path}:4: " in message(Source(path))


def test_odd_characters_are_kept_as_they_are(tmp_path):
    row = {"input": "\0\ufeff\u2028", "output": "\x1b[31m\r\n"}
    for name in ("t.jsonl", "t.json"):
        data = json.dumps([row] if name == "t.json" else row).encode()
        assert texts(write(tmp_path / name, b"\xef\xbb\xbf" + data)) == [tuple(row.values())]
