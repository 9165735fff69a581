"""``analysis.html`` of ``tasc analyze``. The page is self-contained and escaped."""

from collections.abc import Iterator

from tasc.benchmark.results.analysis import AnalysisResults
from tasc.report.charts import Chart, chart
from tasc.report.html import template


def render(results: AnalysisResults) -> str:
    """Return the page of an analysis."""
    charts = [*_of_words(results), *_of_tokens(results), *_of_costs(results)]
    return template("tasc.benchmark", "analysis.html").render(results=results, charts=charts)


def _of_words(results: AnalysisResults) -> Iterator[Chart]:
    sides = {"inputs": results.input, "outputs": results.output}
    yield chart(
        "Coverage of word bigrams",
        {name: side.bigrams.curve for name, side in sides.items()},
        "most frequent bigrams",
        "share of occurrences",
        log="x",
        highest=1,
    )
    yield chart(
        "Entropy by length",
        {name: [(row.n, row.entropy_bits) for row in side.ngrams] for name, side in sides.items()},
        "words in an n-gram",
        "bits",
    )


def _of_tokens(results: AnalysisResults) -> Iterator[Chart]:
    if results.tokens is None:
        return
    before, after = results.tokens.frequency
    yield chart(
        "Output tokens by frequency",
        {"without new tokens": before, "with new tokens": after},
        "most frequent tokens",
        "share of occurrences",
        log="x",
        highest=1,
    )
    size = results.recommended_size
    yield chart(
        "Steps saved by new tokens",
        {"predicted": [(p.added, p.step_ratio) for p in results.budgets]},
        "new tokens",
        "× fewer decoding steps",
        marks={size.budget: f"recommended: {size.budget:,} tokens"} if size else {},
    )


def _of_costs(results: AnalysisResults) -> Iterator[Chart]:
    if results.drafting and (cost := results.drafting.cost):  # T(k) of the model was measured
        pairs = zip(cost.sizes, cost.seconds, strict=True)
        yield chart(
            "Cost of a forward on this machine",
            {"T(k) / T(1)": [(k, t / cost.seconds[0]) for k, t in pairs]},
            "tokens per forward (draft nodes + 1)",
            "× the time of one token",
        )
