"""``tasc bench``: measure models × methods on one decoding loop and report."""

from tasc.benchmark.results.bench import BenchResults
from tasc.benchmark.results.cells import Cell, ReferenceMatch
from tasc.benchmark.results.comparisons import ModelPair, SeedsPair, Spread
from tasc.benchmark.results.quality import quality_lines
from tasc.benchmark.results.warnings import advice

from .._console import bounds_text, ms_text, noted, say, say_first, table, warn, warn_of_rough

# Columns that a narrow terminal does not show, in this order.
_OPTIONAL = ("nodes/step", "tokens", "tokens/step", "steps", "identical", "ms")


def show(found: BenchResults) -> None:
    """Print a table of models and methods with means per output, comparisons and warnings.

    In a batch, the milliseconds of an output are its share of the batch's time.
    """
    for line in quality_lines(found):
        say_first(line)
    _cells(found)
    say("Steps include the prefill. Tokens/step is the mean over the steps after it.")
    _notes(found)
    for pair in found.pairs:
        say(pair_line(pair, found))
    if found.seeds:
        _seeds(found)
    canonical = (f"{model} {own[0].canonical:.1%}" for model, own in found.by_model.items())
    say(f"Outputs in the tokenizer's canonical tokens: {', '.join(canonical)}")
    for line in advice(found):
        warn(line)
    warn_of_rough(found.prediction.cells)
    for match in found.reference:
        say(reference_line(match, found.settings.dtype))


def _notes(found: BenchResults) -> None:
    if (majority := found.majority) and majority.quality:
        figures = (f"{found.metrics[name].label} {v:.3f}" for name, v in majority.quality.items())
        most = f"the most frequent output of split {majority.split}"
        say(f"Always answering {majority.shown}, {most}: {', '.join(figures)}")
    for model, own in found.by_model.items():
        if shared := own[0].shared_prompt_tokens:
            say(f"Shared by all prompts, read once before the measurement: {shared} of {model}")
    for model, defaults in found.settings.generation.items():
        say(f"generation_config.json of {model}: {defaults.line}")
    if found.cells[0].lossless is None:
        say("Sampled outputs differ by chance, so the speed-up is a ratio of tokens per second.")
    if any(cell.chooses for cell in found.cells):
        say("Methods that choose among labels have outputs of their own, not compared (–).")
    for cell in found.cells:
        if cell.calibration_error is not None:
            say(f"Calibration error (ECE, 10 bins) of {cell.label}: {cell.calibration_error:.3f}")


def _cells(found: BenchResults) -> None:
    settings, sampling = found.settings, found.settings.sampling
    drawn = f", temperature {sampling.temperature:g}, {sampling.verify}" if sampling else ""
    columns = ["model", "method", "ms", "speed-up", "tokens", "steps"]
    columns += ["nodes/step", "tokens/step", "identical", *_labels(found)]
    title = f"{found.task.source}: {found.task.samples} samples, batch {settings.batch_size}, "
    title += f"{settings.dtype} on {settings.device}{drawn}"
    table(
        title,
        columns,
        [_row(cell, found) for cell in found.cells],
        text_columns=2,
        optional=_OPTIONAL,
    )


def _labels(found: BenchResults) -> list[str]:
    return [metric.label for metric in found.metrics.values()]


def _row(cell: Cell, found: BenchResults) -> list[str]:
    return [
        cell.model,
        cell.method,
        ms_text(cell.ms_per_sample),
        f"{cell.speedup(found.cells[0]):.2f}×",
        f"{cell.tokens_per_output:.2f}",
        f"{cell.decoding_steps_per_output:.2f}",
        f"{cell.nodes_per_step:.1f}",
        f"{cell.tokens_per_step:.2f}",
        _lossless(cell),
        *(f"{cell.quality[name]:.3f}" for name in found.metrics),
    ]


def _seeds(found: BenchResults) -> None:
    rows = [
        [
            row.model,
            row.method,
            str(len(row.models)),
            _around(row.ms_per_sample, ".2f"),
            _around(row.speedup, ".2f"),
            _around(row.decoding_steps_per_output, ".2f"),
            *(_around(row.quality[name], ".3f") for name in found.metrics),
        ]
        for row in found.seeds
    ]
    columns = ["model", "method", "seeds", "ms", "speed-up", "steps", *_labels(found)]
    title, optional = "Mean ± standard deviation over seeds", ("steps", "seeds", "ms")
    table(title, columns, rows, text_columns=2, optional=optional)
    for pair in found.seeds_pairs:
        say(_seeds_line(pair, found))


def _seeds_line(pair: SeedsPair, found: BenchResults) -> str:
    parts = []
    for name, seen in pair.quality.items():
        figure = f"{found.metrics[name].label} {seen.difference:+z.3f}"
        parts.append(noted(figure, bounds_text(seen.interval, "+z.3f")))
    return f"{pair.model} against {pair.against}, over seeds: {', '.join(parts)}"


def _around(spread: Spread, form: str) -> str:
    return f"{spread.mean:{form}}±{spread.sd:{form}}"  # one word, which no table breaks


def pair_line(pair: ModelPair, found: BenchResults) -> str:
    """Return the differences of two models in quality and speed, with confidence intervals."""
    parts = []
    for name, seen in pair.quality.items():
        test, counts = seen.mcnemar, ""
        if test:
            counts = f"{test.only_model} against {test.only_against}, p = {test.p_value:.2g}"
        bounds = bounds_text(seen.interval, "+z.3f")
        figure = f"{found.metrics[name].label} {seen.difference:+z.3f}"
        loss = ": significant loss" if seen.is_loss else ""
        parts.append(noted(figure, bounds, counts) + loss)
    for method, speed in pair.speed.items():
        parts.append(noted(f"{method} {speed.ratio:.2f}×", bounds_text(speed.interval, ".2f")))
    return f"{pair.model} against {pair.against}: {', '.join(parts)}"


def reference_line(found: ReferenceMatch, dtype: str) -> str:
    """Return how many greedy outputs of a model equal those of ``generate`` in transformers."""
    name, counts = f"{found.model}, {found.method}", f"{found.identical} of {found.of}"
    if found.identical == found.of:
        return f"Identical to generate in transformers: {counts} outputs of {name}"
    margin = f"(margin {found.largest_margin:.3g})"
    if dtype == "float32":
        return (
            f"NOT LOSSLESS: only {counts} outputs of {name} are identical to generate in "
            f"transformers {margin}"
        )
    return (
        f"Match rate with generate in transformers: {found.match_rate:.0%}, {counts} outputs "
        f"of {name} {margin}"
    )


def _lossless(cell: Cell) -> str:
    """Return the number of identical outputs, and the largest margin if some differ."""
    found = cell.lossless
    if found is None:
        return "sampled"
    if not cell.compared:
        return "–"  # the model's other methods are compared with this one
    ties = "" if found.largest_margin is None else f" (margin {found.largest_margin:.3g})"
    return f"{found.identical}/{found.of}{ties}" + ", bitwise" * found.bitwise
