"""Adaptive drafting for engine plug-ins: one plan per step for all requests of the batch.

Time is counted in forwards of the present batch. Without a clock, drafts depend only on the
requests and their order. With one, the times of the engine's steps raise the cost of a token.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

from tasc.decoding.core.account import Account
from tasc.models.cost_model import CostModel

PROBE_COST = 0.02  # forwards: one step in four of a pause probes


@dataclass(frozen=True)
class Plan:
    """What each sequence may draft in a step."""

    max_nodes: int
    min_probability: float  # of a token's path
    is_probe: bool = False  # drafted tokens are compared with the output, and not verified


class ChainPolicy:
    """Limits the chains of a batch, so that the time lost to failed drafts is bounded.

    An accepted token saves its sequence a forward; a drafted token makes the forward longer.
    """

    def __init__(self, cost: CostModel, clock: Callable[[], float] | None = None) -> None:
        self.account, self.cost, self.clock = Account(), cost, clock
        assumed = replace(cost)  # a floor: a few noisy times could make tokens look free

        # Number of sequences -> cost of a token of each. Interpolating takes µs in every step.
        @cache
        def token_cost(sequences: int) -> float:
            least = assumed.token_cost(max(sequences, 1))
            return max(cost.token_cost(max(sequences, 1)), least) if clock else least

        self.token_cost = token_cost
        self.last = (0, 0, 0.0)  # sequences and tokens of the last step, and when it began

    def start(self, sequences: int, drafted: int) -> None:
        """Note the start of a forward over ``sequences`` sequences and ``drafted`` more tokens."""
        if self.clock is not None:
            self.last = (sequences, sequences + drafted, self.clock())

    def stop(self, sequences: int) -> None:
        """Correct the cost model by the last step if it had ``sequences`` sequences."""
        started, tokens, begin = self.last
        if self.clock is None or sequences != started or not sequences:
            return
        if self.cost.record(tokens, self.clock() - begin):
            self.token_cost.cache_clear()

    def plan(self, sequences: int) -> Plan:
        cost, account = self.token_cost(sequences), self.account
        max_nodes = 0 if account.is_paused() else int(account.balance / max(cost, 1e-9))
        if max_nodes <= 0 and account.should_probe(PROBE_COST):
            return Plan(1, 0.0, is_probe=True)
        return Plan(max(max_nodes, 0), cost)

    def record(self, sequences: int, drafted: int, accepted: int) -> None:
        if not sequences:
            return
        cost, account = self.token_cost(sequences), self.account
        account.drafted = account.drafted or drafted > 0
        saved = (accepted - cost * drafted) / sequences
        account.record(saved, 1 + accepted / sequences, account.least(cost))

    def record_probe(self, sequences: int, hits: int) -> None:
        """Record a probe of one token per sequence, of which ``hits`` were right."""
        self.account.record_probe(hits / sequences, self.token_cost(sequences))
