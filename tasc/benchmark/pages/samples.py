"""The samples of a bench: the output of each cell, whether it equals the reference, its cost."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import get_args

from tasc.benchmark.results.answers import WrongOutput, wrong_outputs
from tasc.benchmark.results.bench import BenchResults
from tasc.benchmark.results.cells import SHOWN, Cell, DraftedFrom, Output
from tasc.benchmark.results.conditions import Sample
from tasc.report.sheet import as_csv as sheet

_COLUMNS = (
    *("sample", "id", "model", "method", "reference", "output", "as the reference"),
    *("tokens", "steps", "ms"),
)


@dataclass(frozen=True)
class ShownSample:
    """A sample on the page, with the cells of each model in order."""

    number: int
    sample: Sample
    cells: dict[str, list[Cell]]

    def is_slow(self, cell: Cell) -> bool:
        """Whether nine of ten samples of ``cell`` took less time."""
        p90 = cell.ms_per_sample_spread.p90
        return len(cell.outputs) > 1 and bool(cell.sample_ms[self.number] > p90)

    @property
    def slow(self) -> bool:
        return any(self.is_slow(cell) for cells in self.cells.values() for cell in cells)

    @property
    def wrong(self) -> tuple[str, ...]:
        """Models whose first method did not write the reference."""
        first = {model: cells[0].outputs[self.number] for model, cells in self.cells.items()}
        reference = self.sample.reference
        return tuple(model for model, output in first.items() if not _is_right(output, reference))


def sample_views(results: BenchResults) -> list[ShownSample]:
    """Return the first ``SHOWN`` samples."""
    cells, shown = results.by_model, results.samples[:SHOWN]
    return [ShownSample(i, sample, cells) for i, sample in enumerate(shown)]


def all_wrong_outputs(results: BenchResults) -> dict[str, list[WrongOutput]]:
    """Return the first wrong outputs of each model, also of results of older versions."""
    references = [sample.reference for sample in results.samples]
    wrong: dict[str, list[WrongOutput]] = {model: [] for model in results.by_model}
    for one in results.wrong_outputs or wrong_outputs(results.cells, references, results.settings):
        wrong[one.model].append(one)
    return wrong


def pieces(output: Output) -> Iterator[tuple[str, str]]:
    """Cut the text at accepted drafts; yield each piece and its source, "" for the model's own."""
    end, sources = 0, chain(output.sources, repeat("other"))
    for (begin, next_end), source in zip(output.accepted, sources, strict=False):
        yield output.text[end:begin], ""
        yield output.text[begin:next_end], source
        end = next_end
    if end:
        yield output.text[end:], ""


def sources_shown(results: BenchResults) -> list[str]:
    """Return the sources of accepted drafts, in the order of the legend."""
    outputs = (output for cell in results.cells for output in cell.outputs[:SHOWN])
    sources = {source for output in outputs for _, source in pieces(output)}
    return [source for source in get_args(DraftedFrom) if source in sources]


def _is_right(output: Output, reference: str) -> bool:
    return output.text.strip() == reference.strip()


def as_csv(results: BenchResults) -> str:
    """Return one line per output of each cell."""
    return sheet(_COLUMNS, _lines(results))


def _lines(results: BenchResults) -> Iterator[Sequence[object]]:
    for cell in results.cells:
        for i, (sample, output) in enumerate(zip(results.samples, cell.outputs, strict=True)):
            right = "yes" if _is_right(output, sample.reference) else "no"
            yield (
                *(i, sample.id, cell.model, cell.method, sample.reference, output.text, right),
                *(output.tokens, output.steps, f"{cell.sample_ms[i]:.3f}"),
            )
