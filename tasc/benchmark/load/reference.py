"""What outputs are compared with: those of an earlier run, or of the first server."""

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import TypeAdapter, ValidationError

from tasc.benchmark.load.results import Equality, LoadCell, LoadResults, Output
from tasc.benchmark.results.bench import BenchResults
from tasc.benchmark.results.conditions import Sample
from tasc.errors import InputError
from tasc.options.references import parse_path, results_file

_RESULTS = TypeAdapter[BenchResults | LoadResults](BenchResults | LoadResults)
_SHOWN = 5  # samples that differ


@dataclass(frozen=True)
class Reference:
    """Outputs to be equal to; None where there is none of a sample."""

    name: str
    texts: tuple[str | None, ...]

    def equality(self, outputs: Sequence[Output]) -> Equality:
        """Compare texts, character for character, where both sides have one."""
        both = [
            (i, text == output.text)
            for i, (text, output) in enumerate(zip(self.texts, outputs, strict=True))
            if text is not None and output.typical_ms is not None
        ]
        different = [i for i, same in both if not same]
        return Equality(
            against=self.name,
            identical=len(both) - len(different),
            of=len(both),
            different=tuple(different[:_SHOWN]),
        )


def answered_texts(outputs: Sequence[Output]) -> tuple[str | None, ...]:
    """Return the text of each output, None where every request failed."""
    return tuple(None if output.typical_ms is None else output.text for output in outputs)


def read_reference(text: str, samples: Sequence[Sample]) -> Reference:
    """Read the first cell of a folder of ``tasc bench`` or ``tasc load``, or of its results.json.

    Raises:
        InputError: it holds no results, or those of other samples.
    """
    file = results_file(parse_path(text)[1])
    try:
        found = _RESULTS.validate_json(file.read_bytes())
    except ValidationError:
        found = None
    if found is None or not found.cells:
        raise InputError(
            f"{file} is no result of tasc bench or tasc load of this version: run it again"
        )
    if [sample.id for sample in found.samples] != [sample.id for sample in samples]:
        raise InputError(
            f"{file} has other samples, {len(found.samples)} of them and not {len(samples)}: run "
            "both with the same --split, --limit, --template and --seed"
        )
    cell = found.cells[0]
    if isinstance(cell, LoadCell):
        return Reference(f"{file.parent.name}: {cell.label}", answered_texts(cell.outputs))
    return Reference(f"{file.parent.name}: {cell.label}", cell.texts)
