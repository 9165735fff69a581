"""From generations to figures: one JSON record a cell, and the comparisons people ask for."""

from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np

from tasc.bench.lossless import Match
from tasc.bench.matrix import Cell, firsts
from tasc.bench.quality import score
from tasc.bench.reference import Reference
from tasc.spec.decode import Generation
from tasc.spec.steps import StepStats


def records(
    cells: Sequence[Cell],
    matches: Sequence[Match] | None,
    references: Sequence[str],
    metrics: Sequence[str],
    delimiter: str,
) -> list[dict[str, Any]]:
    """Describe each cell.

    ``matches`` compare it with its model's first method; None where outputs need not be equal.
    """
    first = firsts(cells)
    rows = [_record(cell, references, metrics, delimiter) for cell in cells]
    for i, (row, cell) in enumerate(zip(rows, cells, strict=True)):
        found = None if matches is None else matches[i]
        row["lossless"] = found and _lossless(found, first[cell.model.label].method.label)
    return rows


def reference_records(references: Sequence[Reference]) -> list[dict[str, Any]]:
    """Describe how far each model's first method says what transformers' ``generate`` says."""
    return [
        {
            "model": r.cell.model.label,
            "method": r.cell.method.label,
            "samples": list(r.samples),
            **_lossless(r.match, "transformers generate"),
        }
        for r in references
    ]


def _record(
    cell: Cell, references: Sequence[str], metrics: Sequence[str], delimiter: str
) -> dict[str, Any]:
    first = cell.runs[0]
    ms = sample_ms(cell)
    tokens = sum(len(g.tokens) for g in first)
    predictions = [cell.model.tokenizer.decode(g.tokens.tolist()) for g in first]
    return {
        "model": cell.model.label,
        "method": cell.method.label,
        "samples": len(first),
        "tokens": tokens,
        "tokens_per_output": tokens / len(first),
        "decoding_steps": sum(g.decoding_steps for g in first),
        "decoding_steps_per_output": sum(g.decoding_steps for g in first) / len(first),
        "ms_per_sample": float(np.mean(ms)),
        "ms_per_sample_spread": _spread(ms),
        "ms_per_sample_by_repeat": [
            1000 * sum(g.timeline.total for g in run) / len(run) for run in cell.runs
        ],
        "tokens_per_second": 1000 * tokens / sum(ms),
        **_acceptance(StepStats.of(first)),
        "seconds": _seconds(cell.runs),
        "quality": score(metrics, predictions, references, delimiter),
        "sample_ms": [round(x, 4) for x in ms],
    }


def sample_ms(cell: Cell) -> list[float]:
    """Milliseconds of each sample from prompt to last token: the median over the repeats."""
    return [1000 * median(g.timeline.total for g in runs) for runs in zip(*cell.runs, strict=True)]


def _spread(ms: Sequence[float]) -> dict[str, float]:
    names = ("p10", "p50", "p90")
    return dict(zip(names, np.percentile(ms, [10, 50, 90]).tolist(), strict=True))


def _acceptance(steps: StepStats) -> dict[str, Any]:
    return {
        "tokens_per_step": steps.tokens_per_step,
        "tokens_per_step_interval": list(steps.interval),
        "accepted_by_position": steps.accepted_by_position,
        "drafted": int(steps.drafted.sum()),
        "accepted": int(steps.accepted.sum()),
    }


def _seconds(runs: Sequence[Sequence[Generation]]) -> dict[str, float]:
    parts = ("prefill", "draft", "forward", "verify", "commit")
    return {
        part: sum(getattr(g.timeline, part) for run in runs for g in run) / len(runs)
        for part in parts
    }


def _lossless(found: Match, against: str) -> dict[str, Any]:
    """Count samples whose tokens are those expected; say how near to a tie the others parted."""
    different = found.differences
    result: dict[str, Any] = {
        "against": against,
        "identical": found.compared - len(different),
        "of": found.compared,
        "match_rate": found.rate,
    }
    if different:
        d = different[0]
        result["first_difference"] = {"sample": d.sample, "token": d.position, "margin": d.margin}
        if d.margin is not None:
            result["largest_margin"] = found.largest_margin
    return result


def comparisons(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Compare every cell with the first model's first method, and with its own model's."""
    overall = rows[0]
    own: dict[str, dict[str, Any]] = {}
    result = []
    for row in rows:
        base = own.setdefault(row["model"], row)
        pairs = [base] if base is overall else [base, overall]
        result += [_compare(row, other) for other in pairs if other is not row]
    return result


def speedup(row: dict[str, Any], base: dict[str, Any]) -> float:
    """Return how many times as fast a cell is as another, by the time of a sample.

    By tokens per second where outputs are not compared: their lengths differ by chance.
    """
    if row["lossless"] is None:
        return float(row["tokens_per_second"] / base["tokens_per_second"])
    return float(base["ms_per_sample"] / row["ms_per_sample"])


def _compare(row: dict[str, Any], base: dict[str, Any]) -> dict[str, Any]:
    ratios = np.array(base["sample_ms"]) / np.array(row["sample_ms"])
    return {
        "model": row["model"],
        "method": row["method"],
        "against": {"model": base["model"], "method": base["method"]},
        "speedup": speedup(row, base),
        "speedup_median_of_samples": float(np.median(ratios)),
        "speedup_by_repeat": [
            b / a
            for a, b in zip(
                row["ms_per_sample_by_repeat"], base["ms_per_sample_by_repeat"], strict=True
            )
        ],
        "fewer_steps": base["decoding_steps"] / row["decoding_steps"],
        "quality_change": {k: row["quality"][k] - base["quality"][k] for k in row["quality"]},
    }
