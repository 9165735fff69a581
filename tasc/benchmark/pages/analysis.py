"""``analysis.html`` of ``tasc analyze``. The page is self-contained and escaped."""

from collections.abc import Iterator, Mapping

from tasc.benchmark.results.analysis import AnalysisResults
from tasc.report.charts import Chart, Points, chart
from tasc.report.html import template


def render(results: AnalysisResults) -> str:
    """Return the page of an analysis."""
    charts = [*_of_words(results), *_of_tokens(results), *_of_costs(results)]
    return template("tasc.benchmark", "analysis.html").render(results=results, charts=charts)


def _of_words(results: AnalysisResults) -> Iterator[Chart]:
    sides = {"inputs": results.input, "outputs": results.output}
    curves = {name: side.bigrams.curve for name, side in sides.items()}
    yield _coverage("Coverage of word bigrams", curves, "bigrams")
    bits = {name: [(row.n, row.entropy_bits) for row in s.ngrams] for name, s in sides.items()}
    yield chart("Entropy by length", bits, "words in an n-gram", "bits")


def _of_tokens(results: AnalysisResults) -> Iterator[Chart]:
    if results.tokens is None:
        return
    before, after = results.tokens.frequency
    curves = {"without new tokens": before, "with new tokens": after}
    yield _coverage("Output tokens by frequency", curves, "tokens")
    size, axes = results.recommended_size, ("new tokens", "× fewer decoding steps")
    saved = {"predicted": [(point.added, point.step_ratio) for point in results.budgets]}
    marks: dict[float, str] = {size.budget: f"recommended: {size.budget:,} tokens"} if size else {}
    yield chart("Steps saved by new tokens", saved, *axes, marks=marks)


def _coverage(title: str, curves: Mapping[str, Points], counted: str) -> Chart:
    axes = f"most frequent {counted}", "share of occurrences"
    return chart(title, curves, *axes, log="x", highest=1)


def _of_costs(results: AnalysisResults) -> Iterator[Chart]:
    if results.drafting and (cost := results.drafting.cost):  # T(k) of the model was measured
        pairs = zip(cost.sizes, cost.seconds, strict=True)
        relative = {"T(k) / T(1)": [(k, t / cost.seconds[0]) for k, t in pairs]}
        axes = "tokens per forward (draft nodes + 1)", "× the time of one token"
        yield chart("Cost of a forward on this machine", relative, *axes)
