"""``tasc load`` with servers that behave, and others."""

import gzip
import json
from functools import partial

import pytest

from tasc.benchmark.results.load import LoadResults
from tasc.errors import InputError, UnavailableError
from tests.benchmark.stub_server import Behaviour, completion, serving
from tests.benchmark.tasks import ROWS, measure
from tests.cli import refused


@pytest.mark.parametrize("concurrency", [1, 4])
def test_every_output_is_kept_with_its_tokens_and_times(task, concurrency):
    with serving(Behaviour(wait=0.002)) as url:
        found = measure(task, f"one={url}", concurrency=concurrency, repeats=2)
    assert found.endpoints[0].model == "m"
    (cell,) = found.cells
    assert cell.endpoint == "one"
    assert [output.text for output in cell.outputs] == [row["output"] for row in ROWS]
    assert {output.tokens for output in cell.outputs} == {4}
    assert all(len(output.ms) == 2 for output in cell.outputs)
    assert (cell.requests, cell.failed, cell.errors) == (24, 0, {})
    assert (cell.equal.identical, cell.equal.of) == (12, 12)
    assert cell.ms_per_sample >= 2
    assert cell.requests_per_second == pytest.approx(24 / sum(cell.seconds))
    assert LoadResults.model_validate(json.loads(json.dumps(found.to_dict()))) == found


def test_requests_are_greedy_and_never_more_in_flight_than_allowed(task):
    behaviour = Behaviour()

    def held(number: int) -> bool:
        """Hold requests after the warm-up until three are in flight."""
        if len(behaviour.seen) >= 3 + 3:
            behaviour.over.set()
        return number >= 3

    behaviour.holds = held
    with serving(behaviour) as url:
        measure(task, url, concurrency=3, stop=("\n",), models=("mine",))
    assert behaviour.most == 3
    assert len(behaviour.seen) == 12 + 3
    for body in behaviour.seen:
        assert (body["temperature"], body["max_tokens"], body.get("stream")) == (0, 9, None)
        assert (body["stop"], body["model"]) == (["\n"], "mine")


def test_servers_take_turns_and_the_slow_one_is_compared_with_the_first(task, monkeypatch):
    starts, now = [], 0.0
    monkeypatch.setattr("tasc.benchmark.load.time.perf_counter", lambda: now)

    def noted(name, prompt):
        nonlocal now
        now += 0.01 if name == "fast" else 0.04
        starts.append(name)
        return f"answer to {prompt.strip()}" if name == "fast" else "other"

    fast, slow = (Behaviour(text=partial(noted, name)) for name in ("fast", "slow"))
    with serving(fast) as one, serving(slow) as two:
        found = measure(task, f"fast={one}", f"slow={two}", repeats=4, warmup=1)
    passes = starts[2::12]
    assert sorted(passes) == ["fast"] * 4 + ["slow"] * 4
    assert all({*passes[i : i + 2]} == {"fast", "slow"} for i in range(0, 8, 2))
    assert passes != ["fast", "slow"] * 4  # the order is drawn anew
    (pair,) = found.comparisons
    assert (pair.endpoint, pair.against) == ("slow", "fast")
    assert pair.speed.ratio == pytest.approx(1 / 4)
    assert pair.speed.interval[0] <= pair.speed.ratio <= pair.speed.interval[1] < 1
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
    assert all((o.text, o.tokens, o.ms) == ("", 0, (None,)) for o in failed)
    assert (cell.equal.identical, cell.equal.of) == (4, 4)


def test_a_server_that_dies_under_load_leaves_the_figures_of_the_other(task):
    with serving(Behaviour()) as one, serving(Behaviour(fails=lambda n: n > 0)) as two:
        found = measure(task, f"good={one}", f"bad={two}", warmup=1)
    good, bad = found.cells
    assert (good.failed, bad.failed) == (0, 12)
    assert (bad.ms_per_sample, bad.requests_per_second, bad.equal.of) == (None, 0, 0)
    assert found.comparisons[0].speed is None


STRANGE = {
    "no JSON": b"{",
    "no object": b"5",
    "nothing": b"",
    "no usage": b'{"choices": [{"text": "a"}]}',
    "no choices": completion("a").replace(b"choices", b"chances"),
    "text that is none": completion(5, 1),
    "tokens in words": completion("a", "many"),
    "negative tokens": completion("a", -1),
    "more tokens than were allowed": completion("a", 10**18),
    "401 digits": completion("a", 10**400),
    "true for tokens": completion("a", True),
    "infinite tokens": completion("a").replace(b": 1}", b": 1e999}"),
    "endless digits": completion("a").replace(b": 1}", b": " + b"9" * 5000 + b"}"),
    "nested lists": b"[" * 200_000,
    "no UTF-8": completion("a").replace(b"a", b"\xff"),
    "an endless text": completion("a" * 2_000_000),
    "an error": b'{"error": {"message": "no room"}}',
}
REPORTED = {
    "an object": {"error": {"message": "no room", "code": 503}},
    "a text": {"error": "no room"},
    "an old vLLM": {"object": "error", "message": "no room", "code": 400},
    "FastAPI": {"detail": "no room"},
    "a choice": {"choices": [{"error": {"message": "no room"}, "text": ""}]},
    "beside no choices": {"error": {"message": "no room"}, "choices": []},
}
PACKED = gzip.compress(completion("a"))
HEADERS = {
    "an encoding of bytes": Behaviour(headers_sent={"Content_Type": "text/plain; charset=zlib"}),
    "a page": Behaviour(headers_sent={"Content_Type": "text/html"}),
    "a bomb": Behaviour(raw=lambda _: PACKED, headers_sent={"Content_Encoding": "gzip"}),
}


@pytest.mark.parametrize("body", STRANGE.values(), ids=STRANGE)
def test_an_unusable_answer_is_a_failure_and_the_others_count(task, body):
    behaviour = Behaviour(raw=lambda number: body if number == 5 else None)
    with serving(behaviour) as url:
        (cell,) = measure(task, url, warmup=1).cells
    assert (cell.failed, cell.requests, cell.equal.of) == (1, 12, 11)
    (reason,) = cell.errors
    assert len(reason) < 301
    behaviour.raw = lambda _: body
    with serving(behaviour) as url, pytest.raises(UnavailableError, match="no answer from"):
        measure(task, url)


@pytest.mark.parametrize("body", REPORTED.values(), ids=REPORTED)
def test_an_error_in_an_answer_of_status_200_is_reported(task, body):
    raw = json.dumps(body).encode()
    behaviour = Behaviour(raw=lambda number: raw if number == 5 else None)
    with serving(behaviour) as url:
        (cell,) = measure(task, url, warmup=1).cells
    assert cell.errors == {"the server reports an error: no room": 1}
    behaviour.raw = lambda _: raw
    with serving(behaviour) as url, pytest.raises(UnavailableError) as caught:
        measure(task, url)
    told = str(caught.value)
    assert "(the server reports an error: no room): correct the request" in told
    assert "start the server" not in told


def test_a_field_named_error_that_is_null_is_no_error(task):
    answer = json.dumps(json.loads(completion("a")) | {"error": None}).encode()
    with serving(Behaviour(raw=lambda _: answer)) as url:
        assert measure(task, url).cells[0].failed == 0


def test_an_unknown_encoding_of_json_is_passed_over(task):
    headers = {"Content_Type": "application/json; charset=utf-99"}
    with serving(Behaviour(headers_sent=headers)) as url:
        assert measure(task, url).cells[0].failed == 0


@pytest.mark.parametrize(
    ("behaviour", "limit_s", "why"),
    [
        (Behaviour(fails=lambda _: True, failure=401), 5.0, "401: set TASC_API_KEY"),
        (Behaviour(holds=lambda _: True), 0.1, r"0\.1 s"),
        *((behaviour, 5.0, "no answer from") for behaviour in HEADERS.values()),
    ],
    ids=["no key", "too slow", *HEADERS],
)
def test_why_a_server_is_of_no_use_is_told_apart(task, behaviour, limit_s, why):
    with serving(behaviour) as url, pytest.raises(UnavailableError, match=why):
        measure(task, url, timeout=limit_s)


def test_more_requests_in_flight_than_samples_are_refused(task):
    with pytest.raises(InputError, match=r"13 requests in flight .* there are 12: raise --limit"):
        measure(task, "http://127.0.0.1:9", concurrency=13)


def test_lone_halves_of_characters_are_no_text(task):
    behaviour = Behaviour(raw=lambda _: completion("a\ud83d\ude00\udc00"))
    with serving(behaviour) as url:
        text = measure(task, url).cells[0].outputs[0].text
    assert text == "a\U0001f600\ufffd"


def test_no_server_is_one_line_and_exit_code_2(capsys, task, tmp_path):
    out = tmp_path / "out"
    error = refused(capsys, "load", task, "--endpoint", "http://127.0.0.1:9", "--output", out)
    assert "no answer from 127.0.0.1:9 at" in error
    assert "start the server" in error
    assert not out.exists()


def test_a_redirect_is_not_followed_and_nothing_of_the_environment_is_sent(task, monkeypatch):
    for name in ("API_KEY", "ORG_ID", "PROJECT_ID", "ADMIN_KEY", "BASE_URL"):
        monkeypatch.setenv(f"OPENAI_{name}", "http://secret")
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
