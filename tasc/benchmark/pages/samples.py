"""A bench sample by sample: what each model wrote, whether it is right, and what it took."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import get_args

from tasc.benchmark.results.bench import BenchResults
from tasc.benchmark.results.cells import SHOWN, Cell, DraftedFrom, Output
from tasc.report.sheet import as_csv as sheet

_COLUMNS = (
    *("sample", "id", "model", "method", "reference", "output", "as the reference"),
    *("tokens", "steps", "ms"),
)


@dataclass(frozen=True)
class Decoded:
    """One sample in one cell."""

    method: str  # of the cell
    tokens: int  # of the output, its end included
    steps: int  # forwards that it took
    ms: float  # median over the repeats
    slow: bool  # whether nine tenths of the cell's samples took less
    # The text cut where drafts begin and end, and what each accepted one was drafted from, "" for
    # the model's own; none where nothing was accepted
    pieces: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Written:
    """What one model wrote to a sample, by its first method: the page says where others differ."""

    model: str  # its name
    text: str  # what it wrote
    right: bool  # whether that is the reference
    cells: tuple[Decoded, ...]  # what it took, by method


@dataclass(frozen=True)
class SampleView:
    """One sample."""

    number: int  # its position, from 0
    prompt: str | None  # None where the file does not keep it
    reference: str  # the expected output
    models: tuple[Written, ...]  # what each wrote

    @property
    def wrong(self) -> tuple[str, ...]:
        """The models that wrote something else than the reference."""
        return tuple(one.model for one in self.models if not one.right)

    @property
    def slow(self) -> bool:
        """Whether it was slow in a cell."""
        return any(cell.slow for one in self.models for cell in one.cells)


def sample_views(results: BenchResults) -> list[SampleView]:
    """Return the first ``SHOWN`` samples."""
    prompts = {example.sample: example.prompt for example in results.examples}
    models = dict.fromkeys(cell.model for cell in results.cells)
    return [
        SampleView(
            i,
            prompts.get(i),
            sample.reference,
            tuple(_written(results, model, i, sample.reference) for model in models),
        )
        for i, sample in enumerate(results.samples[:SHOWN])
    ]


def _written(results: BenchResults, model: str, number: int, reference: str) -> Written:
    cells = [cell for cell in results.cells if cell.model == model]
    text = cells[0].outputs[number].text
    return Written(
        model, text, _right(text, reference), tuple(_decoded(cell, number) for cell in cells)
    )


def _decoded(cell: Cell, number: int) -> Decoded:
    output, ms = cell.outputs[number], float(cell.sample_ms[number])
    slow = len(cell.outputs) > 1 and ms > cell.ms_per_sample_spread.p90
    return Decoded(cell.method, output.tokens, output.steps, ms, slow, tuple(_pieces(output)))


def _pieces(output: Output) -> Iterator[tuple[str, str]]:
    known, sources = 0, chain(output.sources, repeat("other"))  # earlier files name none
    for (begin, end), source in zip(output.accepted, sources, strict=False):
        yield output.text[known:begin], ""
        yield output.text[begin:end], source
        known = end
    if known:
        yield output.text[known:], ""


def sources_shown(views: Sequence[SampleView]) -> list[str]:
    """Return what accepted drafts of these samples came from, in the order of the legend."""
    cells = (cell for view in views for one in view.models for cell in one.cells)
    found = {source for cell in cells for _, source in cell.pieces}
    return [source for source in get_args(DraftedFrom) if source in found]


def _right(text: str, reference: str) -> bool:
    return text.strip() == reference.strip()


def as_csv(results: BenchResults) -> str:
    """Return every output of every cell, a line each."""
    return sheet(_COLUMNS, _lines(results))


def _lines(results: BenchResults) -> Iterator[tuple[object, ...]]:
    for cell in results.cells:
        for i, (sample, output) in enumerate(zip(results.samples, cell.outputs, strict=True)):
            texts = (cell.model, cell.method, sample.reference, output.text)
            right = "yes" if _right(output.text, sample.reference) else "no"
            figures = output.tokens, output.steps, f"{cell.sample_ms[i]:.3f}"
            yield (i, sample.id, *texts, right, *figures)
