"""The report's plots."""

from collections.abc import Sequence
from typing import Any

from tasc.charts import COLOURS, Chart, chart

PARTS = ("prefill", "draft", "forward", "verify", "commit")


def label(row: dict[str, Any]) -> str:
    """Name a cell."""
    return f"{row['model']} · {row['method']}"


def latency(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a bar a cell: mean milliseconds a sample and the 10th to 90th percentile.

    ``length``, ``begin`` and ``extent`` (of the percentiles) are percentages of what is longest.
    """
    spreads = [row["ms_per_sample_spread"] for row in rows]
    longest = max(max(row["ms_per_sample"], s["p90"]) for row, s in zip(rows, spreads, strict=True))
    scale = 100 / (longest or 1.0)
    return [
        {
            "label": label(row),
            "ms": row["ms_per_sample"],
            "p10": spread["p10"],
            "p90": spread["p90"],
            "length": scale * row["ms_per_sample"],
            "begin": scale * spread["p10"],
            "extent": scale * (spread["p90"] - spread["p10"]),
            "colour": COLOURS[i % len(COLOURS)],
        }
        for i, (row, spread) in enumerate(zip(rows, spreads, strict=True))
    ]


def acceptance(rows: Sequence[dict[str, Any]]) -> Chart | None:
    """Plot the share of steps in which at least k draft tokens were accepted, against k.

    None where nothing drafted.
    """
    lines = {label(r): [*enumerate(r["accepted_by_position"], 1)] for r in rows}
    if not any(lines.values()):
        return None
    axes = "draft position k", "share of steps accepting ≥ k"
    return chart("Acceptance by position", lines, *axes, highest=1)


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
