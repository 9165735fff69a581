"""``tasc load`` as a command: whom it may reach, what it is compared with, and shows."""

import re
import signal
import subprocess
import sys
import time

import pytest

import tasc
from tasc.benchmark.results.conditions import Sample
from tasc.data.corpus import load
from tasc.data.source import Source
from tasc.errors import InputError, UnavailableError
from tests.benches import make_results, said
from tests.benchmark.stub_server import Behaviour, serving
from tests.benchmark.tasks import ROWS, measure
from tests.cli import assert_loads_no_torch, done, refused
from tests.cli import tasc as run
from tests.recipes import write_recipe
from tests.test_terminal import raw

AWAY = ("http://10.0.0.1:8000", "https://example.com/v1", "http://127.0.0.1.example.com")


@pytest.mark.parametrize("url", [*AWAY, "http://0.0.0.0"])
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
        pytest.param("http://127.0.0.1/" + "a" * 70_000, id="endless"),
    ],
)
def test_what_is_no_plain_url_is_refused(text):
    why = "at most 2,048 characters" if len(text) > 2048 else "endpoint"
    with pytest.raises(InputError, match=why):
        tasc.LoadOptions(source="x", endpoints=(text,), allow_remote=True)


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


@pytest.mark.parametrize(
    "step",
    [
        "command: load, endpoints: ['http://10.0.0.1']",
        "command: bench, models: [m], metrics: [judge], judge_endpoint: 'http://10.0.0.1'",
    ],
    ids=["load", "judge"],
)
def test_a_recipe_cannot_send_a_task_to_another_machine(capsys, tmp_path, step):
    recipe = write_recipe(tmp_path, f"  away: {{{step}, allow_remote: true}}\n")
    error = refused(capsys, "run", recipe, "--output", tmp_path / "out")
    assert "allow_remote is no recipe's to give" in error


def test_outputs_are_compared_with_those_of_an_earlier_run(capsys, task, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    with serving(Behaviour()) as url:
        done(capsys, "load", task, "--endpoint", f"one={url}", "--output", first)
    other = Behaviour(text=lambda p: "other" if " 1\n" in p else f"answer to {p.strip()}")
    with serving(other) as url:
        given = ("load", task, "--endpoint", f"two={url}", "--concurrency", "2")
        found = done(capsys, *given, "--reference", first, "--output", second)
        third = (*given, "--output", tmp_path / "third", "--reference")
        assert "other samples" in refused(capsys, *third, first, "--limit", 3)
        (second / "results.json").write_text("{}")
        damaged = refused(capsys, *third, second)
        assert "not a result of tasc bench or tasc load" in damaged
    equal = found["cells"][0]["equal"]
    assert equal == {"against": "first: one", "identical": 11, "of": 12, "different": [1]}


def test_outputs_are_compared_with_those_of_a_bench(task, save):
    texts = [row["output"] for row in ROWS]
    bench = make_results(said("m", [*texts[:-1], "else"], [1.0] * 12), references=tuple(texts))
    samples = tuple(map(Sample.of, load(Source(str(task)), "test").examples))
    bench = bench.model_copy(update={"samples": samples})
    with serving(Behaviour()) as url:
        equal = measure(task, url, reference=save("b", bench)).cells[0].equal
    assert (equal.against, equal.identical, equal.different) == ("b: m · ar", 11, (11,))


HOSTILE = "<script>alert(1)</script>\x1b[31m\u202e<img src=x>"


def test_servers_stand_side_by_side_and_a_hostile_one_does_not_reach_the_terminal(
    capsys, task, tmp_path
):
    hostile = Behaviour(text=lambda _: HOSTILE, fails=lambda n: n == 5)
    with serving(Behaviour()) as one, serving(hostile) as two, serving(Behaviour()) as three:
        endpoints = (f"plain={one}", f"<b>a={two}", f"drafts={three}")
        given = ("load", task, *(part for url in endpoints for part in ("--endpoint", url)))
        code, out, err = run(capsys, *given, "--concurrency", 2, "--output", tmp_path / "out")
    assert code == 0, err
    assert not raw(out + err)
    assert "FAILED: 1 of 12 requests" in out
    assert re.search(r"drafts against plain: \d+\.\d\d× as fast", out)
    assert out.count("12/12") == 2
    assert "results: " in out


def test_a_client_that_is_not_installed_is_one_line(monkeypatch, task):
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(UnavailableError, match=r"pip install 'tasc-lm\[endpoint\]'"):
        measure(task, "http://127.0.0.1:9")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_nothing(task, tmp_path, number):
    behaviour = Behaviour(holds=lambda number: number >= 5)  # after some were answered
    out = tmp_path / "made" / "out"
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
        while len(behaviour.seen) < 6:
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(number)
        printed, err = process.communicate()
    assert process.returncode == 130, err
    assert (printed, "Traceback" in err) == ("", False)
    assert "interrupted" in err
    assert not list(out.parent.iterdir())


def test_it_loads_no_torch(task, tmp_path):
    with serving(Behaviour()) as url:
        given = ("load", task, "--endpoint", url, "--concurrency", 1)
        assert_loads_no_torch(*given, "--output", tmp_path / "out")


def test_a_servers_text_is_that_of_the_models_own_bench(task, base, save):
    """The texts of a bench, told again by a server, are equal to it: nothing is lost on the way."""
    few = {"limit": 4, "max_new_tokens": 6, "methods": ("ar",)}
    bench = tasc.bench(tasc.BenchOptions(source=str(task), models=(str(base),), **few))
    texts = {f"{row['input']}\n": "" for row in ROWS}
    for sample, output in zip(bench.samples, bench.cells[0].outputs, strict=True):
        assert sample.prompt is not None
        texts[sample.prompt] = output.text
    with serving(Behaviour(text=texts.__getitem__)) as url:
        found = measure(task, url, limit=4, reference=save("b", bench))
    assert (found.cells[0].equal.identical, found.cells[0].equal.of) == (4, 4)
