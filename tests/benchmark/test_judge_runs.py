"""``tasc judge`` as a command: what it reads, sends, keeps of a run that ends early, and shows."""

import json
import re
import signal
import subprocess
import sys
import time

import pytest

import tasc
from tasc.benchmark.judge.run import judge
from tasc.benchmark.results.conditions import Sample
from tasc.errors import InputError, UnavailableError
from tasc.options.texts import read_texts
from tests.benchmark.judges import ROWS, judged, prefers
from tests.benchmark.stub_server import Behaviour, serving
from tests.cli import assert_loads_no_torch, done
from tests.cli import tasc as run
from tests.pico import make_base
from tests.test_terminal import raw


def test_a_judge_that_only_fails_is_one_line_and_leaves_nothing(capsys, bench, tmp_path):
    behaviour, out = Behaviour(fails=lambda n: True), tmp_path / "out"
    with serving(behaviour) as url:
        code, printed, err = run(
            capsys, "judge", bench, "--endpoint", url, "--concurrency", 1, "--output", out
        )
    assert (code, printed, err.count("\n")) == (2, "", 1)
    assert "no answer from" in err
    assert "500" in err
    assert len(behaviour.seen) < 24
    assert not out.exists()


def test_a_judge_without_a_single_score_is_one_line_and_leaves_nothing(capsys, bench, tmp_path):
    out = tmp_path / "out"
    with serving(Behaviour(chat=lambda _: "They all look fine to me.")) as url:
        code, printed, err = run(capsys, "judge", bench, "--endpoint", url, "--output", out)
    assert (code, printed, err.count("\n")) == (2, "", 1)
    assert "no reply of m holds scores, such as 'They all look fine to me.'" in err
    assert not out.exists()


def test_a_run_that_ended_early_goes_on_with_what_it_had(capsys, bench, tmp_path):
    out = tmp_path / "out"
    behaviour = Behaviour(chat=prefers("two"), fails=lambda n: n >= 10)
    given = ("judge", bench, "--concurrency", 1, "--output", out, "--only", "one", "--only", "two")
    with serving(behaviour) as url:
        code, _, err = run(capsys, *given, "--endpoint", url)
        assert (code, "no answer from" in err) == (2, True)
        assert "give --resume to go on from 10 judgements" in err
        (kept,) = tmp_path.glob(".out.work/judgements.jsonl")
        with kept.open("a") as file:
            file.write('{"key": [0, 1], "judg')  # as a killed run leaves it
        behaviour.fails, before = lambda n: False, len(behaviour.seen)
        found = done(capsys, *given, "--endpoint", url, "--resume")
    assert len(behaviour.seen) - before == 24 - 10
    assert (found["complete"], found["pairs"][0]["difference"]) == (12, 2)
    assert not kept.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_killed_run_goes_on_with_what_it_had(capsys, bench, tmp_path, number):
    behaviour = Behaviour(chat=lambda _: "3 3 3", wait=0.3)
    out = tmp_path / "out"
    with serving(behaviour) as url:
        given = ("judge", str(bench), "--endpoint", url, "--concurrency", "2", "--output", str(out))
        process = subprocess.Popen(
            [sys.executable, "-m", "tasc_cli.main", *given],
            stderr=subprocess.PIPE,
            text=True,
            # the background of a shell ignores it
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        deadline = time.monotonic() + 60
        while len(behaviour.seen) < 7 and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(number)
        err = process.communicate(timeout=30)[1]
        assert process.returncode == (130 if number == signal.SIGINT else -number), err
        assert number == signal.SIGKILL or "with --resume goes on" in err
        assert not out.exists()
        behaviour.wait, before = 0.0, len(behaviour.seen)
        assert done(capsys, *given, "--resume")["complete"] == 12
    assert 24 - before <= len(behaviour.seen) - before <= 24 - 4


def test_a_run_goes_on_with_the_same_judge_alone(bench, tmp_path):
    behaviour = Behaviour(chat=prefers("two"), fails=lambda n: n >= 10)
    with serving(behaviour) as url:
        options = tasc.JudgeOptions(
            results=str(bench), endpoint=url, only=("one", "two"), concurrency=1
        )
        data = read_texts(options).corpus
        with pytest.raises(UnavailableError):
            judge(data, options, tmp_path)
        behaviour.fails = lambda n: False
        with pytest.raises(InputError, match="--model"):
            judge(data, options.but(model="other"), tmp_path, resume=True)
        (tmp_path / "judgements.jsonl").write_text("[]\nx\n")
        with pytest.raises(InputError, match="damaged"):
            judge(data, options, tmp_path, resume=True)
        assert judge(data, options, tmp_path).complete == 12


def test_the_reference_is_shown_on_request_alone(bench):
    behaviour = Behaviour(chat=prefers("two"))
    with serving(behaviour) as url:
        judged(bench, url, limit=2)
        assert "expected" not in str(behaviour.seen)
        judged(bench, url, limit=2, show_reference=True)
    assert all("expected" in str(sent) for sent in behaviour.seen[4:])


def test_a_limit_takes_samples_of_the_bench(bench):
    with serving(Behaviour(chat=prefers("two"))) as url:
        some, others = (judged(bench, url, limit=4, seed=seed) for seed in (0, 1))
    everything = [Sample.of(f"{row['input']}\n", row["output"]).id for row in ROWS]
    ids = [sample.id for sample in some.samples]
    assert ids == [name for name in everything if name in ids]
    assert ids != [sample.id for sample in others.samples]
    assert (some.complete, some.pairs[0].interval) == (4, None)


def test_no_output_leaves_the_machine_unless_that_is_allowed(capsys, bench, tmp_path):
    away = {"results": str(bench), "endpoint": "http://10.0.0.1:8000"}
    with pytest.raises(InputError, match="--allow-remote"):
        tasc.JudgeOptions(**away)
    assert tasc.JudgeOptions(**away, allow_remote=True)
    with pytest.raises(InputError, match="endpoint"):
        tasc.JudgeOptions(**away | {"endpoint": "10.0.0.1"}, allow_remote=True)
    recipe = tmp_path / "r.yaml"
    recipe.write_text(
        f"name: r\ndescription: d\ndata: {{path: {tmp_path / 'task'}}}\nsteps:\n"
        f"  away: {{command: judge, results: {bench}, endpoint: 'http://10.0.0.1', "
        "allow_remote: true}\n"
    )
    code, _, err = run(capsys, "run", recipe, "--output", tmp_path / "out")
    assert (code, "allow_remote is no recipe's to give" in err) == (2, True)


def test_prompts_that_are_not_there_are_one_line(bench, tmp_path):
    url = "http://127.0.0.1:9"
    with pytest.raises(InputError, match=r"12 of 12 samples .* are not in the split 'test'"):
        judged(bench, url, source={"path": str(tmp_path / "task"), "template": "Q: {input}"})
    with pytest.raises(InputError, match="other is no model of this bench: choose from one, two"):
        judged(bench, url, only=("one", "other"))
    with pytest.raises(InputError, match="2 to 26 models, saw 1"):
        judged(bench, url, only=("one",))
    (bench / "manifest.json").unlink()
    with pytest.raises(InputError, match="does not tell where its prompts are: give --data"):
        judged(bench, url)
    with serving(Behaviour(chat=prefers("two"))) as url:
        assert judged(bench, url, source=str(tmp_path / "task")).complete == 12
    (bench / "results.json").write_text("{}")
    with pytest.raises(InputError, match="run the bench again"):
        judged(bench, url, source=str(tmp_path / "task"))


@pytest.mark.parametrize(
    "manifest", ["[]", "{", '{"arguments": 3}', '{"arguments": {"source": 3}}']
)
def test_a_strange_manifest_is_one_line(bench, manifest):
    (bench / "manifest.json").write_text(manifest)
    with pytest.raises(InputError, match=r"^tasc judge: .*(--data|source)"):
        judged(bench, "http://127.0.0.1:9")


HOSTILE = "<script>alert(1)</script>\x1b[31m\u202e"


def test_the_command_shows_scores_and_differences(capsys, bench, tmp_path):
    out = tmp_path / "out"

    def chat(messages):
        return HOSTILE if "number 5" in str(messages) else prefers("two")(messages)

    with serving(Behaviour(chat=chat)) as url:
        code, printed, err = run(
            capsys,
            *("judge", bench, "--only", "one", "--only", "two", "--endpoint", f"judge={url}"),
            *("--model", "big\x1b[31m", "--output", out),
        )
    assert code == 0, err
    assert not raw(printed + err)
    assert re.search(r"two +ar +4\.00 +0\.00 +0% +0% +0% +100% +100%", printed)
    assert "two against one: +2.00 (95 % +2.00 to +2.00); better in 11, worse in 0" in printed
    assert "both orders agree in 100%" in printed
    assert "mean score by the position of an answer: 3.00, 3.00" in printed
    assert "FAILED: 1 of 12 samples were left out" in printed
    held = json.loads((out / "judge.json").read_text())
    assert held["samples"][5]["judgements"][0]["replies"] == [HOSTILE] * 2


def test_it_loads_no_torch(bench, tmp_path):
    with serving(Behaviour(chat=lambda _: "3 3 3")) as url:
        assert_loads_no_torch("judge", bench, "--endpoint", url, "--output", tmp_path / "out")


def test_a_bench_says_where_its_prompts_are(capsys, bench, tmp_path):
    """What ``tasc bench`` leaves is judged with no word about the data."""
    task, base = tmp_path / "task", make_base(tmp_path / "base")
    (task / "train.jsonl").write_text((task / "test.jsonl").read_text())
    done(
        capsys,
        *("bench", task, "--model", f"a={base}", "--model", f"b={base}", "--method", "ar"),
        *("--template", "Say: {input}", "--limit", 3, "--seed", 5, "--max-new-tokens", 3),
        *("--output", tmp_path / "real"),
    )
    behaviour = Behaviour(chat=lambda messages: "3 3")
    with serving(behaviour) as url:
        given = ("judge", tmp_path / "real", "--endpoint", url, "--limit", 2)
        found = done(capsys, *given, "--output", tmp_path / "out")
    assert (found["complete"], found["source"]) == (2, str(task))
    assert found["pairs"][0]["difference"] == 0
    assert "[Prompt Begin]\nSay: number" in behaviour.seen[0]["messages"][0]["content"]
