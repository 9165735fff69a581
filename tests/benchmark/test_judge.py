"""``tasc judge`` before judges that are fair, biased, chatty, broken, or hostile."""

import json
import re
import signal
import subprocess
import sys
import time

import pytest

import tasc
from tasc.benchmark.judge.results import JudgeResults
from tasc.benchmark.judge.rubric import Question, parse
from tasc.benchmark.judge.run import judge
from tasc.benchmark.results.conditions import Sample
from tasc.errors import InputError, UnavailableError
from tasc.options.texts import read_texts
from tests.benches import make_results, said
from tests.benchmark.stub_server import Behaviour, serving
from tests.cli import assert_loads_no_torch, done
from tests.cli import tasc as run
from tests.pico import make_base
from tests.test_terminal import raw

ROWS = [{"input": f"number {i}", "output": f"expected {i}"} for i in range(12)]
SECTION = re.compile(r"\[Agent [A-Z]'s Answer Begin\]\n(.*?)\n\[Agent [A-Z]'s Answer End\]", re.S)


def answers(messages) -> list[str]:
    """Return what is to be judged, in the order shown."""
    return SECTION.findall(messages[0]["content"])


def prefers(word, best=4, others=2):
    """Return a judge that gives ``best`` to an answer with ``word`` in it."""
    return lambda messages: " ".join(
        str(best if word in answer else others) for answer in answers(messages)
    )


@pytest.fixture
def bench(tmp_path):
    """A bench of three models on a task, and what says where its prompts are."""
    task, folder = tmp_path / "task", tmp_path / "bench"
    task.mkdir()
    folder.mkdir()
    (task / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    cells = [said(name, [f"{name} {i}" for i in range(12)], [1.0] * 12) for name in ("one", "two")]
    cells.insert(1, said("one", ["second method"] * 12, [1.0] * 12, method="tasc-spec"))
    cells.append(said("three", [f"three {i}" for i in range(12)], [1.0] * 12))
    made = make_results(*cells, references=tuple(row["output"] for row in ROWS))
    samples = tuple(Sample.of(f"{row['input']}\n", row["output"]) for row in ROWS)
    made = made.model_copy(update={"samples": samples})
    (folder / "results.json").write_text(json.dumps(made.to_dict()))
    asked = {"source": {"path": str(task)}, "split": "test"}
    (folder / "manifest.json").write_text(json.dumps({"command": "bench", "arguments": asked}))
    return folder


def judged(bench, url, **options) -> JudgeResults:
    given = {"only": ("one", "two"), "timeout": 5.0, "results": str(bench), "endpoint": url}
    return tasc.judge(tasc.JudgeOptions(**given | options))


@pytest.mark.parametrize(
    ("reply", "scores"),
    [
        *(("4 2", (4, 2)), ("1  3\n\nThe first…", (1, 3)), ("\n4 4 \n", (4, 4))),
        *(("4, 2", None), ("4", None), ("4 2 1", None), ("5 1", None), ("0 1", None), ("", None)),
        *(("Scores: 4 2", None), ("4.0 2", None), ("４ 2", None), ("³ 2", None), ("-1 2", None)),
        *(("I think\n4 2", None), ("4 02", None)),
    ],
)
def test_the_first_line_is_scores_and_nothing_else(reply, scores):
    assert parse(reply, 2) == scores


def test_the_judge_is_asked_with_the_rubric_and_the_words_of_the_task():
    text = Question("{input}", "Tag it.", "clinical").text(["x {0}", "y"])
    assert text.startswith("You are an intelligent clinical language model.")
    assert "2 corresponding responses from 2 different clinical models" in text
    assert "[Instruction Begin]\nTag it.\n[Instruction End]" in text
    assert "[Prompt Begin]\n{input}\n[Prompt End]" in text
    assert SECTION.findall(text) == ["x {0}", "y"]
    assert text.endswith("separated by spaces. Output scores without explanation.")
    assert "eference" not in text
    known = Question("p", "i", reference="the right one").text(["x", "y", "z"])
    assert "You are an intelligent language model." in known
    assert "[Reference Answer Begin]\nthe right one\n[Reference Answer End]" in known
    assert "must contain only 3 values" in known


def test_a_preference_comes_out_as_it_is(bench):
    behaviour = Behaviour(chat=prefers("two"))
    with serving(behaviour) as url:
        found = judged(bench, url)
    one, two = found.models
    assert (one.model, one.method, one.mean, one.sd) == ("one", "ar", 2, 0)
    assert (two.mean, two.shares, two.same_in_both_orders) == (4, (0, 0, 0, 1), 1)
    (pair,) = found.pairs
    assert (pair.model, pair.against, pair.difference, pair.interval) == ("two", "one", 2, (2, 2))
    assert (pair.better, pair.worse, pair.equal, pair.same_in_both_orders) == (12, 0, 0, 1)
    assert found.by_position == (3, 3)
    assert (found.complete, found.asked, found.unparsed, found.failed) == (12, 24, 0, 0)
    assert (found.judge.model, len(behaviour.seen)) == ("m", 24)
    assert {sent["temperature"] for sent in behaviour.seen} == {0}
    assert JudgeResults.model_validate(json.loads(json.dumps(found.to_dict()))) == found


def test_a_difference_on_some_samples_has_an_interval_and_a_spread(bench):
    def of_even_numbers(messages):
        shown = answers(messages)
        return " ".join("4" if "two" in a and int(a[-1]) % 2 == 0 else "3" for a in shown)

    with serving(Behaviour(chat=of_even_numbers)) as url:
        found = judged(bench, url)
    one, two = found.models
    assert (two.mean, one.mean) == (3.5, 3)
    assert two.sd == pytest.approx(0.5222, abs=1e-4)  # of six 3s and six 4s
    assert two.shares == (0, 0, 0.5, 0.5)
    (pair,) = found.pairs
    assert (pair.better, pair.worse, pair.equal) == (6, 0, 6)
    assert 0 < pair.interval[0] < pair.difference == 0.5 < pair.interval[1] < 1


def test_position_bias_is_seen_and_moves_no_model(bench):
    with serving(Behaviour(chat=lambda _: "4 1")) as url:
        found = judged(bench, url)
    assert [model.mean for model in found.models] == [2.5, 2.5]
    assert [model.same_in_both_orders for model in found.models] == [0, 0]
    (pair,) = found.pairs
    assert (pair.difference, pair.interval, pair.equal) == (0, (0, 0), 12)
    assert pair.same_in_both_orders == 0
    assert found.by_position == (4, 1)


def test_each_sample_is_judged_in_a_drawn_order_and_in_its_reverse(bench):
    behaviour = Behaviour(chat=lambda messages: "3 3 3")
    with serving(behaviour) as url:
        found = judged(bench, url, only=(), concurrency=1)
        again = judged(bench, url, only=(), concurrency=8)
        other = judged(bench, url, only=(), seed=1)
    firsts = set()
    for sample in found.samples:
        drawn, turned = sample.judgements
        assert drawn.models == turned.models[::-1]
        assert {*drawn.models} == {"one", "two", "three"}
        firsts.add(drawn.models)
    assert len(firsts) > 2
    assert found.samples == again.samples != other.samples
    assert [(p.model, p.against) for p in found.pairs] == [
        *(("two", "one"), ("three", "one"), ("three", "two"))
    ]
    shown = answers(behaviour.seen[0]["messages"])
    assert shown == [f"{model} 0" for model in found.samples[0].judgements[0].models]


def test_prose_is_asked_again_once_kept_and_left_out(bench):
    behaviour = Behaviour(chat=lambda _: "Both answers are fine.")
    with serving(behaviour) as url:
        found = judged(bench, url, limit=3)
    assert (found.complete, found.asked, found.unparsed, found.failed) == (0, 6, 6, 0)
    assert len(behaviour.seen) == 12
    assert found.samples[0].judgements[0].replies == ("Both answers are fine.",) * 2
    assert (found.pairs, found.by_position) == ((), None)
    assert [(m.mean, m.sd, m.shares, m.same_in_both_orders) for m in found.models] == [
        *((None,) * 4, (None,) * 4)
    ]


def test_what_is_told_when_asked_again_counts_and_half_a_sample_does_not(bench):
    def hesitant(messages):
        if "number 3\n" in messages[0]["content"] and answers(messages)[0].startswith("one"):
            return "neither"
        if len(messages) == 1:
            return "well…"
        assert [m["role"] for m in messages] == ["user", "assistant", "user"]
        assert "must contain only 2 values" in messages[2]["content"]
        return "3 4"

    with serving(Behaviour(chat=hesitant)) as url:
        found = judged(bench, url)
    assert (found.complete, found.asked, found.unparsed) == (11, 24, 1)
    assert found.samples[0].judgements[0].replies == ("well…", "3 4")
    assert found.by_position == (3, 4)
    assert sum(not sample.complete for sample in found.samples) == 1


def test_a_request_that_fails_is_sent_again_once(bench):
    with serving(Behaviour(chat=prefers("two"), fails=lambda n: n % 4 == 0)) as url:
        found = judged(bench, url, concurrency=1)
    assert (found.complete, found.failed) == (12, 0)


def test_requests_that_fail_twice_are_counted_and_their_samples_left_out(bench):
    with serving(Behaviour(chat=prefers("two"), fails=lambda n: n in (2, 3))) as url:
        found = judged(bench, url, concurrency=1)
    assert (found.complete, found.failed, found.unparsed) == (11, 1, 0)
    lost = found.samples[1].judgements[0]
    assert (lost.scores, lost.replies) == (None, ())
    assert "500" in lost.error
    assert found.pairs[0].difference == 2


REPLIES = {
    "a list": [1],
    "nothing": None,
    "a number": 4,
}


@pytest.mark.parametrize("content", REPLIES.values(), ids=REPLIES)
def test_a_reply_without_text_is_a_failure_and_no_traceback(bench, content):
    behaviour = Behaviour(chat=lambda _: content)
    with serving(behaviour) as url, pytest.raises(UnavailableError, match="no text"):
        judged(bench, url, limit=2)


def test_halves_of_characters_are_no_text(bench):
    with serving(Behaviour(chat=lambda _: "4 4\n\ud83d")) as url:
        found = judged(bench, url, limit=1)
    assert found.samples[0].judgements[0].replies == ("4 4\n\ufffd",)
    json.dumps(found.to_dict(), ensure_ascii=False).encode()


def test_a_judge_that_only_fails_is_one_line_and_leaves_nothing(capsys, bench, tmp_path):
    behaviour, out = Behaviour(fails=lambda n: True), tmp_path / "out"
    with serving(behaviour) as url:
        code, printed, err = run(
            capsys, "judge", bench, "--endpoint", url, "--concurrency", 1, "--output", out
        )
    assert (code, printed, err.count("\n")) == (2, "", 1)
    assert "does not answer" in err
    assert "500" in err
    assert len(behaviour.seen) < 24
    assert not out.exists()


def test_a_run_that_ended_early_goes_on_with_what_it_had(capsys, bench, tmp_path):
    out = tmp_path / "out"
    behaviour = Behaviour(chat=prefers("two"), fails=lambda n: n >= 10)
    given = ("judge", bench, "--concurrency", 1, "--output", out, "--only", "one", "--only", "two")
    with serving(behaviour) as url:
        code, _, err = run(capsys, *given, "--endpoint", url)
        assert (code, "does not answer" in err) == (2, True)
        assert "--resume goes on from 10 judgements" in err
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
