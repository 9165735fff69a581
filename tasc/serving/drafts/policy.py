"""Adaptive drafting for engine plug-ins: one plan per step for all requests of the batch.

There is no clock here: drafts depend only on the requests and their order. Time is counted in
forwards of the present batch.
"""

from dataclasses import dataclass
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

    def __init__(self, cost: CostModel) -> None:
        self.account = Account()
        # Number of sequences -> cost of a token of each. Interpolating takes µs in every step.
        self.token_cost = cache(cost.token_cost)

    def plan(self, sequences: int) -> Plan:
        """Begin a step of ``sequences`` sequences."""
        cost, account = self.token_cost(sequences), self.account
        max_nodes = 0 if account.is_paused() else int(account.balance / max(cost, 1e-9))
        if max_nodes <= 0 and account.should_probe(PROBE_COST):
            return Plan(1, 0.0, is_probe=True)
        return Plan(max(max_nodes, 0), cost)

    def record(self, sequences: int, drafted: int, accepted: int) -> None:
        """Record a step: the tokens drafted and accepted in all of its sequences."""
        if not sequences:
            return
        cost, account = self.token_cost(sequences), self.account
        account.drafted = account.drafted or drafted > 0
        saved = (accepted - cost * drafted) / sequences
        account.record(saved, 1 + accepted / sequences, account.least(cost))

    def record_probe(self, sequences: int, hits: int) -> None:
        """Record a probe of one token per sequence, of which ``hits`` were right."""
        self.account.record_probe(hits / sequences, self.token_cost(sequences))
