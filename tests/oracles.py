"""Slow, obvious definitions that native routines are compared with."""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence

Law = dict[int, float]


class NgramTables:
    """Continuation counts of contexts of 1..n_max tokens, pruned below p_min."""

    def __init__(self, samples: Sequence[Sequence[int]], n_max: int, p_min: int) -> None:
        self.n_max = n_max
        counts: dict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
        self.unigrams: Counter[int] = Counter()
        for sample in samples:
            self.unigrams.update(sample[1:])
            for i in range(1, len(sample)):
                for n in range(1, min(n_max, i) + 1):
                    counts[tuple(sample[i - n : i])][sample[i]] += 1
        pruned = {c: {t: k for t, k in v.items() if k >= p_min} for c, v in counts.items()}
        self.counts = {c: v for c, v in pruned.items() if v}

    def law(self, context: Sequence[int]) -> Law | None:
        for n in range(min(self.n_max, len(context)), 0, -1):
            if hit := self.counts.get(tuple(context[len(context) - n :])):
                total = sum(hit.values())
                return {t: c / total for t, c in hit.items()}
        return None


def mixture(corpus: NgramTables, local: NgramTables, context: Sequence[int], lam: float) -> Law:
    """TASC section 5.2: p_mixed; one side alone where only one has a hit."""
    a, b = corpus.law(context), local.law(context)
    if a is None and b is None:
        if not corpus.unigrams:
            return {}
        token, count = min(corpus.unigrams.items(), key=lambda x: (-x[1], x[0]))
        return {token: count / corpus.unigrams.total()}
    if a is None or b is None:
        return a or b or {}
    return {t: lam * a.get(t, 0) + (1 - lam) * b.get(t, 0) for t in a | b}


def best_tree_mass(
    corpus: NgramTables, local: NgramTables, context: Sequence[int], lam: float, budget: int
) -> float:
    """Largest sum of path probabilities of any tree of ``budget`` nodes, exhaustively."""
    paths: list[float] = []
    frontier: list[tuple[tuple[int, ...], float]] = [((), 1.0)]
    for _ in range(budget):
        grown = [
            ((*path, token), p * q)
            for path, p in frontier
            for token, q in mixture(corpus, local, [*context, *path], lam).items()
        ]
        paths += [p for _, p in grown]
        # A path outside the `budget` best of its level cannot be in the best tree.
        frontier = sorted(grown, key=lambda x: -x[1])[:budget]
    return math.fsum(sorted(paths, reverse=True)[:budget])
