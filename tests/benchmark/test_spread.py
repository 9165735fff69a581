"""Benches on several workers: the same results but times, and what cannot be cut is refused."""

import re
from importlib.util import find_spec

import pytest

from tasc.errors import InputError
from tests.cli import done
from tests.options import BenchOptions
from tests.pico import make_base
from tests.recipes import write_splits

TIMES = re.compile(r"ms|ms_.*|.*_ms|.*seconds|.*speed.*|tokens_per_second|started|command_line")
NO_RAY = pytest.mark.skipif(not find_spec("ray"), reason="ray is not installed: tasc-lm[ray]")
QUIET = pytest.mark.filterwarnings("ignore::")  # of Ray's own making


def without_times(value):
    if isinstance(value, dict):
        return {k: without_times(v) for k, v in value.items() if not TIMES.fullmatch(k)}
    return [without_times(part) for part in value] if isinstance(value, list) else value


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["processes", pytest.param("ray", marks=[NO_RAY, QUIET])])
def test_results_do_not_depend_on_where_slices_are_decoded(capsys, tmp_path, executor):
    rows = [{"input": f"say {i}", "output": f"value {i % 3} and {i % 3}"} for i in range(11)]
    write_splits(tmp_path, rows)
    models = [f"--model={name}={make_base(tmp_path / name)}" for name in ("a", "b")]
    methods = ("--method", "ar", "--method", "tasc-spec:budget=12", "--method", "suffix")
    sizes = ("--slice", 4, "--max-new-tokens", 12, "--threads", 1, "--repeats", 2)
    line = ("bench", tmp_path, *models, *methods, *sizes)
    here = done(capsys, *line, "--output", tmp_path / "here")
    there = done(capsys, *line, "--executor", executor, "--output", tmp_path / "there")
    assert without_times(here) == without_times(there)
    assert here["settings"]["slice"] == 4
    assert [len(cell["outputs"]) for cell in there["cells"]] == [11] * 6


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"executor": "ray"}, "set slice"),
        ({"executor": "ray", "slice": 4, "methods": ("tasc-spec",)}, "add method ar"),
        ({"slice": 12, "batch_size": 2}, "not a multiple of 16"),
    ],
)
def test_what_cannot_be_cut_into_slices_is_refused(options, words):
    with pytest.raises(InputError, match=words):
        BenchOptions(**options)
