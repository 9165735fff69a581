"""Warnings about the figures of a bench, one line each, on terminal and page."""

from collections.abc import Iterator
from math import sqrt

from tasc.benchmark.results.bench import BenchResults
from tasc.benchmark.results.cells import Cell
from tasc.benchmark.results.conditions import Task
from tasc.benchmark.results.quality import blind_metrics, quality_lines

# A fair draw of samples repeats corpus examples as often as the corpus repeats itself. Seen samples
# change the speed-up if their share exceeds that by _SEEN. A small sample of a repetitive task can
# reach _SEEN by chance, so the excess must also be _DEVIATIONS standard deviations.
_SEEN, _DEVIATIONS = 1 / 4, 3
_TOO_LITTLE = (
    "the model is trained too little, or the prompt does not fit; train it longer (--epochs), or "
    "pass the --template of its training"
)
_UNTUNED = (
    "the model is not tuned, or the prompt does not fit; train it with tasc finetune, or change "
    "the --template"
)
_LONG = 1.25  # times the tokenizer's own tokens: longer outputs do not use the new tokens


def warnings(results: BenchResults) -> tuple[str, ...]:
    """Return the warnings, quality before speed."""
    return (*quality_lines(results), *advice(results))


def advice(results: BenchResults) -> tuple[str, ...]:
    """Return the warnings other than ``quality_lines``; models are judged by their first method."""
    models = [cells[0] for cells in results.by_model.values()]
    return (
        *_about_prompts(results.task),
        *_about_new_tokens(models, results.task),
        *_about_references(models),
        *_about_metrics(results),
        *_about_cut_outputs(models, results.settings.max_new_tokens, results.task),
        *_seen(results.task),
        *_misfits(results.task),
        *_unscored(results),
    )


def _about_prompts(task: Task) -> Iterator[str]:
    """Report a missing split to draft from, and models trained on another prompt template."""
    if not task.corpus_outputs and not task.indexes:
        yield (
            f"{task.source} has no split {task.corpus_split}: methods draft without a corpus; "
            "choose another --corpus-split for drafts from similar outputs"
        )
    for model, template in task.trained_templates.items():
        yield (
            f"{model} was trained with the prompt template {template!r}, and the bench uses "
            f"{task.template!r}, which costs quality: pass the --template of the training"
        )


def _about_new_tokens(models: list[Cell], task: Task) -> Iterator[str]:
    """Report models with new tokens that write far more tokens than the same texts need."""
    for cell in models:
        times = cell.times_canonical_length
        if cell.model in task.with_new_tokens and times > _LONG:
            yield (
                f"{cell.model} writes {times:.1f} times the tokens that its tokenizer needs for "
                "the same outputs: it hardly uses the new tokens; train it longer (--epochs) or "
                "with a higher --learning-rate"
            )


def _about_references(models: list[Cell]) -> Iterator[str]:
    """Report references that a model cannot write."""
    for cell in models:
        if cell.rewritten:
            yield (
                f"{cell.rewritten:,} of {len(cell.outputs):,} references cannot be written by "
                f"{cell.model}: its tokenizer turns them into other text, or they contain its end "
                "token; find them with tasc data, and correct the data or the tokenizer"
            )


def _about_metrics(results: BenchResults) -> Iterator[str]:
    """Report metrics of another form than that of the references."""
    for metric in blind_metrics(results).values():
        form = metric.needs.replace("`", "")
        yield (
            f"{metric.label} counts nothing here, because no reference has the form that it needs "
            f"({form}): choose another --metric"
        )


def _about_cut_outputs(models: list[Cell], limit: int, task: Task) -> Iterator[str]:
    """Report outputs that were cut at the limit, by cause.

    They repeat themselves, their references are as long, or the model does not end them. Results
    of older versions have no cause.
    """
    for cell in models:
        trained = cell.model in task.trained
        cut = [output for output in cell.outputs if output.cut]
        open_ended = [output for output in cut if not output.loops]
        reference_lengths = [
            n for output in open_ended if (n := output.reference_tokens) is not None
        ]
        long = sum(n >= limit for n in reference_lengths)
        all_outputs = f"{len(cell.outputs):,} outputs"
        if looping := len(cut) - len(open_ended):
            yield (
                f"{looping:,} of {all_outputs} of {cell.model} repeat themselves until "
                f"--max-new-tokens ({limit:,}): {_TOO_LITTLE if trained else _UNTUNED}"
            )
        if long:
            yield (
                f"{long:,} of {all_outputs} of {cell.model} were cut at {limit:,} tokens, and "
                "their references are as long: raise --max-new-tokens"
            )
        if endless := len(reference_lengths) - long:
            yield (
                f"{endless:,} of {all_outputs} of {cell.model} were cut at {limit:,} tokens, and "
                "their references are shorter: the model does not end its outputs in time"
            )
        if unknown := len(open_ended) - len(reference_lengths):
            yield f"{unknown:,} of {all_outputs} of {cell.model} were cut at {limit:,} tokens"


def _unscored(results: BenchResults) -> Iterator[str]:
    missing = sum(score is None for score in results.cells[0].scores)
    if results.settings.judge and missing:
        yield (
            f"the metric judge leaves out {missing:,} of {results.task.samples:,} samples, which "
            f"{results.settings.judge} gave no score: a larger --judge-model may score them"
        )


def _misfits(task: Task) -> Iterator[str]:
    for reason in task.misfits:
        yield f"of {task.samples:,} references, {reason}"


def _seen(task: Task) -> Iterator[str]:
    """Report samples that are in the corpus far more often than the task repeats itself."""
    fair = task.corpus_repeated / max(task.corpus_outputs, 1)
    chance = _DEVIATIONS * sqrt(fair * (1 - fair) / task.samples)
    excess = task.seen / task.samples - fair
    if task.split == task.corpus_split or excess > max(_SEEN, chance):
        yield (
            f"{task.seen:,} of {task.samples:,} samples are also in split {task.corpus_split}, "
            "which drafts come from: the speed-up is for seen outputs; choose another --split or "
            "--corpus-split"
        )
