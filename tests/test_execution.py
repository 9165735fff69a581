"""Executors: the same results in the same order wherever the work runs, and a table to add to."""

import hooks
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasc.benchmark.forecast.tune import Simulations, search
from tasc.benchmark.options import TuneOptions
from tasc.benchmark.results.search import Setting
from tasc.decoding.simulate import References
from tasc.execution import EXECUTORS, Entry, Workers, executor_help, in_order
from tasc.execution.local import Local

EVERY = pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if name == "ray" else ()) for name in EXECUTORS],
)
CORPUS = [np.array([1, 2, 3, 4, i % 3 + 5], np.int32) for i in range(12)]


def add(shared: int, task: int) -> int:
    if task < 0:
        raise ValueError(f"no room for {task}")
    return shared + task


@given(st.integers(), st.lists(st.integers(0)))
def test_local_work_is_done_in_order(shared, tasks):
    assert [*in_order(Local(shared).run(add, tasks))] == [shared + task for task in tasks]


@EVERY
def test_results_come_in_order_and_errors_come_through(name):
    with EXECUTORS[name].start(10, Workers(2)) as executor:
        assert [*in_order(executor.run(add, [3, 1, 2]))] == [13, 11, 12]
        with pytest.raises(ValueError, match="no room for -1"):
            [*executor.run(add, [1, -1, 4, 5])]
        assert [*in_order(executor.run(add, iter([4, 5])))] == [14, 15]


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
    assert "| `moon` | on the moon | rocket |" in hooks.TABLES["executors"]("")
    described = TuneOptions.model_fields["executor"].description or ""
    assert all(f"{name}: " in described for name in EXECUTORS if name != "moon")
