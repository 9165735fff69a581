"""An interrupted bench goes on, and comes to what an uninterrupted one comes to."""

import json
import signal

import pytest

from tasc.benchmark import lossless, matrix
from tasc.benchmark.matrix import Measured, prepare, run
from tasc.decoding.loaded import Loaded
from tasc.errors import InputError
from tests.benchmark.tasks import split_of
from tests.benchmark.test_spread import without_times
from tests.cli import tasc
from tests.options import BenchOptions
from tests.pico import TEXTS, make_base
from tests.recipes import write, write_splits

METHODS = (
    "ar",
    "tasc-spec:budget=12",
    "tasc-spec:adapt=false,budget=12",
    "suffix",
    "tasc-spec:budget=3",
)


@pytest.fixture
def model(target, tokenizer):
    return Loaded("m", target, tokenizer, (7, 20))


class _Kill(Exception):
    pass


@pytest.mark.parametrize(("batch_size", "after"), [(1, 41), (2, 7)])
def test_a_resumed_bench_decodes_as_one_that_was_not_interrupted(
    model, tmp_path, monkeypatch, batch_size, after
):
    texts = [*TEXTS, *TEXTS[:2]]
    split = split_of(texts, texts)
    options = BenchOptions(
        methods=METHODS, repeats=2, warmup=1, max_new_tokens=24, batch_size=batch_size
    )

    def bench(measured):
        return run(prepare([model], split, split, options), options, measured=measured)

    whole, ran = bench(None), []
    decode = matrix.decode

    def ended(*arguments):
        ran.append(1)
        if len(ran) > after + len(METHODS):  # the warm-up's first
            raise _Kill
        return decode(*arguments)

    monkeypatch.setattr(matrix, "decode", ended)
    with pytest.raises(_Kill):
        bench(Measured(tmp_path, resume=False))
    monkeypatch.setattr(matrix, "decode", decode)
    measured = Measured(tmp_path, resume=True)
    assert measured.resumed == after
    assert _said(bench(measured)) == _said(whole)
    again = Measured(tmp_path, resume=True)  # everything is measured: nothing is decoded
    monkeypatch.setattr(matrix, "decode", None)
    assert _said(bench(again)) == _said(whole)


def _said(cells):
    return [
        [[(g.tokens.tolist(), g.drafted, g.accepted, g.finish) for g in one] for one in cell.runs]
        for cell in cells
    ]


def test_a_line_that_was_cut_off_is_measured_again_and_a_damaged_one_refused(tmp_path):
    (tmp_path / "generations.jsonl").write_text('{"turn": [0, 0, 0], "generations": []}\n{"tur')
    assert dict(Measured(tmp_path, resume=True)) == {(0, 0, 0): []}
    (tmp_path / "generations.jsonl").write_text("{}\n")
    with pytest.raises(InputError, match="drop --resume"):
        Measured(tmp_path, resume=True)
    assert not Measured(tmp_path, resume=False)


def test_a_kill_while_a_checkpoint_is_read_loses_no_line(tmp_path, monkeypatch):
    (tmp_path / "generations.jsonl").write_text('{"turn": [0, 0, 0], "generations": []}\n{"tur')
    monkeypatch.setattr(type(tmp_path), "write_bytes", None)  # which empties a file first
    assert len(Measured(tmp_path, resume=True)) == 1


@pytest.mark.usefixtures("heard")
def test_resume_takes_the_same_command_and_refuses_another(capsys, tmp_path, monkeypatch):
    rows = [{"input": text[:9], "output": text} for text in TEXTS]
    write_splits(tmp_path, rows)
    command = ["bench", tmp_path, "--model", make_base(tmp_path / "m"), "--max-new-tokens", 9]
    command += ["--warmup", 0, "--method", "ar", "--method", "tasc-spec:budget=12"]
    decode, ran = matrix.decode, []

    def interrupted(*arguments):
        ran.append(1)
        if len(ran) == 5:
            signal.raise_signal(signal.SIGINT)
        return decode(*arguments)

    monkeypatch.setattr(matrix, "decode", interrupted)
    monkeypatch.setattr(lossless, "decode", decode)
    out = ["--output", tmp_path / "out"]
    code, _, err = tasc(capsys, *command, *out)
    assert (code, "a checkpoint is saved; resume with " in err) == (130, True)
    held = (tmp_path / ".out.work" / "generations.jsonl").read_bytes()
    code, _, err = tasc(capsys, *command, "--limit", 4, *out, "--resume")
    assert (code, "drop --resume" in err) == (2, True)
    write(tmp_path / "test.jsonl", rows[:1])
    code, _, err = tasc(capsys, *command, *out, "--resume")
    assert (code, "repeat that run's command" in err) == (2, True)
    assert (tmp_path / ".out.work" / "generations.jsonl").read_bytes() == held
    write(tmp_path / "test.jsonl", rows)
    assert tasc(capsys, *command, *out, "--resume")[0] == 0
    # Ten turns in all, four of which were kept; tasc-spec learns from its two again.
    assert len(ran) == 5 + 6 + 2
    assert tasc(capsys, *command, "--output", tmp_path / "whole")[0] == 0
    resumed, whole = (
        json.loads((tmp_path / name / "results.json").read_text()) for name in ("out", "whole")
    )
    assert (resumed["resumed_turns"], whole["resumed_turns"]) == (4, 0)
    assert without_times(resumed["cells"]) == without_times(whole["cells"])


DATED = (
    "{{ strftime_now('%S.%f') }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def test_a_resumed_bench_has_the_date_of_its_first_run(tmp_path, capsys, monkeypatch, heard):
    chat = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    write(tmp_path / "chats.jsonl", [{"messages": chat}] * 6)
    base = make_base(tmp_path / "m")
    config = base / "tokenizer_config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"chat_template": DATED}))
    command = ["bench", tmp_path / "chats.jsonl", "--split", "train", "--model", base]
    command += ["--method", "ar", "--max-new-tokens", 2, "--warmup", 0]
    decode, ran, prompts = matrix.decode, [], []

    def interrupted(cell, *arguments):
        prompts.append([prompt.tolist() for prompt in cell.prompts])
        ran.append(1)
        if len(ran) == 3:
            signal.raise_signal(signal.SIGINT)
        return decode(cell, *arguments)

    monkeypatch.setattr(matrix, "decode", interrupted)
    monkeypatch.setattr(lossless, "decode", decode)
    out = ["--output", tmp_path / "out"]
    assert tasc(capsys, *command, *out)[0] == 130
    code, _, err = tasc(capsys, *command, *out, "--resume")
    assert (code, "the chat template may write the date" in err) == (0, True)
    assert all(prompt == prompts[0] for prompt in prompts)
    ended = len(prompts)
    assert tasc(capsys, *command, "--output", tmp_path / "new")[0] == 0
    assert prompts[ended] != prompts[0]  # another run, another time
    ids = [
        [s["id"] for s in json.loads((tmp_path / name / "results.json").read_text())["samples"]]
        for name in ("out", "new")
    ]
    assert ids[0] == ids[1]


def test_the_progress_of_a_resumed_bench_begins_where_it_was(model, tmp_path):
    split = split_of(TEXTS, TEXTS)
    options = BenchOptions(methods=METHODS[:2], warmup=0, max_new_tokens=9)
    measured, calls = Measured(tmp_path, resume=False), list[tuple[str, int, int]]()
    run(prepare([model], split, split, options), options, measured=measured)
    for turn in list(measured)[4:]:
        del measured[turn]
    cells = prepare([model], split, split, options)
    run(cells, options, measured, lambda *call: calls.append(call))
    decoded = [done for what, done, _ in calls if what == "decode"]
    assert decoded == list(range(4, 2 * len(TEXTS) + 1))
    again = [what for what, *_ in calls if what.startswith("decode again")]
    assert len(again) == sum(cells[turn[2]].method.learns for turn in list(measured)[:4])
