"""``--method choices`` in a bench: labels, calibration, and what it is not compared with."""

import re

import numpy as np
import pytest

from tasc.benchmark.options import BenchOptions
from tasc.benchmark.record import calibration_error
from tasc.benchmark.results.cells import Output
from tasc.data.choices import find_choices, read_choices
from tasc.data.source import Source
from tasc.errors import InputError
from tests.cli import done, printed, tasc
from tests.pico import make_base
from tests.recipes import write_splits

ROWS = [
    {"input": f"wake me at {n}", "output": ["on", "off", "night_mode"][n % 3]} for n in range(6)
]
METHODS = ("choices:prune=false", "choices", "choices:calibrate=true")


@pytest.fixture
def task(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_base(tmp_path / "base")
    write_splits(tmp_path, ROWS)
    (tmp_path / "labels.txt").write_text("on\noff\n\nnight_mode\n")
    (tmp_path / "task.yaml").write_text(
        "path: .\nchoices: labels.txt\nmetrics: [exact_match, valid]\nmax_new_tokens: 8\n"
    )
    return tmp_path


def bench(capsys, *arguments):
    return done(capsys, "bench", "task.yaml", "--model", "base", "--output", "out", *arguments)


def test_outputs_are_labels_with_probabilities_and_are_not_compared(capsys, task):
    methods = [part for name in (*METHODS, "ar", "prompt") for part in ("--method", name)]
    found = bench(capsys, *methods, "--batch-size", 2)
    cells = {cell["method"]: cell for cell in found["cells"]}
    labels = {"on", "off", "night_mode"}
    for name in (*METHODS, "ar", "prompt"):
        assert {output["text"] for output in cells[name]["outputs"]} <= labels
        assert cells[name]["quality"]["valid:choices=labels.txt"] == 1
        assert cells[name]["lossless"]["against"] == (name if name in METHODS else "ar")
    assert {match["method"] for match in found["reference"]} == {"ar"}
    texts = [[output["text"] for output in cells[name]["outputs"]] for name in METHODS]
    assert texts[0] == texts[1]
    for name in METHODS:
        outputs = [Output(**output) for output in cells[name]["outputs"]]
        error = calibration_error(outputs, [row["output"] for row in ROWS])
        assert cells[name]["calibration_error"] == pytest.approx(error)
        assert all(0 < output.probability <= 1 for output in outputs)
    assert cells["choices:prune=false"]["decoding_steps_per_output"] == 1
    assert cells["ar"]["calibration_error"] is None
    page = (task / "out" / "report.html").read_text()
    assert "outputs of their own, which are not compared" in page
    assert "Calibration error of base · choices: " in page


def test_a_bench_of_choices_alone_has_no_reference(capsys, task):
    given = ("--method", "choices", "--choices", "output", "--metric", "exact_match")
    code, out, err = tasc(
        capsys, "bench", "task.yaml", "--model", "base", *given, "--output", "out"
    )
    assert (code, "NOT LOSSLESS" in err + out) == (0, False)
    assert "outputs of their own, not compared (–)" in out
    assert "Calibration error (ECE, 10 bins) of base · choices: 0." in out
    assert re.search("Exact match +0[.0-9]* ", printed(capsys, "compare", "out", "out"))


def test_the_calibration_error_is_that_of_the_paper():
    """Bins of 0.1: two outputs in one, half of them right; one alone; one sure and right."""

    def error(made):
        outputs = [
            Output(text=text, tokens=1, steps=1, ms=(1.0,), probability=p) for p, text in made
        ]
        return calibration_error(outputs, ["a"] * len(outputs))

    expected = (2 * abs(0.65 - 0.5) + abs(0.25 - 1) + 0) / 4
    made = [(0.61, "a"), (0.69, "b"), (0.25, "a"), (1.0, "a")]
    assert error(made) == pytest.approx(expected)
    rng = np.random.default_rng(0)
    calibrated = [(p, "a" if rng.random() < p else "b") for p in rng.random(4000).tolist()]
    assert error(calibrated) < 0.03


def test_labels_come_from_a_file_or_a_column(task):
    assert read_choices(task / "labels.txt") == ["on", "off", "night_mode"]
    (task / "labels.json").write_text('["on", " off"]')
    assert read_choices(task / "labels.json") == ["on", " off"]
    assert find_choices("output", Source("."), "train") == ["on", "off", "night_mode"]


@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        ("", "a.txt", "has no labels"),
        ("on\noff\non\n", "a.txt", "has the label 'on' twice"),
        ('{"a": 1}', "a.json", "is not a JSON list of texts"),
        ("[1, 2]", "a.json", "is not a JSON list of texts"),
        ('["", "a"]', "a.json", "has an empty label"),
        ("[" * 100_000, "a.json", "is not valid JSON"),
    ],
)
def test_wrong_labels_are_one_line(tmp_path, text, name, said):
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=said):
        read_choices(tmp_path / name)


def test_options_that_do_not_go_together_are_refused(task):
    given = {"source": "task.yaml", "models": ("base",), "methods": ("choices",)}
    assert BenchOptions(**given).choices == "labels.txt"
    with pytest.raises(InputError, match="choices does not sample: remove temperature"):
        BenchOptions(**given, temperature=1.0)
    with pytest.raises(InputError, match="needs labels: pass a file or a column with --choices"):
        BenchOptions(**given | {"source": "."})
    with pytest.raises(InputError, match="'nothing' is no file and no column"):
        find_choices("nothing", Source("."), "train")
