"""``analysis.html``: an analysis for a reader, self-contained and escaped."""

from collections.abc import Iterator

from tasc.benchmark.forecast.verdict import interval_of
from tasc.benchmark.results.analysis import AnalysisResults
from tasc.report.charts import Chart, chart
from tasc.report.html import template


def render(results: AnalysisResults) -> str:
    """Return the page of an analysis."""
    charts = [*_words(results), *_tokens(results), *_costs(results)]
    page = template("tasc.benchmark", "analysis.html")
    recommended_size, drafting = results.recommended_size, results.drafting
    return page.render(
        r=results,
        d=drafting,
        s=results.serving,
        recommended_size=recommended_size,
        charts=charts,
        interval_of=interval_of,
    )


def _words(results: AnalysisResults) -> Iterator[Chart]:
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


def _tokens(results: AnalysisResults) -> Iterator[Chart]:
    tokens, recommended_size = results.tokens, results.recommended_size
    if tokens is None:
        return
    before, after = tokens.frequency
    yield chart(
        "Output tokens by frequency",
        {"before any merge": before, "after the merges": after},
        "most frequent tokens",
        "share of occurrences",
        log="x",
        highest=1,
    )
    yield chart(
        "Steps saved by new tokens",
        {"fewer steps, predicted": [(p.added, p.step_ratio) for p in results.budgets]},
        "new tokens",
        "× fewer decoding steps",
        marks={recommended_size.budget: f"recommended: {recommended_size.budget:,} tokens"}
        if recommended_size
        else {},
    )


def _costs(results: AnalysisResults) -> Iterator[Chart]:
    """T(k) / T(1) of the model, where it was measured."""
    cost = results.drafting and results.drafting.cost
    if cost:
        pairs = zip(cost.sizes, cost.seconds, strict=True)
        yield chart(
            "Cost of a forward on this machine",
            {"T(k) / T(1)": [(k, t / cost.seconds[0]) for k, t in pairs]},
            "tokens per forward (draft nodes + 1)",
            "× the time of one token",
        )
