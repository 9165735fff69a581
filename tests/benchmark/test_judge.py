"""The metric ``judge`` with judges that are fair, chatty, broken, or hostile."""

import json
import re

import pytest

import tasc
from tasc.benchmark.judge import judge, parse
from tasc.benchmark.metrics import JUDGE, find
from tasc.benchmark.paired.pairs import counted
from tasc.benchmark.results.warnings import warnings
from tasc.errors import InputError, UnavailableError
from tasc.options.texts import read_texts
from tests.benches import make_results, said
from tests.benchmark.stub_server import Behaviour, serving
from tests.cli import done
from tests.cli import tasc as run
from tests.test_terminal import raw

ANSWER = re.compile(r"\[Model's Answer Begin\]\n(.*?)\n\[Model's Answer End\]", re.S)


def shown(messages):
    return ANSWER.search(messages[0]["content"])[1]


def prefers(word, best=4, others=2):
    return lambda messages: str(best if word in shown(messages) else others)


def cells():
    return [said(name, [f"{name} {i}" for i in range(12)], [1.0] * 12) for name in ("one", "two")]


def judged(task, url, work, *given, resume=False, **more):
    options = tasc.BenchOptions(
        source=str(task), models=("m",), metrics=(JUDGE,), judge_endpoint=url, **more
    )
    work.mkdir(exist_ok=True)
    test = read_texts(options.but(corpus_split="test")).corpus
    return judge(given or cells(), test, options, work, resume=resume, progress=lambda *_: None)


@pytest.mark.parametrize(
    ("reply", "score"),
    [
        *(("4", 4), ("1\n\nThe answer…", 1), ("\n 3 \n", 3), ("<think>\n1?\n</think>\n2", 2)),
        *(("4.0", None), ("4 2", None), ("5", None), ("0", None), ("", None), ("-1", None)),
        *(("Score: 4", None), ("４", None), ("³", None), ("I think\n4", None), ("04", None)),
    ],
)
def test_the_first_line_is_a_score_and_nothing_else(reply, score):
    assert parse(reply) == score


def test_a_preference_comes_out_as_it_is(task, tmp_path):
    behaviour = Behaviour(chat=prefers("two"))
    with serving(behaviour) as url:
        one, two = judged(task, url, tmp_path / "work")
    assert one.quality[JUDGE] == pytest.approx(1 / 3)
    assert (two.quality[JUDGE], two.scores) == (1, (1.0,) * 12)
    assert len(behaviour.seen) == 24
    assert {sent["temperature"] for sent in behaviour.seen} == {0}
    counts = counted(two, [""] * 12, (JUDGE,), ";")[JUDGE]
    assert find(JUDGE).value(counts.sum(0)) == 1
    sent = behaviour.seen[0]["messages"][0]["content"]
    assert "[Prompt Begin]\nnumber " in sent
    assert "[Reference Answer Begin]\nanswer to number " in sent


def test_equal_outputs_are_scored_once(task, tmp_path):
    same = [said(name, ["{x}"] * 12, [1.0] * 12) for name in ("one", "two", "three")]
    behaviour = Behaviour(chat=prefers("{x}"))
    with serving(behaviour) as url:
        found = judged(task, url, tmp_path / "work", *same)
    assert len(behaviour.seen) == 12
    assert {cell.quality[JUDGE] for cell in found} == {1}


def test_prose_is_asked_again_once_and_the_sample_left_out_of_all_cells(task, tmp_path):
    def hesitant(messages):
        if shown(messages) == "one 3":
            return "neither"
        if len(messages) == 1:
            return "well…"
        assert [m["role"] for m in messages] == ["user", "assistant", "user"]
        return "3"

    behaviour = Behaviour(chat=hesitant)
    with serving(behaviour) as url:
        found = judged(task, url, tmp_path / "work")
    assert len(behaviour.seen) == 48
    for cell in found:
        assert [i for i, score in enumerate(cell.scores) if score is None] == [3]
        assert cell.quality[JUDGE] == pytest.approx(2 / 3)
    results = make_results(*found, references=("x",) * 12, settings={"judge": "big"})
    assert any(
        "leaves out 1 of 12 samples, which big gave no" in line for line in warnings(results)
    )


def test_a_request_that_fails_is_sent_again_once(task, tmp_path):
    with serving(Behaviour(chat=prefers("two"), fails=lambda n: n == 5)) as url:
        found = judged(task, url, tmp_path / "work")
    assert None not in found[0].scores


def test_a_run_that_ended_goes_on_with_the_scores_that_it_had(task, tmp_path):
    behaviour = Behaviour(chat=prefers("two"), fails=lambda n: n >= 10)
    work = tmp_path / "work"
    with serving(behaviour) as url:
        more = {"judge_model": "m"}
        with pytest.raises(UnavailableError, match=r"no answer from .*500.*--resume keeps"):
            judged(task, url, work, *cells(), said("x", list("abcdefghijkl"), [1.0] * 12), **more)
        with (work / "judge.jsonl").open("a") as file:
            file.write('{"key": "12')  # as a killed run leaves it
        behaviour.fails, before = lambda n: False, len(behaviour.seen)
        judged(task, url, work, resume=True, **more)
        assert 24 - 10 <= len(behaviour.seen) - before < 24
        before = len(behaviour.seen)
        judged(task, url, work, resume=True, **more)
        assert len(behaviour.seen) == before
        judged(task, url, work, resume=True, judge_model="other")
        assert len(behaviour.seen) == before + 24


def test_outputs_that_always_fail_do_not_end_a_resumed_run(task, tmp_path):
    many = [said(f"m{k}", [f"bad {k} {i}" for i in range(12)], [1.0] * 12) for k in range(2)]

    def score(messages):
        return [1] if shown(messages).startswith("bad") else "4"

    work, given = tmp_path / "work", {"judge_model": "m"}
    with serving(Behaviour(chat=score)) as url:
        judged(task, url, work, cells()[0], **given)
        found = judged(task, url, work, cells()[0], *many, resume=True, **given)
    assert all(cell.scores == (None,) * 12 for cell in found)


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ("They all look fine to me.", "contains a score, such as 'They all look fine"),
        *((content, "no text") for content in ([1], None, 4)),
    ],
)
def test_a_judge_without_a_single_score_is_an_error_and_no_reply_is_kept(
    task, tmp_path, reply, why
):
    behaviour, work = Behaviour(chat=lambda _: reply), tmp_path / "work"
    with serving(behaviour) as url, pytest.raises(UnavailableError, match=why):
        judged(task, url, work, judge_model="m")
    assert not list(work.iterdir())


def test_no_output_leaves_the_machine_unless_that_is_allowed():
    away = {"source": "x", "models": ("m",), "metrics": (JUDGE,)}
    url = {"judge_endpoint": "http://10.0.0.1:8000"}
    assert tasc.BenchOptions(**away, **url, allow_remote=True)
    for wrong, why in (
        (away | url, "--allow-remote"),
        (away | {"judge_endpoint": "10.0.0.1", "allow_remote": True}, "endpoint"),
        (away, "require each other"),
        (away | url | {"metrics": (), "allow_remote": True}, "require each other"),
    ):
        with pytest.raises(InputError, match=why):
            tasc.BenchOptions(**wrong)


def test_a_bench_is_judged_and_compared(capsys, task, base, tmp_path):
    given = (
        *("bench", task, "--model", f"a={base}", "--model", f"b={base}", "--method", "ar"),
        *("--max-new-tokens", 3, "--metric", JUDGE, "--metric", "exact_match"),
        "--judge-endpoint",
    )
    behaviour = Behaviour(chat=lambda _: "3\n\x1b[31m")
    with serving(behaviour) as url:
        found = done(capsys, *given, url, "--output", tmp_path / "out")
        code, printed, err = run(capsys, *given, url, "--output", tmp_path / "again")
    assert code == 0, err
    assert not raw(printed + err)
    assert found["settings"]["judge"] == "m"
    assert len(behaviour.seen) == 24
    assert [cell["quality"][JUDGE] for cell in found["cells"]] == [pytest.approx(2 / 3)] * 2
    assert found["pairs"][0]["quality"][JUDGE]["difference"] == 0
    folders = (tmp_path / "out", tmp_path / "again")
    # The exit status depends on the speeds, too, which are noise.
    _, compared, _ = run(capsys, "compare", *folders, "--json")
    judged = [change for change in json.loads(compared)["changes"] if change["what"] == JUDGE]
    assert [change["verdict"] for change in judged] == ["within the noise"] * 2
    code, _, err = run(capsys, *given, "http://127.0.0.1:9", "--output", tmp_path / "none")
    assert (code, "no answer from 127.0.0.1:9" in err) == (2, True)
