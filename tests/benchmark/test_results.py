"""``results.json`` of a real bench: as its schema says, whole, and read back as it was."""

import json

import jsonschema
import numpy as np
import pytest

import tasc
from docs.generate import schema
from tasc.benchmark.results.bench import BenchResults
from tests.cli import done
from tests.cli import tasc as run
from tests.pico import make_base
from tests.recipes import ROWS, write, write_splits


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("bench")
    write_splits(path, ROWS)
    for name in ("one", "two"):
        make_base(path / name)
    return path


@pytest.fixture(scope="module")
def options(folder):
    return tasc.BenchOptions(
        source=str(folder),
        models=(f"one={folder / 'one'}", f"two={folder / 'two'}"),
        limit=12,
        repeats=2,
        max_new_tokens=6,
        metrics=("exact_match", "micro_f1"),
        delimiter=" ",
    )


@pytest.fixture(scope="module")
def results(options):
    return tasc.bench(options)


def test_the_file_is_as_the_schema_in_the_docs_says(results):
    jsonschema.Draft202012Validator.check_schema(schema.schema())
    written = json.loads(json.dumps(results.to_dict(), allow_nan=False))
    jsonschema.validate(written, schema.schema())
    assert BenchResults.model_validate(written) == results
    assert written["version"] == 3
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(written | {"more": 1}, schema.schema())
    del written["cells"][0]["outputs"][0]["steps"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(written, schema.schema())


def test_figures_of_a_cell_are_those_of_its_outputs(results):
    assert len(results.cells) == 4
    assert len({sample.id for sample in results.samples}) == 12
    for cell in results.cells:
        assert len(cell.outputs) == 12
        assert all(len(output.ms) == 2 for output in cell.outputs)
        assert sum(output.tokens for output in cell.outputs) == cell.tokens
        assert sum(output.steps for output in cell.outputs) == cell.decoding_steps
        assert cell.sample_ms.mean() == pytest.approx(cell.ms_per_sample, abs=1e-3)
        by_repeat = np.array([output.ms for output in cell.outputs]).mean(0)
        assert by_repeat == pytest.approx(cell.ms_per_sample_by_repeat, abs=1e-3)
    (pair,) = results.pairs
    assert set(pair.quality) == {"exact_match", "micro_f1"}
    assert set(pair.speed) == {"ar", "tasc-spec"}
    for change in results.comparisons:
        low, high = change.speedup_interval
        assert low <= change.speedup <= high


def test_the_terminal_says_how_models_differ(capsys, options, tmp_path):
    code, out, err = run(
        capsys,
        *("bench", options.source.path, "--model", options.models[0], "--model", options.models[1]),
        *("--limit", 12, "--max-new-tokens", 4, "--output", tmp_path / "out"),
    )
    assert code == 0, err
    line = next(line for line in out.splitlines() if line.startswith("two against one: "))
    assert "Exact match +0.000 (95 % +0.000 to +0.000; 0 against 0, p = 1)" in line
    assert "12 of 12 samples are also in split train" in err
    assert "12 outputs of one " in err
    assert done(capsys, "compare", tmp_path / "out", tmp_path / "out")["samples"] == 12


def test_without_a_corpus_split_methods_draft_from_the_prompt_and_outputs_alone(capsys, tmp_path):
    write(tmp_path / "test.jsonl", ROWS)
    command = ["bench", tmp_path, "--model", make_base(tmp_path / "model"), "--limit", 12]
    command += ["--max-new-tokens", 6, "--output", tmp_path / "out"]
    code, out, err = run(capsys, *command)
    assert code == 0, err
    assert "has no split train: methods draft without a corpus" in err
    assert "12/12" in out
    assert "No corpus for drafting." in (tmp_path / "out" / "report.html").read_text()
    code, _, err = run(capsys, *command, "--force", "--corpus-split", "train")
    assert (code, "train" in err) == (2, True)  # one that was asked for must exist
