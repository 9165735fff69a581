"""``tasc bench``: measure models × methods on one decoding loop and report."""

from tasc.benchmark.results.bench import BenchResults
from tasc.benchmark.results.cells import Cell, ReferenceMatch
from tasc.benchmark.results.comparisons import ModelPair, SeedsPair, Spread
from tasc.benchmark.results.quality import quality_lines
from tasc.benchmark.results.warnings import advice

from .._console import bounds_text, ms_text, noted, say, say_first, table, warn, warn_of_rough

# Columns that a narrow terminal does not show, in this order.
_OPTIONAL = ("nodes/step", "tokens", "tokens/step", "steps", "identical", "ms")


def show(results: BenchResults) -> None:
    """Print a table of models and methods with means per output, comparisons and warnings.

    In a batch, the milliseconds of an output are its share of the batch's time.
    """
    for line in quality_lines(results):
        say_first(line)
    _cells(results)
    say("Steps include the prefill. Tokens/step is the mean over the steps after it.")
    _notes(results)
    for pair in results.pairs:
        say(pair_line(pair, results))
    if results.seeds:
        _seeds(results)
    canonical = (f"{model} {cells[0].canonical:.1%}" for model, cells in results.by_model.items())
    say(f"Outputs in the tokenizer's canonical tokens: {', '.join(canonical)}")
    for line in advice(results):
        warn(line)
    warn_of_rough(results.prediction.cells)
    for match in results.reference:
        say(reference_line(match, results.settings.dtype))


def _notes(results: BenchResults) -> None:
    if (majority := results.majority) and majority.quality:
        figures = (f"{results.metrics[name].label} {v:.3f}" for name, v in majority.quality.items())
        most = f"the most frequent output of split {majority.split}"
        say(f"Always answering {majority.shown}, {most}: {', '.join(figures)}")
    for model, cells in results.by_model.items():
        if shared := cells[0].shared_prompt_tokens:
            say(f"Shared by all prompts, read once before the measurement: {shared} of {model}")
    for model, defaults in results.settings.generation.items():
        say(f"generation_config.json of {model}: {defaults.line}")
    if results.cells[0].lossless is None:
        say("Sampled outputs differ by chance, so the speed-up is a ratio of tokens per second.")
    if any(cell.chooses for cell in results.cells):
        say("Methods that choose among labels have outputs of their own, not compared (–).")
    for cell in results.cells:
        if cell.calibration_error is not None:
            say(f"Calibration error (ECE, 10 bins) of {cell.label}: {cell.calibration_error:.3f}")


def _cells(results: BenchResults) -> None:
    settings = results.settings
    sampling = results.settings.sampling
    drawn = f", temperature {sampling.temperature:g}, {sampling.verify}" if sampling else ""
    columns = ["model", "method", "ms", "speed-up", "tokens", "steps"]
    columns += ["nodes/step", "tokens/step", "identical", *_labels(results)]
    title = f"{results.task.source}: {results.task.samples} samples, batch {settings.batch_size}, "
    title += f"{settings.dtype} on {settings.device}{drawn}"
    table(
        title,
        columns,
        [_row(cell, results) for cell in results.cells],
        text_columns=2,
        optional=_OPTIONAL,
    )


def _labels(results: BenchResults) -> list[str]:
    return [metric.label for metric in results.metrics.values()]


def _row(cell: Cell, results: BenchResults) -> list[str]:
    return [
        cell.model,
        cell.method,
        ms_text(cell.ms_per_sample),
        f"{cell.speedup(results.cells[0]):.2f}×",
        f"{cell.tokens_per_output:.2f}",
        f"{cell.decoding_steps_per_output:.2f}",
        f"{cell.nodes_per_step:.1f}",
        f"{cell.tokens_per_step:.2f}",
        _lossless(cell),
        *(f"{cell.quality[name]:.3f}" for name in results.metrics),
    ]


def _seeds(results: BenchResults) -> None:
    rows = [
        [
            row.model,
            row.method,
            str(len(row.models)),
            _around(row.ms_per_sample, ".2f"),
            _around(row.speedup, ".2f"),
            _around(row.decoding_steps_per_output, ".2f"),
            *(_around(row.quality[name], ".3f") for name in results.metrics),
        ]
        for row in results.seeds
    ]
    columns = ["model", "method", "seeds", "ms", "speed-up", "steps", *_labels(results)]
    title = "Mean ± standard deviation over seeds"
    optional = ("steps", "seeds", "ms")
    table(title, columns, rows, text_columns=2, optional=optional)
    for pair in results.seeds_pairs:
        say(_seeds_line(pair, results))


def _seeds_line(pair: SeedsPair, results: BenchResults) -> str:
    parts = []
    for name, seen in pair.quality.items():
        figure = f"{results.metrics[name].label} {seen.difference:+z.3f}"
        parts.append(noted(figure, bounds_text(seen.interval, "+z.3f")))
    return f"{pair.model} against {pair.against}, over seeds: {', '.join(parts)}"


def _around(spread: Spread, form: str) -> str:
    return f"{spread.mean:{form}}±{spread.sd:{form}}"  # one word, which no table breaks


def pair_line(pair: ModelPair, results: BenchResults) -> str:
    """Return the differences of two models in quality and speed, with confidence intervals."""
    parts = []
    for name, seen in pair.quality.items():
        test = seen.mcnemar
        counts = ""
        if test:
            counts = f"{test.only_model} against {test.only_against}, p = {test.p_value:.2g}"
        bounds = bounds_text(seen.interval, "+z.3f")
        figure = f"{results.metrics[name].label} {seen.difference:+z.3f}"
        loss = ": significant loss" if seen.is_loss else ""
        parts.append(noted(figure, bounds, counts) + loss)
    for method, speed in pair.speed.items():
        parts.append(noted(f"{method} {speed.ratio:.2f}×", bounds_text(speed.interval, ".2f")))
    return f"{pair.model} against {pair.against}: {', '.join(parts)}"


def reference_line(match: ReferenceMatch, dtype: str) -> str:
    """Return how many greedy outputs of a model equal those of ``generate`` in transformers."""
    name = f"{match.model}, {match.method}"
    counts = f"{match.identical} of {match.of}"
    if match.identical == match.of:
        return f"Identical to generate in transformers: {counts} outputs of {name}"
    margin = f"(margin {match.largest_margin:.3g})"
    if dtype == "float32":
        return (
            f"NOT LOSSLESS: only {counts} outputs of {name} are identical to generate in "
            f"transformers {margin}"
        )
    return (
        f"Match rate with generate in transformers: {match.match_rate:.0%}, {counts} outputs "
        f"of {name} {margin}"
    )


def _lossless(cell: Cell) -> str:
    """Return the number of identical outputs, and the largest margin if some differ."""
    lossless = cell.lossless
    if lossless is None:
        return "sampled"
    if not cell.compared:
        return "–"  # the model's other methods are compared with this one
    ties = "" if lossless.largest_margin is None else f" (margin {lossless.largest_margin:.3g})"
    return f"{lossless.identical}/{lossless.of}{ties}" + ", bitwise" * lossless.bitwise
