"""``tasc load`` as a command: whom it may reach, what it is compared with, and shows."""

import json
import re
import signal
import subprocess
import sys
import time

import pytest

import tasc
from tasc.errors import InputError, UnavailableError
from tests.benches import make_results, said
from tests.benchmark.loads import ROWS, measure
from tests.benchmark.stub_server import Behaviour, serving
from tests.cli import assert_loads_no_torch, done
from tests.cli import tasc as run
from tests.pico import make_base
from tests.test_terminal import raw


@pytest.mark.parametrize(
    "url",
    [
        "http://10.0.0.1:8000",
        "https://example.com/v1",
        "http://127.0.0.1.example.com",
        "http://0.0.0.0",
    ],
)
def test_no_prompt_leaves_the_machine_unless_that_is_allowed(url):
    with pytest.raises(InputError, match="--allow-remote"):
        tasc.LoadOptions(source="x", endpoints=(url,))
    assert tasc.LoadOptions(source="x", endpoints=(url,), allow_remote=True)


@pytest.mark.parametrize(
    "text",
    [
        *("", "127.0.0.1:8000", "ftp://127.0.0.1", "http://", "http://127.0.0.1@example.com"),
        *("http://127.0.0.1:99999", "http://127.0.0.1/v1?key=1", "http://127.0.0.1/#x"),
        *("http://example.com\\@127.0.0.1", "http://127.0.0.1 .example.com", "name=", "a=b=http:"),
    ],
)
def test_what_is_no_plain_url_is_refused(text):
    with pytest.raises(InputError, match="endpoint"):
        tasc.LoadOptions(source="x", endpoints=(text,), allow_remote=True)


def test_an_endpoint_that_no_client_can_parse_is_refused():
    with pytest.raises(InputError, match="at most 2,048 characters"):
        tasc.LoadOptions(source="x", endpoints=("http://127.0.0.1/" + "a" * 70_000,))


@pytest.mark.parametrize(
    ("text", "label", "url"),
    [
        ("http://localhost:8000", "localhost:8000", "http://localhost:8000/v1"),
        ("a=http://127.0.0.1:8000/v1/", "a", "http://127.0.0.1:8000/v1"),
        ("http://[::1]:8000/", "[::1]:8000", "http://[::1]:8000/v1"),
        ("b=HTTP://LOCALHOST/api", "b", "HTTP://LOCALHOST/api"),
    ],
)
def test_a_url_without_a_path_is_that_of_v1(text, label, url):
    (address,) = tasc.LoadOptions(source="x", endpoints=(text,)).addresses
    assert (address.label, address.url, address.local) == (label, url, True)


def test_options_that_do_not_go_together_are_refused():
    two = {"source": "x", "endpoints": ("a=http://127.0.0.1:1", "b=http://127.0.0.1:2")}
    for wrong, why in (
        ({"endpoints": ("http://127.0.0.1:1", "http://127.0.0.1:1/v1")}, "same name"),
        ({"models": ("x", "y", "z")}, "3 models for 2"),
        ({"concurrency": 0}, "concurrency"),
        ({"concurrency": "1,8"}, "concurrency"),
        ({"concurrency": 1000}, "concurrency"),
        ({"stop": ("",)}, "stop"),
    ):
        with pytest.raises(InputError, match=why):
            tasc.LoadOptions(**two | wrong)


def test_a_recipe_cannot_send_a_task_to_another_machine(capsys, task, tmp_path):
    recipe = tmp_path / "r.yaml"
    recipe.write_text(
        f"name: r\ndescription: d\ndata: {{path: {task}}}\nsteps:\n"
        "  away: {command: load, endpoints: ['http://10.0.0.1'], allow_remote: true}\n"
    )
    code, _, err = run(capsys, "run", recipe, "--output", tmp_path / "out")
    assert code == 2
    assert "allow_remote is no recipe's to give" in err


def test_outputs_are_compared_with_those_of_an_earlier_run(capsys, task, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    with serving(Behaviour()) as url:
        given = ("load", task, "--endpoint", f"one={url}", "--concurrency", "2")
        done(capsys, *given, "--output", first)
    with serving(
        Behaviour(text=lambda p: "other" if " 1\n" in p else f"answer to {p.strip()}")
    ) as url:
        given = ("load", task, "--endpoint", f"two={url}", "--concurrency", "2")
        found = done(capsys, *given, "--reference", first, "--output", second)
    equal = found["cells"][0]["equal"]
    assert equal == {"against": "first: one", "identical": 11, "of": 12, "different": [1]}
    with serving(Behaviour()) as url:
        fewer = ("load", task, "--endpoint", url, "--limit", 3, "--reference", first)
        code, _, err = run(capsys, *fewer, "--output", tmp_path / "third")
        assert (code, "other samples" in err) == (2, True)
        (second / "results.json").write_text("{}")
        code, _, err = run(capsys, *given, "--reference", second, "--output", tmp_path / "third")
        assert (code, "not a result of tasc bench or tasc load" in err) == (2, True)


def test_outputs_are_compared_with_those_of_a_bench(task, tmp_path):
    from tasc.benchmark.results.conditions import Sample

    texts = [f"answer to number {i}" for i in range(12)]
    bench = make_results(said("m", [*texts[:-1], "else"], [1.0] * 12), references=tuple(texts))
    samples = [Sample.of(f"{row['input']}\n", row["output"]) for row in ROWS]
    bench = bench.model_copy(update={"samples": tuple(samples)})
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "results.json").write_text(json.dumps(bench.to_dict()))
    with serving(Behaviour()) as url:
        equal = measure(task, url, reference=str(tmp_path / "b")).cells[0].equal
    assert (equal.against, equal.identical, equal.different) == ("b: m · ar", 11, (11,))


HOSTILE = "<script>alert(1)</script>\x1b[31m\u202e<img src=x>"


def test_a_hostile_server_does_not_reach_the_terminal(capsys, task, tmp_path):
    behaviour = Behaviour(text=lambda _: HOSTILE, fails=lambda n: n == 5)
    out = tmp_path / "out"
    with serving(behaviour) as url:
        code, printed, err = run(
            capsys,
            *("load", task, "--endpoint", f"<b>a={url}", "--concurrency", 2),
            *("--output", out),
        )
    assert code == 0, err
    assert not raw(printed + err)
    assert "FAILED: 1 of 12 requests" in printed


def test_the_command_shows_servers_side_by_side(capsys, task, tmp_path):
    with serving(Behaviour()) as one, serving(Behaviour()) as two:
        code, printed, err = run(
            capsys,
            *("load", task, "--endpoint", f"plain={one}", "--endpoint", f"drafts={two}"),
            *("--concurrency", 2, "--output", tmp_path / "out"),
        )
    assert code == 0, err
    assert re.search(r"drafts against plain: \d+\.\d\d× as fast", printed)
    assert printed.count("12/12") == 2
    assert "results: " in printed


def test_a_client_that_is_not_installed_is_one_line(monkeypatch, task):
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(UnavailableError, match=r"pip install 'tasc-lm\[endpoint\]'"):
        measure(task, "http://127.0.0.1:9")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_nothing(task, tmp_path, number):
    behaviour, out = Behaviour(wait=0.5), tmp_path / "made" / "out"
    out.parent.mkdir()
    with serving(behaviour) as url:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "tasc_cli.main", "load", str(task), "--endpoint", url),
                *("--concurrency", "4", "--output", str(out)),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # the background of a shell ignores it
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        deadline = time.monotonic() + 60
        while len(behaviour.seen) < 6 and time.monotonic() < deadline:
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(number)
        printed, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert (printed, "Traceback" in err) == ("", False)
    assert "interrupted" in err
    assert not list(out.parent.iterdir())


def test_it_loads_no_torch(task, tmp_path):
    with serving(Behaviour()) as url:
        given = ("load", task, "--endpoint", url, "--concurrency", 1)
        assert_loads_no_torch(*given, "--output", tmp_path / "out")


def test_a_servers_text_is_that_of_the_models_own_bench(task, tmp_path):
    """The texts of a bench, told again by a server, are equal to it: nothing is lost on the way."""
    (tmp_path / "train.jsonl").write_text((tmp_path / "test.jsonl").read_text())
    base = make_base(tmp_path / "base")
    bench = tasc.bench(
        tasc.BenchOptions(source=str(task), models=(str(base),), limit=4, max_new_tokens=6)
    )
    texts = {f"{row['input']}\n": "" for row in ROWS}
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "results.json").write_text(json.dumps(bench.to_dict()))
    for sample, output in zip(bench.samples, bench.cells[0].outputs, strict=True):
        assert sample.prompt is not None
        texts[sample.prompt] = output.text
    with serving(Behaviour(text=texts.__getitem__)) as url:
        found = measure(task, url, limit=4, reference=str(tmp_path / "b"))
    assert (found.cells[0].equal.identical, found.cells[0].equal.of) == (4, 4)
