"""The report of each command: written once, read where a recipe finds the step done."""

from importlib import import_module
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from tasc.errors import InputError

# MODULE:CLASS by command, imported when a report is read.
_CLASSES = {
    "analyze": "tasc.benchmark.results.analysis:AnalysisResults",
    "augment": "tasc.vocab.report:AugmentReport",
    "base": "tasc.training.core.schedule:BaseReport",
    "bench": "tasc.benchmark.results.bench:BenchResults",
    "export": "tasc.serving.export:ExportReport",
    "finetune": "tasc.training.core.schedule:TrainReport",
    "index": "tasc.decoding.drafters.ngram.building:IndexReport",
    "load": "tasc.benchmark.results.load:LoadResults",
    "tune": "tasc.benchmark.results.search:Tuning",
    "vocab": "tasc.benchmark.vocabularies:Comparison",
}


def read_report(command: str, file: Path) -> Any:  # noqa: ANN401 - a class of the table
    """Return the report of ``command`` in ``file``; raise InputError if it is none."""
    module, _, name = _CLASSES[command].partition(":")
    try:
        return TypeAdapter(getattr(import_module(module), name)).validate_json(file.read_bytes())
    except ValidationError:
        raise InputError(
            f"{file} is not a report of tasc {command} of this version: run the step again with "
            "--force"
        ) from None
