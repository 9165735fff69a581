"""``analysis.html``: an analysis for a reader, self-contained and escaped."""

from typing import Any

from tasc.charts import Chart, chart
from tasc.html import template


def render(result: dict[str, Any]) -> str:
    """Return the page of an analysis, given as in analysis.json."""
    drafting, knee = result.get("drafting"), result.get("knee")
    charts = _charts(result, knee) + _drafting(drafting)
    page = template("tasc.analysis", "analysis.html")
    return page.render(r=result, d=drafting, knee=knee, charts=charts)


def _charts(result: dict[str, Any], knee: dict[str, Any] | None) -> list[Chart]:
    sides = {"inputs": result["input"], "outputs": result["output"]}
    charts = [
        chart(
            "Coverage of word bigrams",
            {name: side["ngrams"][1]["curve"] for name, side in sides.items()},
            "most frequent bigrams",
            "share of occurrences",
            log="x",
            highest=1,
        ),
        chart(
            "Entropy by length",
            {
                name: [(row["n"], row["entropy_bits"]) for row in side["ngrams"]]
                for name, side in sides.items()
            },
            "words in an n-gram",
            "bits",
        ),
    ]
    tokens = result["tokens"]
    if tokens:
        before, after = tokens["frequency"]
        most = tokens["budgets"][-1]["added"]
        charts += [
            chart(
                "Output tokens by frequency",
                {"without": before, f"with {most:,} added": after},
                "most frequent tokens",
                "share of occurrences",
                log="x",
                highest=1,
            ),
            chart(
                "What a budget brings",
                {
                    "fewer steps, predicted": [
                        (p["added"], p["step_ratio"]) for p in tokens["budgets"]
                    ]
                },
                "added tokens",
                "× fewer decoding steps",
                marks={knee["budget"]: f"knee: {knee['budget']:,}"} if knee else {},
            ),
        ]
    return charts


def _drafting(drafting: dict[str, Any] | None) -> list[Chart]:
    """T(k) / T(1) of the model, where it was measured."""
    if not drafting or not drafting["cost"]:
        return []
    sizes, seconds = drafting["cost"]["sizes"], drafting["cost"]["seconds"]
    return [
        chart(
            "What a forward costs here",
            {"T(k) / T(1)": [(k, t / seconds[0]) for k, t in zip(sizes, seconds, strict=True)]},
            "tokens of a forward: draft nodes and one",
            "× the time of one token",
        )
    ]
