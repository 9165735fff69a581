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


class SlowAcceptance:
    """What tasc._native.Acceptance counts and estimates, node by node."""

    def __init__(self) -> None:
        self.claims: dict[int, list[float]] = defaultdict(lambda: [0.0, 0.0])  # tried, accepted
        self.ranks: dict[int, list[float]] = defaultdict(lambda: [0.0, 0.0])

    def estimate(
        self, parents: Sequence[int], probabilities: Sequence[float] | None
    ) -> list[float]:
        path: list[float] = []
        for i, parent in enumerate(parents):
            before = path[parent] if parent >= 0 else 1.0
            if probabilities is None:
                tried, accepted = self.ranks[min(i, 63)]
                path.append(min(before, (accepted + 2 * 0.6 ** (i + 1)) / (tried + 2)))
            else:
                claim = given_parent(parents, probabilities, i)
                tried, accepted = self.claims[min(int(claim * 16), 15)]
                path.append(before * (accepted + 2 * claim) / (tried + 2))
        return path

    def learn(
        self,
        tokens: Sequence[int],
        parents: Sequence[int],
        probabilities: Sequence[float] | None,
        settled: Sequence[int],
    ) -> None:
        for counts in (*self.claims.values(), *self.ranks.values()):
            counts[:] = [0.98 * x for x in counts]
        taken = accepted_nodes(tokens, parents, settled)
        for i, parent in enumerate(parents):
            if len(taken) == len(settled) and hangs_below(parents, i, taken[-1]):
                continue  # deeper than what was settled: not known yet
            if probabilities is None:
                counts = self.ranks[min(i, 63)]
            elif parent < 0 or parent in taken:
                counts = self.claims[min(int(given_parent(parents, probabilities, i) * 16), 15)]
            else:
                continue
            counts[0] += 1
            counts[1] += i in taken


def accepted_nodes(
    tokens: Sequence[int], parents: Sequence[int], settled: Sequence[int]
) -> list[int]:
    """The path that spells the beginning of ``settled``: of equal siblings the first."""
    path = [-1]
    for token in settled:
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
