"""How many tokens to add, from data; the paper leaves the number open.

The merges are nested: one search gives every budget M. More tokens take fewer decoding steps, and
cost:

- rows: parameters, and a share of every step in the product with the output matrix;
- quality: a row learns from the positions where its token stands in the training outputs. After f
  sightings the rule of succession leaves a chance of about 1 / (f + 2) that the next use goes
  wrong. An output that is left out of training has seen its tokens once less, so that the mean
  over the outputs is ``risk`` = sum of f / (f + 1) over the new tokens, by the number of outputs:
  hardly more than one output spoilt for each new token.

Where outputs are few, the last merges make whole outputs of what stood in pieces, and fewer tokens
stand again: the end of the search is then the better way to as many tokens, unless held-out
outputs are others.

The recommended_size is where steps * (1 + rows) * (1 + price * risk) is least: one per cent of the
outputs spoilt counts as much as ``price`` per cent of the time.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from tasc.analysis.outputs import Outputs
from tasc.backend import Merge, MergeResult
from tasc.vocab.measure.compression import savings
from tasc.vocab.search.embedding_cost import EmbeddingCost
from tasc.vocab.search.selection import live_tokens, steps

MOST = 5000  # tokens that a search for the recommended_size looks at
_POINTS = 48  # of the curve that is kept


@dataclass(frozen=True)
class Sightings:
    """How often new tokens stand in the training outputs: the rarest, the 10th percentile, half."""

    least: int
    tenth: float
    median: float

    @classmethod
    def of(cls, counts: Sequence[int]) -> "Sightings":
        """Summarise the counts of the tokens; zeros where there are none."""
        if not len(counts):
            return cls(0, 0.0, 0.0)
        tenth, median = np.percentile(list(counts), [10, 50])
        return cls(int(min(counts)), float(tenth), float(median))


@dataclass(frozen=True)
class Point:
    """What M new tokens bring and cost, as the search predicts it."""

    budget: int  # M
    merges: int  # of the search, intermediate ones included
    train_steps: float  # decoding steps per training output, the end token's included
    held_out_steps: float | None
    seen: Sightings
    risk: float  # share of outputs that a rarely seen token spoils
    parameters: int | None  # of the new rows; None where the model is not known
    slower: float  # how much longer a step takes for the new rows, as a share
    cost: float  # steps * (1 + slower) * (1 + price * risk), 1 without new tokens


@dataclass(frozen=True)
class Curve:
    """Every budget of one search, and the cheapest: the recommended_size."""

    points: tuple[Point, ...]  # ascending; all of them up to some dozens, else a selection
    recommended_size: Point
    price: float

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return asdict(self)


def budget_curve(
    result: MergeResult,
    size: int,
    outputs: Outputs,
    held_out: Outputs | None,
    rows: EmbeddingCost | None,
    price: float,
) -> Curve:
    """Weigh every budget that a search over the outputs gives.

    ``size`` is that of the base vocabulary. Steps are those of the held-out outputs where there are
    any. The recommended_size is 0 where no token pays.
    """
    lengths, risks, end = _nested(result, size)
    samples = outputs.count
    train = _steps([result.tokens_before, *(merge.tokens for merge in result.merges)], samples)
    later = None
    if held_out is not None:
        later = _steps(replayed(result, held_out), held_out.count)
    steps_after = train if later is None else later
    if outputs.fit(end[0]):
        tokens = tokens_at_the_end(result, outputs, held_out)
        alternative = _steps([tokens], (held_out or outputs).count)[0]
        if alternative < steps_after[lengths[end[0]]]:
            lengths[end[0]], risks[end[0]] = len(result.merges), end[1]
            steps_after[-1] = alternative
    budgets = np.arange(len(lengths))
    taken = steps_after[lengths]
    risk = risks / samples
    slower = budgets * (rows.step_share if rows else 0.0)
    cost = taken * (1 + slower) * (1 + price * risk) / taken[0]
    best = int(np.argmin(cost))
    shown = _thinned(len(lengths), best)
    seen = _sightings(result, size, {int(lengths[m]) for m in shown})
    points = [
        Point(
            budget=m,
            merges=int(lengths[m]),
            train_steps=float(train[lengths[m]]),
            held_out_steps=None if later is None else float(later[lengths[m]]),
            seen=seen[int(lengths[m])],
            risk=float(risk[m]),
            parameters=rows.parameters * m if rows else None,
            slower=float(slower[m]),
            cost=float(cost[m]),
        )
        for m in shown
    ]
    return Curve(tuple(points), next(p for p in points if p.budget == best), price)


def _nested(result: MergeResult, size: int) -> tuple[np.ndarray, np.ndarray, tuple[int, float]]:
    """For M = 0, 1, ...: the fewest merges that leave M tokens live, and sum f / (f + 1).

    Also M and the sum after all merges.
    """
    lengths, risks = [0], [0.0]
    known: dict[int, float] = {}
    total, end = 0.0, 0
    for length, (touched, live) in enumerate(live_tokens(result, size), start=1):
        for token in touched:
            now = live.get(token, 0)
            total += now / (now + 1) - known.get(token, 0.0)
            known[token] = now / (now + 1)
        if len(live) == len(lengths):
            lengths.append(length)
            risks.append(total)
        end = len(live)
    return np.array(lengths), np.array(risks), (end, total)


def _steps(tokens: Sequence[int], samples: int) -> np.ndarray:
    return np.asarray(tokens, np.float64) / max(samples, 1) + 1


def replayed(result: MergeResult, outputs: Outputs) -> list[int]:
    """Tokens of the outputs after 0, 1, ... merges of a search that did not see them."""
    encoded, made = outputs.encoded, steps(result, len(result.merges))
    total = outputs.total(np.diff(encoded.offsets))
    totals = [total]
    saved = savings(encoded.tokens, encoded.offsets, outputs.boundaries, made)
    for step, (where, each) in zip(made, saved, strict=True):
        total -= int(outputs.weights[where].sum()) * each
        if isinstance(step, Merge):
            totals.append(total)
    return totals


def tokens_at_the_end(result: MergeResult, outputs: Outputs, held_out: Outputs | None) -> int:
    """Tokens after all merges, of the held-out outputs if there are any.

    What stands then are whole outputs, so that held-out ones count as before unless training has
    seen them.
    """
    if held_out is None:
        return result.merges[-1].tokens if result.merges else result.tokens_before
    known = set(outputs.texts)
    seen = np.array([text in known for text in held_out.texts], bool)
    gaining = replace(held_out, weights=np.where(seen, held_out.weights, 0))
    others = held_out.total(np.where(seen, 0, np.diff(held_out.encoded.offsets)))
    return replayed(result, gaining)[-1] + others


def _thinned(budgets: int, best: int) -> list[int]:
    """Budgets to keep: spread evenly in the logarithm, the first, the last and the best."""
    spread = np.unique(np.geomspace(1, max(budgets, 2), _POINTS).round().astype(int) - 1)
    return sorted({0, best, budgets - 1, *(int(m) for m in spread if m < budgets)})


def _sightings(result: MergeResult, size: int, lengths: set[int]) -> dict[int, Sightings]:
    found = {0: Sightings.of([])}
    for length, (_, live) in enumerate(live_tokens(result, size), start=1):
        if length in lengths:
            found[length] = Sightings.of(list(live.values()))
    return found
