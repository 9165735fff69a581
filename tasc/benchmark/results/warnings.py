"""What a reader of a bench must know before its figures: a line each, on terminal and page."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tasc.benchmark.results.bench import BenchResults
    from tasc.benchmark.results.cells import Cell


def warnings(results: "BenchResults") -> tuple[str, ...]:
    """Return the lines; none where figures are what they seem.

    Of a model they tell what its first method shows: the one that others are compared with.
    """
    first = {cell.model: cell for cell in reversed(results.cells)}
    models = [first[name] for name in reversed(first)]
    return (*_unlearnt(models), *_cut(models, results.settings.max_new_tokens))


def _unlearnt(models: "list[Cell]") -> Iterator[str]:
    """Name models that write most outputs in other tokens than their tokenizer.

    New tokens that a model does not write save no step, however often they would stand.
    """
    for cell in models:
        if cell.canonical < 1 / 2:
            yield (
                f"{cell.model} writes most outputs in other tokens than its tokenizer: new tokens "
                "are hardly learnt, and save no steps; train it longer (--epochs), or with a "
                "higher --learning-rate"
            )


def _cut(models: "list[Cell]", limit: int) -> Iterator[str]:
    """Name models whose outputs did not end: they take the time of the limit, not their own."""
    for cell in models:
        if cut := sum(output.cut for output in cell.outputs):
            yield (
                f"{cut:,} of {len(cell.outputs):,} outputs of {cell.model} were cut at {limit:,} "
                "tokens: raise --max-new-tokens"
            )
