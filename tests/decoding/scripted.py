"""Drafters that propose given drafts, and a loop that decodes a given text without a model."""

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


class Scripted(Autoregressive):
    """Proposes the same draft at every step, cut to the budget."""

    def __init__(self, draft: Draft) -> None:
        self.proposal, self.asked = draft, []

    def draft(self, max_nodes):
        self.asked.append(max_nodes)
        given = self.proposal.probabilities
        return Draft(
            self.proposal.tokens[:max_nodes],
            self.proposal.parents[:max_nodes],
            probabilities=None if given is None else given[:max_nodes],
        )


class Whole(Scripted):
    """Proposes the same draft, whatever the budget."""

    def draft(self, max_nodes):
        return self.proposal


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


def once(drafter, policy):
    """Return the first draft of a sequence."""
    budgeted = AdaptiveDrafter(drafter, policy)
    budgeted.start(ints(1))
    return budgeted.draft(64)


def accepted(draft, truth):
    """Count the tokens of ``truth`` that a path of the draft spells."""
    at = -1
    for i, token in enumerate(truth.tolist()):
        matching = (draft.parents == at) & (draft.tokens == token)
        if not matching.any():
            return i
        at = int(matching.argmax())
    return len(truth)


def decode(drafter, policy, truth, room=64):
    """Decode ``truth`` greedily; return the nodes and tokens of each step, and the model time."""
    budgeted = AdaptiveDrafter(drafter, policy)
    budgeted.start(ints(1))
    budgeted.observe(truth[:1])
    at, steps, seconds = 1, [], 0.0
    while at < len(truth):
        draft = budgeted.draft(room)
        committed = truth[at : at + accepted(draft, truth[at:-1]) + 1]
        budgeted.observe(committed)
        at += len(committed)
        steps.append((len(draft), len(committed)))
        seconds += float(COST.at(len(draft) + 1))
    return steps, seconds
