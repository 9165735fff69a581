"""Choose the number of new tokens from data; the paper leaves it open.

Merges are nested, so one search covers every number of new tokens M. More tokens need fewer
decoding steps, at two costs:

- rows: parameters, and a share of each step for the product with the output matrix;
- quality: a row learns from the occurrences of its token in the training outputs. After f
  occurrences, the rule of succession leaves a chance of about 1 / (f + 2) that the next use is
  wrong. An output outside the training set has seen each of its tokens once less, so the mean over
  the outputs is ``risk`` = sum of f / (f + 1) over the new tokens / number of outputs: about one
  spoilt output for each new token.

If there are few outputs, the last merges turn pieces into whole outputs and the number of live
tokens falls again. The end of the search is then the better way to the same number of tokens,
unless the held-out outputs differ.

The recommended_size minimises steps * (1 + rows) * (1 + price * risk): one per cent of spoilt
outputs weighs as much as ``price`` per cent of the time.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tasc.analysis.outputs import Outputs
from tasc.backend import Merge, MergeResult
from tasc.vocab.measure.compression import savings
from tasc.vocab.search.embedding_cost import EmbeddingCost
from tasc.vocab.search.selection import live_tokens, steps

MOST = 5000  # largest number of new tokens considered for the recommended_size
_POINTS = 48  # of the curve that is reported


@dataclass(frozen=True)
class Sightings:
    """Occurrences of new tokens in the training outputs: minimum, 10th percentile, median."""

    least: int
    tenth: float
    median: float

    @classmethod
    def of(cls, counts: Sequence[int]) -> "Sightings":
        """Summarise the counts of the tokens; zeros if there are none."""
        if not len(counts):
            return cls(0, 0.0, 0.0)
        tenth, median = np.percentile(list(counts), [10, 50])
        return cls(int(min(counts)), float(tenth), float(median))


@dataclass(frozen=True)
class Point:
    """The predicted benefit and cost of M new tokens."""

    budget: int  # M
    merges: int  # of the search, including intermediate ones
    train_steps: float  # decoding steps per training output, including the end token
    held_out_steps: float | None
    seen: Sightings
    risk: float  # share of outputs spoilt by a rarely seen token
    parameters: int | None  # of the new rows; None if the model is unknown
    slower: float  # extra time of a step for the new rows, as a share
    cost: float  # steps * (1 + slower) * (1 + price * risk), 1 without new tokens


@dataclass(frozen=True)
class Curve:
    """The points of one search, and the cheapest of them: the recommended_size."""

    points: tuple[Point, ...]  # ascending; a selection if there are more than some dozens
    recommended_size: Point
    price: float

    @property
    def step_ratio(self) -> float:
        """Steps per output without new tokens, divided by those at the recommended size.

        The outputs are the held-out ones, or the training outputs if none were held out.
        """
        none, best = self.points[0], self.recommended_size
        if none.held_out_steps is None or best.held_out_steps is None:
            return none.train_steps / best.train_steps
        return none.held_out_steps / best.held_out_steps


def budget_curve(
    result: MergeResult,
    size: int,
    outputs: Outputs,
    held_out: Outputs | None,
    rows: EmbeddingCost | None,
    price: float,
) -> Curve:
    """Return the cost of every number of new tokens that a search over the outputs covers.

    ``size`` is the size of the base vocabulary. Steps are counted on the held-out outputs if there
    are any. The recommended_size is 0 if no token pays.
    """
    lengths, risks, end = _nested(result, size)
    train = _steps([result.tokens_before, *(m.tokens for m in result.merges)], outputs.count)
    later = None if held_out is None else _steps(replayed(result, held_out), held_out.count)
    steps_after = train if later is None else later
    if outputs.fit(end[0]):
        tokens = tokens_at_the_end(result, outputs, held_out)
        alternative = _steps([tokens], (held_out or outputs).count)[0]
        if alternative < steps_after[lengths[end[0]]]:
            lengths[end[0]], risks[end[0]] = len(result.merges), end[1]
            steps_after[-1] = alternative
    taken, risk = steps_after[lengths], risks / outputs.count
    slower = np.arange(len(lengths)) * (rows.step_share if rows else 0.0)
    cost = taken * (1 + slower) * (1 + price * risk) / taken[0]
    best = int(np.argmin(cost))
    shown = _thinned(len(lengths), best)
    seen = _sightings(result, size, {int(lengths[m]) for m in shown})
    points = {
        m: Point(
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
    }
    return Curve(tuple(points.values()), points[best], price)


def _nested(result: MergeResult, size: int) -> tuple[np.ndarray, np.ndarray, tuple[int, float]]:
    """Return the fewest merges that leave M = 0, 1, ... live tokens, and their sums f / (f + 1)."""
    lengths, risks = [0], [0.0]
    terms: dict[int, float] = {}
    total = 0.0
    end = 0
    for length, (touched, live) in enumerate(live_tokens(result, size), start=1):
        for token in touched:
            now = live.get(token, 0)
            total += now / (now + 1) - terms.get(token, 0.0)
            terms[token] = now / (now + 1)
        if len(live) == len(lengths):
            lengths.append(length)
            risks.append(total)
        end = len(live)
    return np.array(lengths), np.array(risks), (end, total)  # the pair is after all merges


def _steps(tokens: Sequence[int], samples: int) -> np.ndarray:
    return np.asarray(tokens, np.float64) / max(samples, 1) + 1


def replayed(result: MergeResult, outputs: Outputs) -> list[int]:
    """Return the tokens of outputs outside the search after 0, 1, ... of its merges."""
    encoded = outputs.encoded
    applied = steps(result, len(result.merges))
    total = outputs.total(np.diff(encoded.offsets))
    totals = [total]
    saved = savings(encoded.tokens, encoded.offsets, outputs.boundaries, applied)
    for step, (where, each) in zip(applied, saved, strict=True):
        total -= int(outputs.weights[where].sum()) * each
        if isinstance(step, Merge):
            totals.append(total)
    return totals


def tokens_at_the_end(result: MergeResult, outputs: Outputs, held_out: Outputs | None) -> int:
    """Return the tokens after all merges, of the held-out outputs if there are any.

    The tokens are whole outputs then, so only held-out outputs that are training outputs gain.
    """
    if held_out is None:
        return result.last[0]
    training_texts = set(outputs.texts)
    seen = np.array([text in training_texts for text in held_out.texts], bool)
    gaining = replace(held_out, weights=np.where(seen, held_out.weights, 0))
    others = held_out.total(np.where(seen, 0, np.diff(held_out.encoded.offsets)))
    return replayed(result, gaining)[-1] + others


def _thinned(budgets: int, best: int) -> list[int]:
    """Return the budgets to report: log-spaced ones, the first, the last and the best."""
    spread = np.unique(np.geomspace(1, max(budgets, 2), _POINTS).round().astype(int) - 1)
    return sorted({0, best, budgets - 1, *(int(m) for m in spread if m < budgets)})


def _sightings(result: MergeResult, size: int, lengths: set[int]) -> dict[int, Sightings]:
    sightings = {0: Sightings.of([])}
    for length, (_, live) in enumerate(live_tokens(result, size), start=1):
        if length in lengths:
            sightings[length] = Sightings.of(list(live.values()))
    return sightings
