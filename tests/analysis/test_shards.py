"""Shards by hand: in whatever number and order they are counted, merged they are the whole."""

import gzip
import json
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tasc.analysis.sample
from tasc.analysis.scan import count_rows, merge, scan
from tasc.analysis.shards.files import FILE, load_counted, save_counted
from tasc.data.source import Source
from tasc.data.stream import open_stream, pieces, shard
from tasc.errors import IntegrityError
from tests.cli import tasc as run
from tests.pico import make_tokenizer

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


def lines(rows) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def write(folder, kind):
    """Write a split of some kind; return its source."""
    if kind == "csv":
        table = [f'"{row["input"]}\n,",{row["output"]}' for row in ROWS]
        (folder / "train.csv").write_text("\n".join(["input,output", *table]))
    elif kind == "gz":
        (folder / "train.jsonl.gz").write_bytes(gzip.compress(lines(ROWS).encode()))
    elif kind == "files":
        for i in range(3):
            name = f"train-0000{i}-of-00003.jsonl"
            (folder / name).write_text("\ufeff" + lines(ROWS[100 * i : 100 * (i + 1)]))
    else:
        rows = {"few": FEW, "chats": CHATS, "lists": LISTS, "lines": ROWS, "limit": ROWS}[kind]
        (folder / "train.jsonl").write_text(lines(rows))
    return Source(str(folder))


def same(one, other):
    assert (one.samples, one.dropped) == (other.samples, other.dropped)
    for a, b in ((one.input, other.input), (one.output, other.output)):
        assert (a.words, a.tokens) == (b.words, b.tokens)
        assert np.array_equal(a.counts, b.counts)
    assert one.distinct_outputs == other.distinct_outputs
    assert one.sample.texts == other.sample.texts
    assert np.array_equal(one.sample.weights, other.sample.weights)
    assert one.rows == other.rows


def through_files(part, tokenizer, folder):
    (folder / "runs").mkdir(parents=True)
    save_counted(count_rows(part, tokenizer, folder), folder / "runs")
    return load_counted(folder / "runs")


@pytest.mark.parametrize("of", [1, 2, 7])
@pytest.mark.parametrize("kind", ["lines", "few", "files", "csv", "gz", "chats", "lists", "limit"])
def test_merged_shards_are_the_whole(tmp_path, tokenizer, monkeypatch, kind, of):
    monkeypatch.setattr(tasc.analysis.sample, "ROWS", 20)
    (tmp_path / "data").mkdir()
    source = write(tmp_path / "data", kind)
    stream = open_stream(source, "train", limit=90 if kind == "limit" else None)
    whole = scan(stream, tokenizer)
    assert (len(whole.rows.prompts) == 20) == (kind != "few")
    parts = [
        through_files(shard(stream, i + 1, of), tokenizer, tmp_path / str(i)) for i in range(of)
    ]
    same(merge(parts, stream, tokenizer), whole)
    if kind not in ("few", "lists"):  # each has its share, that is
        assert all(part.samples for part in parts)


@pytest.mark.parametrize("kind", ["lines", "csv", "chats", "limit"])
def test_pieces_are_the_whole_and_can_be_sent(tmp_path, tokenizer, monkeypatch, kind):
    import copy

    monkeypatch.setattr(tasc.data.stream, "PIECE", 2000)
    monkeypatch.setattr(tasc.data.stream, "ROWS", 50)
    source = write(tmp_path, kind)
    stream = open_stream(source, "train", limit=90 if kind == "limit" else None)
    cut = copy.deepcopy(list(pieces(stream)))  # as other processes get them
    assert len(cut) > 1
    parts = [through_files(part, tokenizer, tmp_path / str(i)) for i, part in enumerate(cut)]
    same(merge(parts, stream, tokenizer), scan(stream, tokenizer))


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(st.text(st.sampled_from("aé一😀\u2028 "), max_size=6), min_size=1, max_size=8),
    st.integers(1, 40),
    st.booleans(),
)
def test_every_line_is_in_one_shard_wherever_it_is_cut(tmp_path, texts, of, ended):
    text = lines({"input": text, "output": f"{text}."} for text in texts)
    (tmp_path / "train.jsonl").write_text(text if ended else text[:-1])
    stream = open_stream(Source(str(tmp_path)), "train")
    found = [rows for i in range(of) for rows in shard(stream, i + 1, of).rows()]
    assert [text for rows in found for text in rows.inputs] == texts
    offsets = [offset for rows in found for offset in rows.offsets]
    assert offsets == [offset for rows in stream.rows() for offset in rows.offsets]
    assert len(set(offsets)) == len(texts)


def test_what_is_wrong_in_a_shard_is_named_by_its_line(tmp_path):
    (tmp_path / "train.jsonl").write_text(lines(ROWS) + '{"input": \n')
    stream = open_stream(Source(str(tmp_path)), "train")
    with pytest.raises(tasc.errors.InputError, match=r"train\.jsonl:301: invalid JSON"):
        list(shard(stream, 5, 5).rows())


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


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shards")
    write(folder, "lines")
    make_tokenizer(folder / "tokenizer")
    return folder


@pytest.fixture
def analyze(capsys, task):
    """A function that runs ``tasc analyze`` on the task: code, stdout, stderr."""
    common = ("analyze", task, "--tokenizer", task / "tokenizer", "--budget", 9)
    return lambda *more: run(capsys, *common, *more)


@pytest.fixture(scope="module")
def counted(task, tmp_path_factory):
    """A folder with the runs of three shards, which were counted in another order."""
    from tasc_cli.main import main

    folder = tmp_path_factory.mktemp("runs")
    for i in (3, 1, 2):
        line = ["analyze", task, "--tokenizer", task / "tokenizer", "--budget", 9]
        line += ["--shard", f"{i}/3", "--output", folder / f"{i}"]
        with suppress(SystemExit):
            main([str(part) for part in line])
    return folder


def test_the_file_is_that_of_the_whole_command(analyze, counted, tmp_path):
    assert analyze("--output", tmp_path / "whole")[0] == 0
    code, out, err = analyze("--merge", counted, "--output", tmp_path / "merged")
    assert code == 0, err
    assert "Verdict" in out
    files = ("analysis.json", "token_counts.safetensors")
    for name in files:
        whole, merged = (tmp_path / made / name for made in ("whole", "merged"))
        assert whole.read_bytes() == merged.read_bytes()


def test_runs_that_do_not_belong_together_are_refused(analyze, counted, tmp_path, task):
    one, two, three = (("--merge", counted / str(i)) for i in (1, 2, 3))
    out = ("--output", tmp_path / "out")
    for arguments, words in (
        ((*one, *three), "no run of shard 2/3: run tasc analyze --shard 2/3"),
        ((*one, *two, *two, *three), "shard 2/3 is there twice"),
        (("--merge", counted, "--limit", 9), "was counted with limit None, here it is 9: give"),
        (("--merge", counted, "--template", "{input}"), "give --merge the --template of"),
        (("--merge", task / "tokenizer"), "holds no run.json: name folders that"),
        (("--merge", counted, "--shard", "1/2"), "give one of them"),
        (("--shard", "4/3"), "4/3 is none of"),
    ):
        code, _, err = analyze(*arguments, *out)
        assert code == 2
        assert words in err
    assert not (tmp_path / "out").exists()


def test_runs_of_another_tokenizer_data_or_number_of_shards_are_refused(
    capsys, counted, tmp_path, task
):
    other = make_tokenizer(tmp_path / "other", ["abc abd"])
    merge = ("--merge", counted, "--output", tmp_path / "out")
    code, _, err = run(capsys, "analyze", task, "--tokenizer", other, *merge)
    assert code == 2
    assert "was counted with another tokenizer: give --merge the --tokenizer of its shards" in err
    assert run(capsys, "analyze", task, *merge)[0] == 2
    moved = tmp_path / "moved"
    moved.mkdir()
    (moved / "train.jsonl").write_text(lines(ROWS).replace("größe", "grösse"))
    code, _, err = run(capsys, "analyze", moved, "--tokenizer", task / "tokenizer", *merge)
    assert code == 2
    assert "was counted on other data" in err
    assert "run tasc analyze --shard 1/3 again" in err
    more = ("--shard", "1/2", "--tokenizer", task / "tokenizer", "--output", tmp_path / "half")
    assert run(capsys, "analyze", task, *more)[0] == 0
    both = ("--merge", tmp_path / "half", *merge)
    code, _, err = run(capsys, "analyze", task, "--tokenizer", task / "tokenizer", *both)
    assert code == 2
    assert "name runs of one number of shards" in err
