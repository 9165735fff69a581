"""Drafters that propose given drafts, and a loop that decodes given texts without a model."""

import numpy as np

from tasc.decoding.adaptive import AdaptiveDrafter
from tasc.decoding.core.draft import Draft, chain
from tasc.decoding.drafters.none import Autoregressive
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

    def __init__(self, output: np.ndarray) -> None:
        self.output = output

    def start(self, prompt):
        self.done = 0

    def draft(self, max_nodes):
        return chain(self.output[self.done : self.done + max_nodes])

    def observe(self, tokens):
        self.done += len(tokens)


def decode(drafter, policy, truth, room=64):
    """Decode ``truth`` greedily; return the nodes and tokens of each step, and the model time."""
    steps, seconds = decode_together([drafter], policy, [truth], room=room)
    return [step for (step,) in steps], seconds


def decode_together(drafters, policy, truths, cost=COST, room=64):
    """Decode the ``truths`` together; return each row's (nodes, tokens) per step, and the time."""
    rows = [AdaptiveDrafter(drafter, policy) for drafter in drafters]
    for row, truth in zip(rows, truths, strict=True):
        row.start(ints(1))
        row.observe(truth[:1])
    at, steps, seconds = [1] * len(rows), [], 0.0
    while all(n < len(truth) for n, truth in zip(at, truths, strict=True)):
        drafts = [row.draft(room) for row in rows]
        counts = []
        for i, (row, draft, truth) in enumerate(zip(rows, drafts, truths, strict=True)):
            accepted = len(draft.path_of(truth[at[i] : -1]))
            row.observe(truth[at[i] : at[i] + accepted + 1])
            at[i] += accepted + 1
            counts.append((len(draft), accepted + 1))
        steps.append(counts)
        seconds += float(cost.at(len(rows) + sum(map(len, drafts))))
    return steps, seconds
