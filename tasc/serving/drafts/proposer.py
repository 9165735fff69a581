"""Chains for the requests of a serving engine, from tokens alone: nothing here knows an engine.

An engine that tells neither when a request begins or ends nor which one a row is (rows move between
steps) still shows each row's tokens. So a request's drafter is found by what was read: by the
length and the last tokens of its sequence. A sequence that is not found is begun anew, its tokens
so far as the prompt; drafts are then a little worse, and outputs the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tasc._native import sequence_tails
from tasc.decoding.core.protocols import Drafter
from tasc.decoding.drafters import Factory
from tasc.serving.drafts.batch import Step, step_for
from tasc.serving.drafts.policy import ChainPolicy, Plan

TAIL = 64  # tokens at the end of a sequence that, with its length, tell it from others


@dataclass(frozen=True)
class Sizes:
    """What an engine allows."""

    tokens: int  # of a draft, at most
    positions: int  # of a sequence, at most; a draft and the token after it must fit
    sequences: int  # drafters that are kept, at most; the one used longest ago goes first


@dataclass(eq=False, slots=True)
class Request:
    """One sequence's drafter, what made it, and what it drafted in its last step.

    That are so many tokens to verify, or one that the guard looks at.
    """

    drafter: Drafter
    factory: Factory
    drafted: int = 0
    probed: list[int] = field(default_factory=list)


Key = tuple[int, bytes]


def keys(tokens: np.ndarray, rows: list[int], lengths: list[int]) -> list[Key]:
    """Return what tells the first ``lengths[i]`` tokens of row ``rows[i]`` of ``tokens`` (R, P)."""
    if tokens.dtype == np.int32 and tokens.flags.c_contiguous:
        return list(zip(lengths, sequence_tails(tokens, rows, lengths, TAIL), strict=True))
    return slow_keys(tokens, rows, lengths)


def slow_keys(tokens: np.ndarray, rows: list[int], lengths: list[int]) -> list[Key]:
    """Return the same as ``keys`` for tokens of any layout."""
    return [
        (n, tokens[row, max(n - TAIL, 0) : n].tobytes())
        for row, n in zip(rows, lengths, strict=True)
    ]


class Requests:
    """Requests by the content of their sequences, no more than ``most``."""

    def __init__(self, most: int) -> None:
        """Keep at most ``most``."""
        self.most, self.count = most, 0
        self.by_key: dict[Key, list[Request]] = {}  # the ones used longest ago come first

    def __len__(self) -> int:
        """Return how many are kept."""
        return self.count

    def take(self, key: Key) -> Request | None:
        """Remove and return one that has read the sequence of ``key``, or None."""
        found = self.by_key.get(key)
        return self._pop(key, found, -1) if found else None

    def put(self, key: Key, request: Request) -> None:
        """Keep ``request``, which has read the sequence of ``key``; two may have read the same."""
        self.by_key.setdefault(key, []).append(request)
        self.count += 1
        while self.count > self.most:
            oldest = next(iter(self.by_key))
            self._pop(oldest, self.by_key[oldest], 0)

    def _pop(self, key: Key, found: list[Request], which: int) -> Request:
        self.count -= 1
        request = found.pop(which)
        if not found:
            del self.by_key[key]
        return request


class ChainProposer:
    """Drafts a chain for each row of an engine's batch, step after step.

    Rows whose output has ended are read first, so that a drafter that learns from outputs has
    learnt them before the others draft. The same calls in the same order give the same drafts.
    """

    def __init__(
        self,
        factory: Factory,
        end: int,
        sizes: Sizes,
        policy: ChainPolicy | None = None,
        step: Step | None = None,
        threads: int = 1,
    ) -> None:
        """Draft with what ``factory`` makes, one for each request; ``end`` ends an output.

        Without a ``guard`` every step drafts as much as it may. ``threads`` share a large step.
        """
        self.factory, self.end, self.sizes, self.policy = factory, end, sizes, policy
        self.step = step or step_for(factory(), threads)
        self.requests = Requests(sizes.sequences)
        self.spare: list[Drafter] = []  # of ended sequences, to begin others with

    def propose(
        self, new: Sequence[list[int]], lengths: Sequence[int], tokens: np.ndarray
    ) -> list[list[int]]:
        """Read a step and return a chain for each row, which may be empty.

        Args:
            new: the tokens that the step committed in each row; none: nothing to draft for yet.
            lengths: tokens of each row, the new ones included.
            tokens: (R, P) int32; row i holds ``tokens[i, :lengths[i]]``.
        """
        rows = [row for row, committed in enumerate(new) if len(committed)]
        read = [lengths[row] - len(new[row]) for row in rows]
        known = [
            self.requests.take(key) or self._begin(tokens[row, : key[0]])
            for row, key in zip(rows, keys(tokens, rows, read), strict=True)
        ]
        self._learn(known, [new[row] for row in rows])
        going: list[tuple[int, Request]] = []
        ended: list[tuple[int, Request]] = []
        for row, request in zip(rows, known, strict=True):
            (ended if self.end in new[row] else going).append((row, request))
        self._finish([(new[row], request) for row, request in ended])
        left = [row for row, _ in going]
        grown = [lengths[row] for row in left]
        plan = self.policy.plan(len(grown)) if self.policy else Plan(self.sizes.tokens, 0.0)
        room = self.sizes.positions - 1
        budgets = [min(plan.max_nodes, self.sizes.tokens, room - length) for length in grown]
        drafters = [request.drafter for _, request in going]
        chains = self.step(drafters, [new[row] for row in left], budgets, plan.min_probability)
        answer: list[list[int]] = [[] for _ in new]
        for (row, request), chain, key in zip(
            going, chains, keys(tokens, left, grown), strict=True
        ):
            answer[row], request.probed = ([], chain) if plan.is_probe else (chain, [])
            request.drafted = len(answer[row])
            self.requests.put(key, request)
        return answer

    def change(self, factory: Factory) -> None:
        """Begin requests with what ``factory`` makes; those under way keep what they have."""
        self.factory, self.spare = factory, []

    def _begin(self, prompt: np.ndarray) -> Request:
        drafter = self.spare.pop() if self.spare else self.factory()
        request = Request(drafter, self.factory)
        request.drafter.start(np.ascontiguousarray(prompt, np.int32))
        return request

    def _finish(self, ended: list[tuple[list[int], Request]]) -> None:
        """Read outputs to their ends, which are not kept: what follows is cut by the engine."""
        outputs = [tokens[: tokens.index(self.end) + 1] for tokens, _ in ended]
        self.step([request.drafter for _, request in ended], outputs, [0] * len(ended), 0)
        free = [request.drafter for _, request in ended if request.factory is self.factory]
        self.spare = (self.spare + free)[: self.sizes.sequences]

    def _learn(self, requests: list[Request], committed: list[list[int]]) -> None:
        if self.policy is None:
            return
        read = list(zip(requests, committed, strict=True))
        accepted = sum(len(new) - 1 for request, new in read if request.drafted)
        self.policy.record(len(read), sum(request.drafted for request in requests), accepted)
        hits = [request.probed[0] == new[0] for request, new in read if request.probed]
        if hits:
            self.policy.record_probe(len(hits), sum(hits))
