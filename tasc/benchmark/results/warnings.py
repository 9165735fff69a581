"""What a reader of a bench must know before its figures: a line each, on terminal and page."""

from collections.abc import Iterator
from math import sqrt
from operator import attrgetter
from typing import TYPE_CHECKING

from tasc.benchmark.results.quality import quality_changes

if TYPE_CHECKING:
    from tasc.benchmark.results.bench import BenchResults
    from tasc.benchmark.results.cells import Cell
    from tasc.benchmark.results.conditions import Task

# Share of seen samples above what a fair draw of the task has, which is the share of its corpus
# that repeats: from so much on it makes another speed-up. Few samples of a task of commands that
# recur reach it by chance, so it must be so many standard deviations, too.
_SEEN, _DEVIATIONS = 1 / 4, 3
_LONG = 1.25  # times the tokens that would do: what is spelled in more has not learnt the new ones


def warnings(results: "BenchResults") -> tuple[str, ...]:
    """Return the lines; none where figures are what they seem.

    Of a model they tell what its first method shows: the one that others are compared with.
    """
    first = {cell.model: cell for cell in reversed(results.cells)}
    models = [first[name] for name in reversed(first)]
    limit = results.settings.max_new_tokens
    return (
        *_losses(results, models),
        *_unasked(results.task),
        *_unlearnt(models),
        *_cut(models, limit),
        *_seen(results.task),
        *_unscored(results),
    )


def _losses(results: "BenchResults", models: "list[Cell]") -> Iterator[str]:
    """Report each significant loss of quality against the first model."""
    for cell in models:
        for change in filter(attrgetter("is_loss"), quality_changes(results, cell.model)):
            p = "" if change.p_value is None else f", p = {change.p_value:.2g}"
            yield (
                f"{cell.model} loses quality: {change.metric.label} {change.old:.3f} → "
                f"{change.new:.3f}, a significant loss{p}"
            )


def _unasked(task: "Task") -> Iterator[str]:
    """Name models that are asked in another way than they were trained: they answer worse."""
    for model, template in task.trained_templates.items():
        yield (
            f"{model} was trained on prompts of the template {template!r}, and is given those of "
            f"{task.template!r}, which costs quality: give --template as in training"
        )


def _unlearnt(models: "list[Cell]") -> Iterator[str]:
    """Name models that write far more tokens than their tokenizer would for the same outputs.

    New tokens that a model does not write save no step, however often they would stand.
    """
    for cell in models:
        if (times := cell.times_canonical_length or 1) > _LONG:
            yield (
                f"{cell.model} writes {times:.1f} times the tokens that its tokenizer makes of the "
                "same outputs: new tokens are hardly learnt, and save few steps; train it longer "
                "(--epochs), or with a higher --learning-rate"
            )


def _cut(models: "list[Cell]", limit: int) -> Iterator[str]:
    """Name models whose outputs did not end: they take the time of the limit, not their own."""
    for cell in models:
        if cut := sum(output.cut for output in cell.outputs):
            yield (
                f"{cut:,} of {len(cell.outputs):,} outputs of {cell.model} were cut at {limit:,} "
                "tokens: raise --max-new-tokens"
            )


def _unscored(results: "BenchResults") -> Iterator[str]:
    """Report the samples that the judge gave no score."""
    missing = sum(score is None for score in results.cells[0].scores)
    if results.settings.judge and missing:
        yield (
            f"the metric judge leaves out {missing:,} of {results.task.samples:,} samples, which "
            f"{results.settings.judge} gave no score: a larger --judge-model may score them"
        )


def _seen(task: "Task") -> Iterator[str]:
    """Say where samples are in the corpus far more often than the task repeats itself."""
    fair = task.corpus_repeated / task.corpus_outputs
    chance = _DEVIATIONS * sqrt(fair * (1 - fair) / task.samples)
    excess = task.seen / task.samples - fair
    if task.split == task.corpus_split or excess > max(_SEEN, chance):
        yield (
            f"{task.seen:,} of {task.samples:,} samples occur in split {task.corpus_split}, too: "
            "drafts made from it, and models trained on it, have seen them, so the speed-up is "
            "that of seen outputs; take another --split or --corpus-split"
        )
