"""Drafters that propose given drafts, and a loop that decodes given texts without a model."""

import time

import numpy as np

from tasc.decoding.core.draft import Draft, chain
from tasc.decoding.core.protocols import NO_NEEDS
from tasc.decoding.drafters.none import Autoregressive
from tasc.decoding.policy import Batch
from tasc.models.cost_model import CostModel

# 10 ms per forward, 1 ms more for every node
COST = CostModel((1, 65), (0.010, 0.074))


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def paths(draft: Draft) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = [()]
    for token, parent in zip(draft.tokens.tolist(), draft.parents.tolist(), strict=True):
        found.append((*found[parent + 1], token))
    return found[1:]


class Scripted(Autoregressive):
    """Proposes the same draft at every step, cut to the budget; it notes each request."""

    def __init__(self, draft: Draft) -> None:
        self.proposal, self.steps = draft, 0
        self.asked: list[int] = []
        self.asked_at: list[int] = []

    def draft(self, max_nodes):
        self.asked.append(max_nodes)
        self.asked_at.append(self.steps)
        return self.proposal.subtree(np.arange(min(max_nodes, len(self.proposal))))

    def observe(self, tokens):
        self.steps += 1


class Timed(Scripted):
    """Takes ``seconds`` per draft, and ``per_node`` more for every requested node."""

    def __init__(self, draft: Draft, clock: list[float], seconds=0.0, per_node=0.0) -> None:
        super().__init__(draft)
        self.clock, self.seconds, self.per_node = clock, seconds, per_node

    def draft(self, max_nodes):
        self.clock[0] += self.seconds + self.per_node * max_nodes
        return super().draft(max_nodes)


class Excessive(Autoregressive):
    """Proposes one node too many."""

    def draft(self, max_nodes):
        return chain(np.ones(max_nodes + 1, np.int32))


class Fixed:
    """Drafts one given continuation of the whole output, right or wrong."""

    needs = NO_NEEDS

    def __init__(self, output: np.ndarray) -> None:
        self.output = output

    def start(self, prompt):
        self.done = 0

    def draft(self, max_nodes):
        return chain(self.output[self.done : self.done + max_nodes])

    def observe(self, tokens):
        self.done += len(tokens)


class Loop:
    """The decoding loop without a model: rows that draft by one policy, and observe the tokens."""

    def __init__(self, policy, *drafters) -> None:
        self.policy, self.drafters = policy, drafters

    def draft(self, room=64, prompt=0):
        """Return the draft of each row; the step reads ``prompt`` tokens first."""
        self.plan = self.policy.plan(Batch(len(self.drafters), prompt))
        parts = [self.plan.draft(drafter, room) for drafter in self.drafters]
        self.drafted_at = time.perf_counter()
        return [part.scored for part in parts]

    def commit(self, *rows, seconds=None):
        """Commit the tokens (k,) of each row; the whole step took ``seconds``, or the forward."""
        forward = time.perf_counter() - self.drafted_at
        self.policy.record(self.plan.step(rows, forward, seconds or forward))
        for drafter, tokens in zip(self.drafters, rows, strict=True):
            drafter.observe(tokens)


def decode(drafter, policy, truth, room=64):
    """Decode ``truth`` greedily; return the nodes and tokens of each step, and the model time."""
    steps, seconds = decode_together([drafter], policy, [truth], room=room)
    return [step for (step,) in steps], seconds


def decode_together(drafters, policy, truths, cost=COST, room=64):
    """Decode the ``truths`` together; return each row's (nodes, tokens) per step, and the time."""
    loop = Loop(policy, *drafters)
    for drafter, truth in zip(drafters, truths, strict=True):
        drafter.start(ints(1))
        drafter.observe(truth[:1])
    at, steps, seconds = [1] * len(drafters), [], 0.0
    while all(n < len(truth) for n, truth in zip(at, truths, strict=True)):
        drafts = loop.draft(room)
        counts, committed = [], []
        for i, (draft, truth) in enumerate(zip(drafts, truths, strict=True)):
            accepted = len(draft.path_of(truth[at[i] : -1]))
            committed.append(truth[at[i] : at[i] + accepted + 1])
            at[i] += accepted + 1
            counts.append((len(draft), accepted + 1))
        loop.commit(*committed)
        steps.append(counts)
        seconds += float(cost.at(len(drafters) + sum(map(len, drafts))))
    return steps, seconds
