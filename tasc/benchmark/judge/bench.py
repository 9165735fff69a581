"""What is judged: outputs of a bench, and the prompts they answer.

A bench keeps the first prompts alone, so they are read from the data again; each is found by the
hash that the bench kept of it, and no other text of the data is sent.
"""

from collections.abc import Sequence
from pathlib import Path

from tasc.benchmark.judge.rubric import MOST_ANSWERS
from tasc.benchmark.results.bench import BenchResults
from tasc.benchmark.results.cells import Cell
from tasc.benchmark.results.conditions import Sample
from tasc.data.corpus import Corpus
from tasc.errors import InputError


def judged_cells(found: BenchResults, models: Sequence[str]) -> tuple[Cell, ...]:
    """Return the first method of each of ``models``, of all models where none is named.

    Raises InputError where there are fewer than two, or one of them is not in the bench.
    """
    first: dict[str, Cell] = {}
    for cell in found.cells:
        first.setdefault(cell.model, cell)
    if missing := [model for model in models if model not in first]:
        raise InputError(
            f"{', '.join(missing)} is no model of this bench: choose from {', '.join(first)}"
        )
    chosen = tuple(first[model] for model in dict.fromkeys(models or first))
    if not 2 <= len(chosen) <= MOST_ANSWERS:
        raise InputError(
            f"a judge compares 2 to {MOST_ANSWERS} models, saw {len(chosen)}: run tasc bench with "
            "several --model, and choose among them with --only"
        )
    return chosen


def find_prompts(samples: Sequence[Sample], results: str, data: Corpus) -> list[str]:
    """Return the prompt of each sample. Raises InputError where ``data`` does not hold them all."""
    pairs = zip(data.prompts, data.outputs, strict=True)
    prompts = {Sample.of(prompt, output).id: prompt for prompt, output in pairs}
    missing = sum(sample.id not in prompts for sample in samples)
    if missing:
        raise InputError(
            f"{missing} of {len(samples)} samples of {Path(results)} are not in the split "
            f"{data.split!r} of {data.source.path}: give --data, --split, --template and columns "
            "as the bench had them"
        )
    return [prompts[sample.id] for sample in samples]
