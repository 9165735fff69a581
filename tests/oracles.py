"""Slow, obvious definitions that native routines are compared with."""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

Distribution = dict[int, float]
MARK = -2
CUT = 1 / 128  # a source with less weight left is not followed to shorter contexts


def counts_of(samples: Sequence[Sequence[int]], n_max: int) -> dict[tuple[int, ...], Counter[int]]:
    """Count what follows every context of 0..n_max tokens; a mark is a context only."""
    counts: dict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
    for sample in samples:
        for i, token in enumerate(sample):
            for n in range(min(n_max, i) + 1):
                if token >= 0:
                    counts[tuple(sample[i - n : i])][token] += 1
    return counts


@dataclass
class Corpus:
    """Twin of NgramIndex: interpolated absolute discounting over the orders n_max..0."""

    samples: Sequence[Sequence[int]]
    n_max: int = 6
    p_min: int = 1
    discount: float = 0.8
    strength: float = 1.0

    def __post_init__(self) -> None:
        counts = counts_of(self.samples, self.n_max)
        self.seen = {c: v.total() for c, v in counts.items()}
        pruned = {c: {t: k for t, k in v.items() if k >= self.p_min} for c, v in counts.items()}
        self.counts = {c: v for c, v in pruned.items() if v}

    def length(self, context: Sequence[int]) -> int:
        """Tokens of the longest context with a continuation."""
        return max(
            (n for n in range(1, self.n_max + 1) if self._suffix(context, n) in self.counts),
            default=0,
        )

    def distribution(self, context: Sequence[int]) -> Distribution:
        distribution: Distribution = {}
        left = 1.0
        single: set[int] = set()
        for n in range(self.length(context), -1, -1):
            suffix = self._suffix(context, n)
            if suffix not in self.counts:
                continue
            alone = n > 0 and self.seen[suffix] == 1
            if left < CUT and not alone:
                break
            for token in self.counts[suffix]:
                if token not in distribution:
                    distribution[token] = left * self._probability(suffix, token)
            if alone:
                single.update(self.counts[suffix])
            # Stored in eighths of an octave; what contexts seen once leave is not stored.
            weight = self._weight(suffix)
            left *= (
                weight
                if alone or not weight
                else 2 ** -(math.floor(0.5 - 8 * math.log2(weight)) / 8)
            )
        return distribution

    def _suffix(self, context: Sequence[int], n: int) -> tuple[int, ...]:
        return tuple(context[len(context) - n :]) if n <= len(context) else (-99,)

    def _weight(self, context: tuple[int, ...]) -> float:
        kept = self.counts[context]
        return (self.strength + self.discount * len(kept)) / (sum(kept.values()) + self.strength)

    def _probability(self, context: tuple[int, ...], token: int) -> float:
        kept = self.counts.get(context)
        if kept is None:
            return self._probability(context[1:], token)
        own = max(kept.get(token, 0) - self.discount, 0) / (sum(kept.values()) + self.strength)
        below = self._probability(context[1:], token) if context else 0.0
        return own + self._weight(context) * below


@dataclass
class Table:
    """Twin of NgramTable: the same over the orders n_max..1, without strength."""

    samples: Sequence[Sequence[int]]
    n_max: int = 6
    discount: float = 0.7

    def __post_init__(self) -> None:
        self.counts = {c: v for c, v in counts_of(self.samples, self.n_max).items() if c}

    def length(self, context: Sequence[int]) -> int:
        longest = min(self.n_max, len(context))
        return max(
            (n for n in range(1, longest + 1) if tuple(context[-n:]) in self.counts), default=0
        )

    def distribution(self, context: Sequence[int]) -> Distribution:
        distribution: Distribution = defaultdict(float)
        left = 1.0
        for n in range(self.length(context), 0, -1):
            kept = self.counts[tuple(context[-n:])]
            for token, count in kept.items():
                distribution[token] += left * (count - self.discount) / kept.total()
            left *= self.discount * len(kept) / kept.total()
            if left < CUT:
                break
        return {t: p for t, p in distribution.items() if p > 0}


def mixture(
    corpora: Sequence[Corpus], table: Table, context: Sequence[int], lam: float, gain: float
) -> Distribution:
    """TASC section 5.2, p_mixed, each side weighing e^gain more a token of matched context."""
    sources = [(lam / len(corpora), c) for c in corpora] + [(1 - lam, table)]
    weights = [
        share * math.exp(gain * s.length(context)) if s.length(context) else 0.0
        for share, s in sources
    ]
    if not sum(weights):
        weights = [1 / len(corpora)] * len(corpora) + [0.0]
    distribution: Distribution = defaultdict(float)
    for weight, (_, source) in zip(weights, sources, strict=True):
        for token, p in source.distribution(context).items() if weight else ():
            distribution[token] += weight / sum(weights) * p
    return distribution


def best_tree_mass(
    corpora: Sequence[Corpus],
    table: Table,
    context: Sequence[int],
    lam: float,
    gain: float,
    budget: int,
    end: int,
    missing: float = 0.0,
) -> float:
    """Largest sum of path probabilities of a tree of ``budget`` nodes, exhaustively.

    Each probability of a token lacks ``missing``.
    """
    paths: list[float] = []
    frontier: list[tuple[tuple[int, ...], float]] = [((), 1.0)]
    for _ in range(budget):
        grown = [
            ((*path, token), p * max(q - missing, 0))
            for path, p in frontier
            for token, q in mixture(corpora, table, [*context, *path], lam, gain).items()
            if token != end
        ]
        paths += [p for _, p in grown]
        # A path outside the `budget` best of its level cannot be in the best tree.
        frontier = sorted(grown, key=lambda x: -x[1])[:budget]
    return math.fsum(sorted(paths, reverse=True)[:budget])


class SlowAcceptance:
    """What tasc._native.Acceptance counts and estimates, node by node."""

    def __init__(self) -> None:
        self.claims: dict[int, list[float]] = defaultdict(lambda: [0.0, 0.0])  # claimed, accepted
        self.ranks: dict[int, list[float]] = defaultdict(lambda: [0.0, 0.0])

    def estimate(
        self, parents: Sequence[int], probabilities: Sequence[float] | None
    ) -> list[float]:
        path: list[float] = []
        for i, parent in enumerate(parents):
            before = path[parent] if parent >= 0 else 1.0
            if probabilities is None:
                path.append(min(before, self._rate(self.ranks[min(i, 63)], 0.6 ** (i + 1))))
            else:
                claim = given_parent(parents, probabilities, i)
                path.append(before * self._rate(self.claims[min(int(claim * 16), 15)], claim))
        return path

    @staticmethod
    def _rate(counts: Sequence[float], claim: float) -> float:
        """Return a claim scaled by accepted / claimed nodes, as if two more had claimed it."""
        claimed, accepted = counts
        return min(claim * (accepted + 2 * claim) / (claimed + 2 * claim), 1.0) if claim else 0.0

    def learn(
        self,
        tokens: Sequence[int],
        parents: Sequence[int],
        probabilities: Sequence[float] | None,
        committed: Sequence[int],
    ) -> None:
        for counts in (*self.claims.values(), *self.ranks.values()):
            counts[:] = [0.98 * x for x in counts]
        taken = accepted_nodes(tokens, parents, committed)
        for i, parent in enumerate(parents):
            if len(taken) == len(committed) and hangs_below(parents, i, taken[-1]):
                continue  # deeper than what was committed: not known yet
            if probabilities is None:
                claim, counts = 0.6 ** (i + 1), self.ranks[min(i, 63)]
            elif parent < 0 or parent in taken:
                claim = given_parent(parents, probabilities, i)
                counts = self.claims[min(int(claim * 16), 15)]
            else:
                continue
            counts[0] += claim
            counts[1] += i in taken


def accepted_nodes(
    tokens: Sequence[int], parents: Sequence[int], committed: Sequence[int]
) -> list[int]:
    """The path that spells the beginning of ``committed``: of equal siblings the first."""
    path = [-1]
    for token in committed:
        at = [i for i, p in enumerate(parents) if p == path[-1] and tokens[i] == token]
        if not at:
            break
        path.append(at[0])
    return path[1:]


def hangs_below(parents: Sequence[int], node: int, above: int) -> bool:
    parent = parents[node]
    return parent >= 0 and (parent == above or hangs_below(parents, parent, above))


def given_parent(parents: Sequence[int], probabilities: Sequence[float], node: int) -> float:
    """From path probabilities to that of a node given its parent."""
    before = probabilities[parents[node]] if parents[node] >= 0 else 1.0
    return min(max(probabilities[node] / max(before, 1e-9), 0.0), 1.0)


def most_worthwhile(
    parents: Sequence[int], path: Sequence[float], prices: Sequence[float], pace: float
) -> float:
    """The largest gain of any part of a tree that holds its nodes' parents, exhaustively."""
    best = 0.0
    for chosen in range(1 << len(parents)):
        nodes = [i for i in range(len(parents)) if chosen >> i & 1]
        if all(parents[i] < 0 or chosen >> parents[i] & 1 for i in nodes):
            best = max(best, pace * math.fsum(path[i] for i in nodes) - prices[len(nodes)])
    return best
