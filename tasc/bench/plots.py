"""The report's plots."""

from collections.abc import Sequence
from typing import Any

from tasc.svg import COLOURS, new_figure, to_svg

PARTS = ("prefill", "draft", "forward", "verify", "commit")


def label(row: dict[str, Any]) -> str:
    """Name a cell."""
    return f"{row['model']} · {row['method']}"


def latency(rows: Sequence[dict[str, Any]]) -> str:
    """Bars of mean milliseconds a sample with the 10th to 90th percentile."""
    figure, axes = new_figure(0.55 * len(rows) + 1.2)
    for i, row in enumerate(rows):
        spread = row["ms_per_sample_spread"]
        axes.barh(i, row["ms_per_sample"], color=COLOURS[i % len(COLOURS)], height=0.6)
        axes.plot([spread["p10"], spread["p90"]], [i, i], color="#333333", linewidth=1.2)
        axes.text(row["ms_per_sample"], i - 0.38, f"{row['ms_per_sample']:.1f} ms", fontsize=9)
    axes.set_yticks(range(len(rows)), [label(r) for r in rows])
    axes.invert_yaxis()
    axes.set_xlabel("milliseconds per sample (line: 10th to 90th percentile of samples)")
    return to_svg(figure)


def acceptance(rows: Sequence[dict[str, Any]]) -> str:
    """Share of drafting steps in which at least k draft tokens were accepted, against k."""
    drafting = [r for r in rows if r["accepted_by_position"]]
    if not drafting:
        return ""
    figure, axes = new_figure(3.2)
    for i, row in enumerate(drafting):
        shares = row["accepted_by_position"]
        axes.plot(
            range(1, len(shares) + 1),
            shares,
            marker="o",
            markersize=4,
            color=COLOURS[i % len(COLOURS)],
            label=label(row),
        )
    axes.set_ylim(0, 1)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel("draft position k")
    axes.set_ylabel("share of steps accepting ≥ k")
    axes.legend(frameon=False, fontsize=9)
    return to_svg(figure)


def where_time_goes(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a stacked bar a cell: its milliseconds a sample, by part of the loop.

    ``length`` is the percentage of the longest bar, ``share`` that of the bar. The page draws them
    itself, so that names and numbers stay readable on a narrow screen.
    """
    bars = []
    for row in rows:
        parts = {part: 1000 * row["seconds"][part] / row["samples"] for part in PARTS}
        bars.append({"label": label(row), "ms": sum(parts.values()), "parts": parts})
    longest = max((bar["ms"] for bar in bars), default=0.0) or 1.0
    for bar in bars:
        total = bar["ms"] or 1.0
        bar["length"] = 100 * bar["ms"] / longest
        bar["parts"] = [
            {"name": name, "ms": ms, "share": 100 * ms / total, "colour": colour}
            for (name, ms), colour in zip(bar["parts"].items(), COLOURS, strict=False)
        ]
    return bars
