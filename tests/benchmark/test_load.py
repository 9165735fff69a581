"""``tasc load`` against servers that behave, and others."""

import json

import pytest

from tasc.benchmark.load.results import LoadResults
from tasc.errors import InputError, UnavailableError
from tests.benchmark.loads import ROWS, measure
from tests.benchmark.stub_server import Behaviour, event, serving
from tests.cli import done
from tests.cli import tasc as run


def test_every_output_is_kept_with_its_tokens_and_times(task):
    with serving(Behaviour(wait=0.002)) as url:
        found = measure(task, f"one={url}", concurrency="1,4", repeats=2)
    assert [(c.endpoint, c.concurrency) for c in found.cells] == [("one", 1), ("one", 4)]
    assert found.endpoints[0].model == "m"
    for cell in found.cells:
        assert [output.text for output in cell.outputs] == [row["output"] for row in ROWS]
        assert {output.tokens for output in cell.outputs} == {4}
        assert all(len(output.ms) == 2 for output in cell.outputs)
        assert (cell.requests, cell.failed, cell.errors) == (24, 0, {})
        assert cell.quality["exact_match"] == 1
        assert (cell.equal.identical, cell.equal.of) == (12, 12)
        assert 2 <= cell.ttft_ms.median <= cell.e2el_ms.median <= cell.e2el_ms.p99
        assert cell.tokens_per_output == 4
        tokens = 24 * 4 / sum(cell.seconds)
        assert cell.output_tokens_per_second == pytest.approx(tokens)
    assert LoadResults.model_validate(json.loads(json.dumps(found.to_dict()))) == found


def test_a_server_is_asked_for_greedy_streams_and_never_for_more_at_a_time_than_said(task):
    behaviour = Behaviour(wait=0.01)
    with serving(behaviour) as url:
        measure(task, url, concurrency="3", stop=("\n",), models=("mine",))
    assert behaviour.most == 3
    assert len(behaviour.seen) == 12 + 3
    for body in behaviour.seen:
        assert (body["temperature"], body["max_tokens"], body["stream"]) == (0, 9, True)
        assert (body["stop"], body["model"]) == (["\n"], "mine")
        assert body["stream_options"] == {"include_usage": True}


def test_time_per_token_is_that_after_the_first(task):
    with serving(Behaviour(wait=0.05, text=lambda _: "a b c d e f")) as url:
        cell = measure(task, url, limit=4).cells[0]
    for output in cell.outputs:
        assert output.ms[0] >= output.ttft_ms[0] >= 50
    per_token = [(o.ms[0] - o.ttft_ms[0]) / 5 for o in cell.outputs]
    assert cell.tpot_ms.mean == pytest.approx(sum(per_token) / 4, abs=0.001)
    assert cell.itl_ms.mean == pytest.approx(cell.tpot_ms.mean, abs=0.001)


def test_servers_take_turns_and_the_slow_one_is_compared_with_the_first(task):
    starts: list[str] = []

    def noted(name, prompt):
        starts.append(name)
        return f"answer to {prompt.strip()}" if name == "fast" else "other"

    fast = Behaviour(text=lambda p: noted("fast", p))
    slow = Behaviour(text=lambda p: noted("slow", p), wait=0.03)
    with serving(fast) as one, serving(slow) as two:
        found = measure(task, f"fast={one}", f"slow={two}", repeats=4, warmup=1)
    passes = starts[2::12]
    assert sorted(passes) == ["fast"] * 4 + ["slow"] * 4
    assert all({*passes[i : i + 2]} == {"fast", "slow"} for i in range(0, 8, 2))
    assert passes != ["fast", "slow"] * 4  # the order is drawn anew
    (pair,) = found.comparisons
    assert (pair.endpoint, pair.against, pair.concurrency) == ("slow", "fast", 1)
    assert pair.speed.interval[0] <= pair.speed.ratio <= pair.speed.interval[1] < 1
    assert len(pair.throughput_by_repeat) == 4
    assert pair.quality["exact_match"].difference == -1
    assert pair.quality["exact_match"].mcnemar.only_against == 12
    assert found.cells[1].equal.identical == 0
    assert found.cells[1].equal.different == (0, 1, 2, 3, 4)


def test_requests_that_fail_are_counted_and_are_no_output(task):
    behaviour = Behaviour(fails=lambda n: n % 3 == 2, drops=lambda n: n % 3 == 1)
    with serving(behaviour) as url:
        cell = measure(task, url, warmup=1).cells[0]
    assert (cell.requests, cell.failed) == (12, 8)
    assert sorted(cell.errors.values()) == [4, 4]
    assert any("500" in why for why in cell.errors)
    failed = [output for output in cell.outputs if output.errors[0]]
    assert len(failed) == 8
    assert all((o.text, o.tokens, o.ms, o.ttft_ms) == ("", 0, (None,), (None,)) for o in failed)
    assert cell.quality["exact_match"] == pytest.approx(4 / 12)
    assert (cell.equal.identical, cell.equal.of) == (4, 4)
    assert cell.tokens_per_output == 4


def test_a_server_that_dies_under_load_leaves_the_figures_of_the_other(task):
    with serving(Behaviour()) as one, serving(Behaviour(fails=lambda n: n > 0)) as two:
        found = measure(task, f"good={one}", f"bad={two}", warmup=1)
    good, bad = found.cells
    assert (good.failed, bad.failed) == (0, 12)
    assert bad.ttft_ms is bad.e2el_ms is None
    assert (bad.requests_per_second, bad.tokens_per_output, bad.equal.of) == (0, 0, 0)
    assert found.comparisons[0].speed is None
    assert found.comparisons[0].throughput_by_repeat == (0.0,)


_IN_WORDS = r"\((what it sent is|the stream ended|the answer is far longer|no room).*\)"
STREAMS = {
    "no usage": (event(choices=[{"text": "a", "index": 0}]), b"data: [DONE]\n\n"),
    "nothing": (b"data: [DONE]\n\n",),
    "no JSON": (b"data: {\n\n",),
    "no object": (b"data: 5\n\n",),
    "text that is none": (event(choices=[{"text": 5}]), event(choices=[], usage={})),
    "tokens that are none": (
        event(choices=[{"text": "a"}]),
        event(choices=[], usage={"completion_tokens": "many"}),
    ),
    "fewer tokens than none": (
        event(choices=[{"text": "a"}]),
        event(choices=[], usage={"completion_tokens": -1}),
    ),
    "an error": (event(error={"message": "no room"}),),
    "an endless text": (event(choices=[{"text": "a" * 5000}]),) * 3,
}


@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)
def test_a_stream_that_is_none_is_a_failure_and_no_traceback(task, stream):
    with serving(Behaviour(raw=stream)) as url, pytest.raises(UnavailableError, match=_IN_WORDS):
        measure(task, url)


def test_a_server_that_wants_a_key_is_told_apart(task):
    behaviour = Behaviour(fails=lambda _: True, failure=401)
    with serving(behaviour) as url, pytest.raises(UnavailableError, match="401: set TASC_API_KEY"):
        measure(task, url)


def test_more_requests_at_a_time_than_samples_are_left_out(capsys, task, tmp_path):
    with serving(Behaviour()) as url:
        given = ("load", task, "--endpoint", url, "--output", tmp_path / "out")
        found = done(capsys, *given)
    assert found["settings"]["concurrency"] == [1, 8, 32]
    assert {cell["concurrency"] for cell in found["cells"]} == {1, 8}
    with pytest.raises(InputError, match=r"13 requests at a time .* there are 12: raise --limit"):
        measure(task, "http://127.0.0.1:9", concurrency="13")


def test_halves_of_characters_in_two_pieces_are_joined_and_lone_ones_are_no_text(task):
    stream = (
        event(choices=[{"text": "a\ud83d"}]),
        event(choices=[{"text": "\ude00\udc00"}]),
        event(choices=[], usage={"completion_tokens": 2}),
        b"data: [DONE]\n\n",
    )
    with serving(Behaviour(raw=stream)) as url:
        text = measure(task, url).cells[0].outputs[0].text
    assert text == "a\U0001f600\ufffd"


def test_a_request_that_takes_too_long_has_failed(task):
    with serving(Behaviour(wait=0.8)) as url, pytest.raises(UnavailableError, match=r"0\.2 s"):
        measure(task, url, timeout=0.2)


def test_no_server_is_one_line_and_exit_code_2(capsys, task, tmp_path):
    out = tmp_path / "out"
    code, printed, err = run(
        capsys, "load", task, "--endpoint", "http://127.0.0.1:9", "--output", out
    )
    assert (code, printed) == (2, "")
    assert err.count("\n") == 1
    assert "no answer from 127.0.0.1:9 at" in err
    assert "start the server" in err
    assert not out.exists()


def test_a_redirect_is_not_followed_and_nothing_of_the_environment_is_sent(task, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret-1")
    monkeypatch.setenv("OPENAI_ORG_ID", "secret-2")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "secret-3")
    monkeypatch.setenv("OPENAI_ADMIN_KEY", "secret-4")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://secret-5")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    elsewhere, here = Behaviour(), Behaviour()
    with serving(here) as url, serving(elsewhere) as other:
        measure(task, url)
        assert "secret" not in str(here.headers)
        assert {sent["authorization"] for sent in here.headers} == {"Bearer none"}
        monkeypatch.setenv("TASC_API_KEY", "mine")
        here.redirect = f"{other}/completions"
        with pytest.raises(UnavailableError, match="307"):
            measure(task, url)
        assert here.headers[-1]["authorization"] == "Bearer mine"
    assert not elsewhere.seen
