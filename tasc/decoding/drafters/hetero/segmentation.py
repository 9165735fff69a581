"""ψ(t): how likely a draft model is to spell a target token, summed over all of its segmentations.

Timor et al., "Accelerating LLM Inference with Lossless Speculative Decoding Algorithms for
Heterogeneous Vocabularies", section 3.3 and theorem 3.2. Spellings that begin alike share a state
(what is spelled, the draft model's node, tokens so far). States whose node is known are added up
without a forward, shortest string first: on an n-gram model, where states meet, that is a dynamic
program. The others wait and are evaluated a level at a time. What waits bounds what is missing.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tasc.decoding.drafters.hetero.pair import DraftSession
from tasc.vocab.strings import CONTINUE, KEPT

State = tuple[int, bytes, int, int]  # bytes spelled, these bytes, node, draft tokens


@dataclass(frozen=True)
class Rule:
    """When a segmentation is not followed any further.

    ``lookahead``: after so many draft tokens the first target token is taken to be committed, 0 for
    no such limit. ``floor``: a segmentation that is less likely and not yet committed gives no
    token.
    """

    lookahead: int = 0
    floor: float = 0.0


class Segmentation:
    """One token's segmentations after a node."""

    def __init__(self, session: DraftSession, rule: Rule, start: int, token: int) -> None:
        """Sum what resolves ``token`` after the node ``start``."""
        self.session, self.rule, self.token = session, rule, token
        self.string = session.pair.vocabulary.of_id[token]
        self.low = 0.0
        self.ready: dict[State, list[float]] = {(0, b"", start, 0): [1.0]}
        self.heap: list[State] = list(self.ready)
        self.waiting: list[tuple[bytes, int, int, int, list[float]]] = []

    def bounds(self) -> Iterator[tuple[float, float]]:
        """Yield (low, high) of ψ(t), closer with every forward of the draft model."""
        while True:
            while self.heap:
                state = heapq.heappop(self.heap)
                self._sum(state, self.ready.pop(state))
            missing = sum(sum(masses) for *_, masses in self.waiting)
            yield self.low, self.low + missing
            if not self.waiting:
                return
            waiting, self.waiting = self.waiting, []
            nodes = self.session.draft_model.extend(
                [w[1] for w in waiting], [w[2] for w in waiting]
            )
            for (string, _, _, depth, masses), node in zip(waiting, nodes, strict=True):
                self._enter((len(string), string, node, depth), masses)

    def _enter(self, state: State, masses: list[float]) -> None:
        if state not in self.ready:
            heapq.heappush(self.heap, state)
        met = self.ready.get(state, []) + masses
        # The floor is each segmentation's own: those that meet are only added up where there is
        # none.
        self.ready[state] = met if self.rule.floor else [sum(met)]

    def _sum(self, state: State, masses: list[float]) -> None:
        """Add what resolves the token right after ``state``; queue what may commit it later."""
        _, string, node, depth = state
        session, rule = self.session, self.rule
        distribution = session.probabilities(node)
        resolves, goes_on = relevant(session, string, self.token)
        self.low += sum(masses) * float(distribution[resolves].sum())
        strings, vocabulary = session.pair.draft_strings, session.pair.vocabulary
        for draft in goes_on:
            given = float(distribution[draft])
            grown = string + strings[draft]
            if depth + 1 == rule.lookahead:
                self.low += sum(masses) * given if vocabulary.first(grown) == self.token else 0.0
                continue
            shares = [mass * given for mass in masses if mass * given >= rule.floor]
            if not sum(shares):
                continue
            known = session.draft_model.known(node, draft)
            if known is None:
                self.waiting.append((grown, node, draft, depth + 1, shares))
            else:
                self._enter((len(grown), grown, known, depth + 1), shares)


def relevant(session: DraftSession, string: bytes, token: int) -> tuple[np.ndarray, list[int]]:
    """Return the draft tokens that commit ``token`` after ``string``, and those that still may."""
    pair = session.pair
    found = pair.relevant.get((string, token))
    if found is None:
        resolver, whole = pair.resolver.after(string), pair.vocabulary.of_id[token]
        goes_on = []
        for draft in np.flatnonzero(resolver == CONTINUE).tolist() if whole else []:
            grown = string + pair.draft_strings[draft]
            inside = whole.startswith(grown) and grown != whole
            if inside or (grown.startswith(whole) and pair.vocabulary.first(grown) == token):
                goes_on.append(draft)
        found = np.flatnonzero(resolver == token), goes_on
        pair.held += len(found[0])
        if pair.held > KEPT:
            pair.held = len(found[0])
            pair.relevant.clear()
        pair.relevant[string, token] = found
    return found
