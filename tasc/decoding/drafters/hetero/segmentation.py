"""ψ(t): a draft model's probability of spelling a target token, summed over all segmentations.

Timor et al., arXiv:2502.05202, section 3.3 and theorem 3.2. Spellings with a common beginning share
a state (spelled bytes, draft model node, number of tokens). States with a known node are summed
without a forward, shortest string first; on an n-gram model, where states merge, this is a dynamic
program. Other states wait and are evaluated level by level. Their mass bounds the missing part.
"""

import heapq
from collections.abc import Iterator

import numpy as np

from tasc.decoding.drafters.hetero.options import SlrsOptions
from tasc.decoding.drafters.hetero.pair import DraftSession, Pair
from tasc.vocab.strings import CONTINUE, KEPT

State = tuple[int, bytes, int, int]  # number of bytes, bytes, node, number of draft tokens


class Segmentation:
    """The segmentations of ``token`` after the node ``start``."""

    def __init__(self, session: DraftSession, options: SlrsOptions, start: int, token: int) -> None:
        self.session, self.options, self.token = session, options, token
        self.string = session.pair.vocabulary.of_id[token]
        self.low = 0.0
        self.ready: dict[State, list[float]] = {(0, b"", start, 0): [1.0]}
        self.heap: list[State] = list(self.ready)
        self.waiting: list[tuple[bytes, int, int, int, list[float]]] = []

    def bounds(self) -> Iterator[tuple[float, float]]:
        """Yield bounds (low, high) of ψ(t) that tighten with each forward of the draft model."""
        while True:
            while self.heap:
                state = heapq.heappop(self.heap)
                self._sum(state, self.ready.pop(state))
            missing = sum(sum(masses) for *_, masses in self.waiting)
            yield self.low, self.low + missing
            if not self.waiting:
                return
            strings, parents, tokens, depths, shares = zip(*self.waiting, strict=True)
            self.waiting = []
            nodes = self.session.draft_model.extend(parents, tokens)
            for string, node, depth, masses in zip(strings, nodes, depths, shares, strict=True):
                self._enter((len(string), string, node, depth), masses)

    def _enter(self, state: State, masses: list[float]) -> None:
        if state not in self.ready:
            heapq.heappush(self.heap, state)
        merged = self.ready.get(state, []) + masses
        # The floor applies to each segmentation, so merged ones are only summed without a floor.
        self.ready[state] = merged if self.options.floor else [sum(merged)]

    def _sum(self, state: State, masses: list[float]) -> None:
        """Add the mass that commits the token after ``state``; queue what may commit it later."""
        _, string, node, depth = state
        session, o = self.session, self.options
        distribution = session.distribution(node).numpy()
        commits, continues = relevant(session, string, self.token)
        self.low += sum(masses) * float(distribution[commits].sum())
        strings, vocabulary = session.pair.draft_strings, session.pair.vocabulary
        for draft in continues:
            probability = float(distribution[draft])
            grown = string + strings[draft]
            if depth + 1 == o.lookahead:
                if vocabulary.first(grown) == self.token:
                    self.low += sum(masses) * probability
                continue
            shares = [share for mass in masses if (share := mass * probability) >= o.floor]
            if not sum(shares):
                continue
            continued = session.draft_model.known(node, draft)
            if continued is None:
                self.waiting.append((grown, node, draft, depth + 1, shares))
            else:
                self._enter((len(grown), grown, continued, depth + 1), shares)


def relevant(session: DraftSession, string: bytes, token: int) -> tuple[np.ndarray, list[int]]:
    """Return the draft tokens that commit ``token`` after ``string``, and those that may later."""
    pair = session.pair
    result = pair.relevant.get((string, token))
    if result is None:
        result = _find_relevant(pair, string, token)
        pair.relevant_size += len(result[0])
        if pair.relevant_size > KEPT:
            pair.relevant_size = len(result[0])
            pair.relevant.clear()
        pair.relevant[string, token] = result
    return result


def _find_relevant(pair: Pair, string: bytes, token: int) -> tuple[np.ndarray, list[int]]:
    resolver, whole = pair.resolver.after(string), pair.vocabulary.of_id[token]
    continues = []
    for draft in np.flatnonzero(resolver == CONTINUE).tolist() if whole else []:
        grown = string + pair.draft_strings[draft]
        inside = whole.startswith(grown) and grown != whole
        if inside or (grown.startswith(whole) and pair.vocabulary.first(grown) == token):
            continues.append(draft)
    return np.flatnonzero(resolver == token), continues
