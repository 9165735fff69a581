"""Parts of a split: counted one by one, they merge to the whole."""

import copy
import gzip
from codecs import BOM_UTF8
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tasc.analysis.sample
from tasc.analysis.counted import FILE, load_counted, merge, save_counted
from tasc.analysis.scan import count_rows, scan
from tasc.data.source import Source
from tasc.data.stream import open_stream, pieces
from tasc.errors import InputError, IntegrityError
from tests.analysis.conftest import assert_same
from tests.data.files import jsonl

ROWS = [
    {"input": f"wecke mich um {n % 7} Uhr", "output": f"intent {n % 5}: é {n % 11} größe"}
    for n in range(300)
]
ROWS[4:6] = [{"input": "none", "output": " "}, {"input": "一", "output": "b"}]
FEW = [{"input": "a", "output": "b"}, {"input": "", "output": "c d"}]
CHATS = [
    {"messages": [{"role": r, "content": f"{r} {n} {i}"} for i in range(n % 3) for r in ROLES]}
    for n in range(60)
    for ROLES in [("user", "assistant")]
]
LISTS = [{"input": ["a b", "c"] * (n % 3), "output": ["x", f"y{n % 4}"]} for n in range(40)]


def write(folder, kind):
    if kind == "csv":
        table = [f'"{row["input"]}\n,",{row["output"]}' for row in ROWS]
        (folder / "train.csv").write_text("\n".join(["input,output", *table]))
    elif kind == "gz":
        (folder / "train.jsonl.gz").write_bytes(gzip.compress(jsonl(ROWS)))
    elif kind == "files":
        for i in range(3):
            name = f"train-0000{i}-of-00003.jsonl"
            (folder / name).write_bytes(BOM_UTF8 + jsonl(ROWS[100 * i : 100 * (i + 1)]))
    else:
        rows = {"few": FEW, "chats": CHATS, "lists": LISTS, "lines": ROWS, "limit": ROWS}[kind]
        (folder / "train.jsonl").write_bytes(jsonl(rows))
    return Source(str(folder))


def through_files(part, tokenizer, folder):
    (folder / "runs").mkdir(parents=True)
    save_counted(count_rows(part, tokenizer, folder), folder / "runs")
    return load_counted(folder / "runs")


@pytest.mark.parametrize("size", [1000, 4000, 10**6])
@pytest.mark.parametrize("kind", ["lines", "few", "files", "csv", "gz", "chats", "lists", "limit"])
def test_merged_pieces_are_the_whole_and_can_be_sent(tmp_path, tokenizer, monkeypatch, kind, size):
    monkeypatch.setattr(tasc.data.stream, "PIECE", size)
    monkeypatch.setattr(tasc.data.stream, "ROWS", 50)
    (tmp_path / "data").mkdir()
    source = write(tmp_path / "data", kind)
    stream = open_stream(source, "train", limit=90 if kind == "limit" else None)
    whole = scan(stream, tokenizer)
    cut = copy.deepcopy(list(pieces(stream)))  # as other processes get them
    assert len(cut) > 1 or kind == "few" or size > 1000
    parts = [through_files(part, tokenizer, tmp_path / str(i)) for i, part in enumerate(cut)]
    assert_same(merge(parts, stream, tokenizer), whole)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(st.text(st.sampled_from("aé一😀\u2028 "), max_size=6), min_size=1, max_size=8),
    st.integers(1, 40),
    st.booleans(),
)
def test_every_line_is_in_one_piece_wherever_it_is_cut(tmp_path, texts, size, ended):
    whole = jsonl({"input": text, "output": f"{text}."} for text in texts)
    (tmp_path / "train.jsonl").write_bytes(whole if ended else whole[:-1])
    stream = open_stream(Source(str(tmp_path)), "train")
    with patch.object(tasc.data.stream, "PIECE", size):
        found = [rows for piece in pieces(stream) for rows in piece.rows()]
    assert [text for rows in found for text in rows.inputs] == texts


def test_what_is_wrong_in_a_piece_is_named_by_its_line(tmp_path, monkeypatch):
    monkeypatch.setattr(tasc.data.stream, "PIECE", 2000)
    (tmp_path / "train.jsonl").write_bytes(jsonl(ROWS) + b'{"input": \n')
    *_, last = pieces(open_stream(Source(str(tmp_path)), "train"))
    with pytest.raises(InputError, match=r"train\.jsonl:301: invalid JSON"):
        list(last.rows())


def test_a_damaged_run_is_refused(tmp_path, tokenizer):
    source = write(tmp_path, "lines")
    through_files(open_stream(source, "train"), tokenizer, tmp_path / "a")
    runs = tmp_path / "a" / "runs"
    (runs / "input.words-0").unlink()
    with pytest.raises(IntegrityError, match=r"no run 'input.words-0'.: run the command"):
        load_counted(runs)
    (runs / FILE).write_bytes(b"nonsense")
    with pytest.raises(IntegrityError, match="is damaged"):
        load_counted(runs)
