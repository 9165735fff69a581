"""CSV in the dialects of other programs, against Python's module csv.

TASC_TABLES=5000 tries that many.
"""

import csv
import io
import os
from pathlib import Path
from random import Random

import pytest

from tasc.data.corpus import load
from tasc.data.local import peek
from tasc.data.source import Source
from tasc.data.tabular import csv_columns
from tasc.errors import InputError
from tests.cli import refused
from tests.data.files import message, pairs, write
from tests.tables import SEPARATORS, table, written

COUNT = int(os.environ.get("TASC_TABLES", "300"))


def read_back(path, separator="auto", **columns):
    source = Source(str(path), separator=separator, **columns)
    return [(e.input, e.output) for e in load(source, "train").examples]


def same_as_csv(rng, separator, folder):
    """Read a random table, also with its separator found out, and compare with Python's csv."""
    data = written(rng, table(rng), separator)
    name = "t.tsv" if separator == "\t" and rng.random() < 0.5 else "t.csv"
    path = Path(write(folder / name, data))
    text = data.decode("utf-8-sig")
    header, *rows = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    expected = dict(zip(header, map(list, zip(*rows, strict=True)), strict=True))
    for given in ("auto", separator):
        (found,) = csv_columns(path, given, header, 100)
        assert found == expected, data
    assert peek(Source(str(path)), "train")[0] == header, data


@pytest.mark.parametrize("separator", SEPARATORS)
def test_tables_are_read_as_by_pythons_csv(tmp_path, separator):
    for number in range(COUNT // len(SEPARATORS)):
        same_as_csv(Random(f"{separator}{number}"), separator, tmp_path)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'input,"output (a; b; c)"\n"x, y",lab\n"z",lab2\n', [("x, y", "lab"), ("z", "lab2")]),
        (b"input (short, plain);output\njazz;music\n", [("jazz", "music")]),
        (b'"input\n(two, lines)"|output\na|b\n', [("a", "b")]),
        (b"\xef\xbb\xbfinput;output\r\n1,5;2,5\r\n3,5;4,5\r\n", [("1,5", "2,5"), ("3,5", "4,5")]),
        (b'input;output\n"a;""b""";c\n', [('a;"b"', "c")]),
        (b"input\toutput, or label\na, b, c\td\n", [("a, b, c", "d")]),
    ],
)
def test_the_separator_is_that_of_whole_records(tmp_path, data, expected):
    path = write(tmp_path / "t.csv", data)
    names, _ = peek(Source(path), "train")
    found = read_back(path, input_column=names[0], output_column=names[1])
    assert found == expected


@pytest.mark.parametrize("separator", [*SEPARATORS, "^"])
@pytest.mark.parametrize("mark", ["sep={}\r\n", "\ufeffsep={}\n", "SEP={}\n"])
def test_a_first_line_for_excel_states_the_separator(tmp_path, separator, mark):
    rows = [["input", "output"], ["a, b; c", "d|e^f"], ["g", "h\ti"]]
    text = io.StringIO()
    csv.writer(text, delimiter=separator).writerows(rows)
    path = write(tmp_path / "t.csv", (mark.format(separator) + text.getvalue()).encode())
    assert peek(Source(path), "train")[0] == rows[0]
    assert read_back(path) == read_back(path, separator) == [tuple(row) for row in rows[1:]]
    Path(path).write_bytes((mark.format(separator) + text.getvalue() + separator * 2).encode())
    assert message(Source(path)).startswith(f"{path}:5: 3 fields in a table of 2 columns")


def test_a_first_line_with_a_letter_is_a_header(tmp_path):
    path = write(tmp_path / "t.csv", b"sep=a\nx\n")
    assert peek(Source(path), "train")[0] == ["sep=a"]


def test_a_single_column_may_contain_separators_in_quotes(tmp_path):
    path = write(tmp_path / "t.csv", b'text\n"a, b; c"\n"d\te|f"\n')
    assert read_back(path, input_column="text", output_column="text", template="x{input}") == [
        ("a, b; c", "a, b; c"),
        ("d\te|f", "d\te|f"),
    ]


def test_a_separator_can_be_given_where_two_fit_and_in_a_task_file(tmp_path, capsys):
    data = b"input,output;input,output\na,b;c,d\n"
    path = write(tmp_path / "t.csv", b"input;output^input\na;b^c\n")
    assert read_back(path, "^", input_column="input", output_column="input;output") == [
        ("c", "a;b")
    ]
    task = tmp_path / "task.yaml"
    task.write_text("path: t.csv\nseparator: semicolon\noutput_column: output^input\n")
    from tasc.options.task import read_task

    source = read_task(task, {}).data().source()
    assert [(e.input, e.output) for e in load(source, "train").examples] == [("a", "b^c")]
    assert ";" in data.decode()
    line = refused(capsys, "analyze", path, "--separator", "ab")
    assert "separator 'ab' separates no cells: give auto, comma, semicolon, tab, bar, or" in line


@pytest.mark.parametrize("separator", ["a", '"', "\n", "", "1"])
def test_what_separates_no_cells_is_refused(separator):
    with pytest.raises(InputError, match="separates no cells"):
        Source("t.csv", separator=separator)


def test_a_wrong_number_of_cells_is_named_with_its_line(tmp_path):
    path = write(tmp_path / "t.csv", b'input;output\n"a\nb";c\nd;e;f\n')
    found = message(Source(path))
    assert found.startswith(f"{path}:4: 3 fields in a table of 2 columns: quote texts with semicol")
    path = write(tmp_path / "one.csv", b"text\na, b\n")
    assert "one.csv:2: 2 fields in a table of 1 columns" in message(
        Source(path, input_column="text", output_column="text", template="x{input}")
    )


def test_quoted_rows_in_a_tsv_are_refused_unless_its_separator_is_given(tmp_path):
    path = write(tmp_path / "t.tsv", b'input\toutput\n"c\td\ne\tf\ng"\th\n')
    assert "pass --separator tab if they are" in message(Source(path))
    assert read_back(path, "tab") == [("c\td\ne\tf\ng", "h")]
    assert pairs(write(tmp_path / "t.csv", b'input\toutput\n"c\td\ne\tf\ng"\th\n')) == [
        ("c\td\ne\tf\ng", "h")
    ]
