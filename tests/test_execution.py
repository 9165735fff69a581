"""Executors: the same results in the same order wherever the work runs, and a table to add to."""

import os
import sys
from importlib.util import find_spec

import numpy as np
import pytest

from docs.generate import methods
from tasc.benchmark.forecast.tune import Simulations, search
from tasc.benchmark.options import TuneOptions
from tasc.benchmark.results.search import Setting
from tasc.decoding.simulate import References
from tasc.errors import InputError, TascError
from tasc.execution import EXECUTORS, Entry, Local, Workers, executor_help, in_order
from tasc.execution.kept import keep
from tasc.options.executor import Place, read_place
from tests.cli import refused
from tests.pico import make_tokenizer
from tests.recipes import ROWS, write
from tests.work import add, die_once, write_down

NO_RAY = pytest.mark.skipif(not find_spec("ray"), reason="ray is not installed: tasc-lm[ray]")
QUIET = pytest.mark.filterwarnings("ignore::")  # of Ray's own making
NAMES = [  # the first is the local one
    pytest.param(name, marks=[pytest.mark.slow, NO_RAY, QUIET] if name == "ray" else ())
    for name in EXECUTORS
]
EVERY = pytest.mark.parametrize("name", NAMES)
os.environ.setdefault("RAY_AUTH_MODE", "disabled")  # or Ray writes a token into HOME
CORPUS = [np.array([1, 2, 3, 4, i % 3 + 5], np.int32) for i in range(12)]


@EVERY
def test_results_come_in_order_and_errors_come_through(name):
    with EXECUTORS[name].start(10, Workers(2)) as executor:
        assert [*in_order(executor.run(add, [3, 1, 2]))] == [13, 11, 12]
        with pytest.raises(ValueError, match="no room for -1"):
            [*executor.run(add, [1, -1, 4, 5])]
        assert [*in_order(executor.run(add, iter([4, 5])))] == [14, 15]
        assert [*executor.run(add, [])] == []


@EVERY
def test_a_search_finds_the_same_wherever_it_runs(name):
    references = References([np.array([9], np.int32)] * 4, CORPUS[:4], 0)
    simulations = Simulations(CORPUS, references)
    grid = {"n_max": (2, 3, 4), "width": (0, 1)}
    expected = search(simulations, Setting(), grid)
    with EXECUTORS[name].start(simulations, Workers(2)) as executor:
        assert search(simulations, Setting(), grid, executor=executor) == expected


def test_a_new_executor_is_in_help_docs_and_the_options_of_commands(monkeypatch):
    entry = Entry("on the moon", "rocket", EXECUTORS["local"].start)
    monkeypatch.setitem(EXECUTORS, "moon", entry)
    assert "moon: on the moon" in executor_help()
    assert "| `moon` | on the moon | rocket |" in methods.executors("")
    described = TuneOptions.model_fields["executor"].description or ""
    assert all(f"{name}: " in described for name in EXECUTORS if name != "moon")


@pytest.mark.parametrize("name", NAMES[1:])
def test_a_killed_worker_costs_its_own_piece_only(name, tmp_path):
    (tmp_path / "deaths").write_text("2")
    with EXECUTORS[name].start(tmp_path, Workers(2)) as executor:
        assert [*in_order(executor.run(die_once, range(8)))] == [2 * i for i in range(8)]
    assert len(list(tmp_path.glob("death-*"))) == 2
    assert sorted(path.name.split("-")[1] for path in tmp_path.glob("done-*")) == [*"01234567"]


@pytest.mark.parametrize("name", NAMES[1:])
def test_a_piece_that_kills_every_worker_is_given_up(name, tmp_path):
    (tmp_path / "deaths").write_text("99")
    said = r"3 workers died on the same piece of work.*fewer workers"
    given_up = pytest.raises(TascError, match=said)
    with EXECUTORS[name].start(tmp_path, Workers(2)) as executor, given_up:
        [*executor.run(die_once, range(8))]


def test_pieces_that_are_done_are_kept_and_not_made_again(tmp_path):
    def kept(tasks, **resume):
        made = keep(Local(calls), write_down, tasks, tmp_path / "kept", **resume)
        return {number: (folder / "value").read_bytes() for number, folder in made}

    calls = []
    with pytest.raises(ValueError, match="no more"):
        kept([7, 8, -1], resume=False)
    (tmp_path / "kept" / "2.99.tmp").mkdir()  # of a run that was killed as it wrote
    calls.clear()
    assert kept([7, 8, 9], resume=True) == {0: b"7", 1: b"8", 2: b"9"}
    assert calls == [9]
    assert kept([7, 8], resume=False) == {0: b"7", 1: b"8"}
    assert calls == [9, 7, 8]


def test_an_executor_that_is_not_installed_names_the_extra(capsys, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    task, tokenizer = write(tmp_path / "train.jsonl", ROWS), make_tokenizer(tmp_path / "tokenizer")
    given = ("--tokenizer", tokenizer, "--executor", "ray", "--output", tmp_path / "out")
    assert "pip install 'tasc-lm[ray]'" in refused(capsys, "analyze", task, *given)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("local", Place()),
        ("processes", Place("processes")),
        ("processes:workers=4", Place("processes", 4)),
        ("ray:workers=64,address=head:6379", Place("ray", 64, "head:6379")),
    ],
)
def test_an_executor_is_written_as_a_method_is(text, place):
    assert read_place(text) == place
    assert TuneOptions(source="d", tokenizer="t", executor=text).executor == text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("moon", "choose from local, processes, ray"),
        ("local:workers=2", "local has no workers: use processes"),
        ("processes:address=head:1", "processes has no address: use ray"),
        ("processes:workers=0", "workers must lie between 1 and 1,024, got 0"),
        ("processes:workers=" + "9" * 40, "workers must lie between"),
        ("processes:worker=2", "write processes:workers=NUMBER"),
        ("ray:address", "write ray:workers=NUMBER,address=HOST:PORT"),
        ("processes:workers=1,workers=2", "write processes:workers=NUMBER"),
    ],
)
def test_an_executor_that_cannot_be_read_is_refused_in_one_line(text, said):
    with pytest.raises(InputError) as caught:
        TuneOptions(source="d", tokenizer="t", executor=text)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
@NO_RAY
@QUIET
def test_ray_uses_the_places_of_a_cluster_or_beside_it_this_machine_alone():
    from ray import cluster_utils, nodes

    cluster = cluster_utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        with EXECUTORS["ray"].start(10, Workers(2, cluster.address)) as executor:
            assert [*in_order(executor.run(add, [3, 1, 2]))] == [13, 11, 12]
        with EXECUTORS["ray"].start(10, Workers(1)):
            assert [node["NodeManagerAddress"] for node in nodes()] == ["127.0.0.1"]
    finally:
        cluster.shutdown()
