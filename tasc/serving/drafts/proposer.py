"""Chains for the requests of a serving engine, from tokens alone. Imports no engine.

An engine may report neither when a request begins or ends nor which request a row is (rows move
between steps), but it always passes the tokens of each row. So a request's drafter is found by the
length and the last tokens of its sequence. An unknown sequence starts a new drafter with its tokens
so far as the prompt; drafts are then slightly worse, and outputs the same.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tasc._native import sequence_tails
from tasc.decoding.core.protocols import Drafter
from tasc.decoding.drafters import Factory
from tasc.decoding.policy import Batch, Chains, Policy, Step
from tasc.serving.drafts.batch import step_for

TAIL = 64  # last tokens of a sequence that, with its length, identify it
Key = tuple[int, bytes]


@dataclass(frozen=True)
class Sizes:
    """Limits of an engine."""

    tokens: int  # per draft
    positions: int  # per sequence; a draft and the token after it must fit
    sequences: int  # drafters kept; the least recently used one is dropped first
    vocabulary: int = 1 << 31  # a draft ends before an id that is not below this

    def drafted(self, chain: list[int]) -> list[int]:
        """Return ``chain`` up to its first id outside of the vocabulary (an image, padding)."""
        if not chain or (min(chain) >= 0 and max(chain) < self.vocabulary):
            return chain
        return chain[: [0 <= token < self.vocabulary for token in chain].index(False)]


@dataclass(eq=False, slots=True)
class Request:
    """One sequence's drafter, its factory, and its last draft.

    A draft is either a number of proposed tokens, or a probed one.
    """

    drafter: Drafter
    factory: Factory
    drafted: int = 0
    probed: list[int] = field(default_factory=list)


def keys(tokens: np.ndarray, rows: list[int], lengths: list[int]) -> list[Key]:
    """Return keys of the first ``lengths[i]`` tokens of row ``rows[i]`` of ``tokens`` (R, P)."""
    whole = np.ascontiguousarray(tokens, np.int32)
    return list(zip(lengths, sequence_tails(whole, rows, lengths, TAIL), strict=True))


class Requests:
    """At most ``most`` requests, by the content of their sequences."""

    def __init__(self, most: int) -> None:
        self.most, self.count = most, 0
        self.by_key: dict[Key, list[Request]] = {}  # least recently used first

    def take(self, key: Key, which: int = -1) -> Request | None:
        """Remove and return a request whose drafter has read the sequence of ``key``, or None."""
        requests = self.by_key.get(key)
        if not requests:
            return None
        self.count -= 1
        request = requests.pop(which)
        if not requests:
            del self.by_key[key]
        return request

    def put(self, key: Key, request: Request) -> None:
        """Store ``request``, whose drafter has read the sequence of ``key``, maybe not alone."""
        self.by_key.setdefault(key, []).append(request)
        self.count += 1
        while self.count > self.most:
            self.take(next(iter(self.by_key)), 0)


class ChainProposer:
    """Drafts a chain for each row of an engine's batch, step after step.

    Ended outputs are read first, so that drafters that learn from outputs know them before the
    others draft. The same calls in the same order give the same drafts.
    """

    def __init__(
        self,
        factory: Factory,
        end: int,
        sizes: Sizes,
        policy: Policy | None = None,
        *,
        threads: int = 1,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """Make one drafter of ``factory`` per request; ``end`` is the end token.

        Without a ``policy`` every step drafts as much as it may. With a ``clock`` it learns the
        times of the engine's steps; without one, drafts depend only on the requests and their
        order. ``threads`` share a large step. ``use`` sets more factories, and ``route`` names the
        one for a prompt.
        """
        self.end, self.sizes, self.policy, self.clock = end, sizes, policy, clock
        self.began: tuple[int, float] | None = None  # sequences of the forward that runs, and when
        self.step = step_for(factory(), threads)
        self.requests = Requests(sizes.sequences)
        self.spare: dict[Factory, list[Drafter]] = {}  # of ended sequences, to be reused
        self.route: Callable[[np.ndarray], str] = lambda _: ""
        self.use({"": factory})
        self.ended = 0  # outputs read up to their end token

    def propose(
        self, new: Sequence[list[int]], lengths: Sequence[int], tokens: np.ndarray
    ) -> list[list[int]]:
        """Read a step and return a chain for each row, which may be empty.

        Args:
            new: committed tokens of each row; a row without any gets no draft yet.
            lengths: number of tokens of each row, including the new ones.
            tokens: (R, P) int32; row i holds ``tokens[i, :lengths[i]]``.
        """
        rows = [row for row, committed in enumerate(new) if len(committed)]
        read = [lengths[row] - len(new[row]) for row in rows]
        taken = [self.requests.take(key) for key in keys(tokens, rows, read)]
        forward = self._forward(0 if None in taken or len(rows) < len(new) else len(rows))
        requests = [
            request or self._begin(tokens[row, :length])
            for request, row, length in zip(taken, rows, read, strict=True)
        ]
        self._learn(requests, [new[row] for row in rows], forward)
        going = list[tuple[int, Request]]()
        ended = list[tuple[int, Request]]()
        for row, request in zip(rows, requests, strict=True):
            (ended if self.end in new[row] else going).append((row, request))
        self._finish([(new[row], request) for row, request in ended])
        left = [row for row, _ in going]
        grown = [lengths[row] for row in left]
        limits = Chains(self.sizes.tokens, 0.0)
        if self.policy is not None:
            limits = self.policy.plan(Batch(len(grown))).chains()
        room = self.sizes.positions - 1
        budgets = [min(limits.max_nodes, self.sizes.tokens, room - length) for length in grown]
        drafters = [request.drafter for _, request in going]
        chains = self.step(drafters, [new[row] for row in left], budgets, limits.min_probability)
        proposed: list[list[int]] = [[] for _ in new]
        after = keys(tokens, left, grown)
        for (row, request), chain, key in zip(going, chains, after, strict=True):
            chain = self.sizes.drafted(chain)
            proposed[row], request.probed = ([], chain) if limits.is_probe else (chain, [])
            request.drafted = len(proposed[row])
            self.requests.put(key, request)
        self.began = None if self.clock is None else (len(left), self.clock())
        return proposed

    def use(self, factories: Mapping[str, Factory]) -> None:
        """Use these factories for new requests; running ones keep their drafters."""
        self.factories = dict(factories)
        self.spare = {factory: self.spare.get(factory, []) for factory in factories.values()}

    def _begin(self, prompt: np.ndarray) -> Request:
        factory = self.factories[self.route(prompt)]
        spare = self.spare[factory]
        drafter = spare.pop() if spare else factory()
        drafter.start(np.ascontiguousarray(prompt, np.int32))
        return Request(drafter, factory)

    def _finish(self, ended: list[tuple[list[int], Request]]) -> None:
        """Read outputs up to their end token: the engine cuts the rest."""
        outputs = [tokens[: tokens.index(self.end) + 1] for tokens, _ in ended]
        self.step([request.drafter for _, request in ended], outputs, [0] * len(ended), 0)
        self.ended += len(ended)
        for _, request in ended:
            spare = self.spare.get(request.factory)
            if spare is not None and len(spare) < self.sizes.sequences:
                spare.append(request.drafter)

    def _forward(self, sequences: int) -> float | None:
        """Return the seconds since the last step if it had the same number of sequences.

        A step that read a prompt is no measure: pass 0.
        """
        if self.clock is None or self.began is None or sequences != self.began[0]:
            return None
        return self.clock() - self.began[1] if sequences else None

    def _learn(
        self, requests: list[Request], committed: list[list[int]], forward: float | None
    ) -> None:
        if self.policy is None:
            return
        read = list(zip(requests, committed, strict=True))
        hits = [request.probed[0] == new[0] for request, new in read if request.probed]
        self.policy.record(
            Step(
                sequences=len(read),
                drafted=sum(request.drafted for request in requests),
                accepted=sum(len(new) - 1 for request, new in read if request.drafted),
                probed=len(hits),
                hits=sum(hits),
                forward=forward,
            )
        )
