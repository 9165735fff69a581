"""How many nodes a step drafts: as many as pay on this device just now.

``Budgeted`` holds a drafter to a policy, ``adaptive.py``, which decides.
"""

import time

import numpy as np

from tasc.decoding.adaptive import Adaptive
from tasc.decoding.core.draft import Draft
from tasc.decoding.core.protocols import Drafter, HasCostlyDrafts
from tasc.decoding.joint import MOST_NODES

FIRST_DRAFT = 4
NOTHING = Draft()


class Budgeted:
    """A drafter held to a policy: itself a drafter, so that the decoding loop need not know."""

    def __init__(self, drafter: Drafter, policy: Adaptive) -> None:
        """Let ``policy``, which sequences may share, decide for ``drafter``."""
        self.drafter, self.policy = drafter, policy
        self.spends = drafter if isinstance(drafter, HasCostlyDrafts) else None

    def start(self, prompt: np.ndarray) -> None:
        """See Drafter.start."""
        self.in_step = False  # the prompt's first token is committed without one
        self.policy.open = 0  # sequences begin between steps
        self.drafter.start(prompt)

    def draft(self, max_nodes: int) -> Draft:
        """See Drafter.draft; may be less than the drafter would propose, or nothing."""
        self.in_step = True
        self.held, self.busy, self.drafted, self.given = 0.0, 0.0, NOTHING, NOTHING
        self.looked: Draft | None = None
        self.policy.enter()
        self.others = self.nodes = self.policy.width
        self.asked = self._nodes(max_nodes)
        if self.spends is not None:
            self.spends.max_seconds = self.policy.balance
        self.begun = time.perf_counter()
        draft = self._choose(self.drafter.draft(self.asked)) if self.asked else NOTHING
        if not self.asked and max_nodes > 0 and self.policy.looks():
            self._look()
        self.policy.ready = time.perf_counter()
        return draft

    def _nodes(self, room: int) -> int:
        """Return how many nodes to ask for: half as many again as were worthwhile lately.

        So trees can grow; in a batch they are all of one size. The first draft is small, as nobody
        knows yet what drafting costs; none may cost more to make than the account holds.
        """
        policy, per_node = self.policy, self.policy.per_node
        if policy.plain > 0 or policy.pause > 0 or policy.balance < 0:
            policy.decided["plain" if policy.plain > 0 else "paused"] += 1
            policy.pause = max(policy.pause - 1, 0)
            return 0
        wanted = int(1.5 * policy.usual) + 4 if per_node.known else FIRST_DRAFT
        if policy.sequences > 1:
            wanted = policy.joint.width
        if per_node.value * wanted > policy.balance:
            wanted = max(int(policy.balance / per_node.value), 1)
        if policy.whole:
            wanted = min(wanted, int(np.searchsorted(policy.beyond, policy.balance, "right")) - 1)
        return max(min(room, MOST_NODES, wanted), 0)

    def _choose(self, draft: Draft) -> Draft:
        """Return the most probable nodes, as many as are worth their time."""
        policy = self.policy
        if not self.long:  # the time of asking another drafter is none of a node's
            policy.per_node.add((time.perf_counter() - self.begun) / self.asked)
        if len(draft):
            self.drafted = draft
            policy.whole = draft.q is not None
            nodes = policy.worthwhile(draft)
            policy.decided["drafted" if len(nodes) else "not worth it"] += 1
            policy.usual = max(len(nodes), 0.95 * policy.usual)
            self.held = float(policy.beyond[len(nodes)])
            policy.balance -= self.held  # held back from the others, till it is booked
            self.nodes = policy.width = max(policy.width, len(nodes))
            draft = self.given = _part(draft, nodes)
        self.busy = time.perf_counter() - self.begun
        return draft

    def _look(self) -> None:
        """Draft a token that is not scored; no other drafter is asked."""
        if self.spends is not None:
            self.spends.max_seconds = 0.0
        self.looked = self.drafter.draft(1)
        self.busy = time.perf_counter() - self.begun

    @property
    def long(self) -> bool:
        """Whether the last draft was of a kind that takes longer."""
        return self.spends is not None and self.spends.was_costly

    def observe(self, tokens: np.ndarray) -> None:
        """See Drafter.observe."""
        if self.in_step:
            self.in_step = False
            policy, begin = self.policy, time.perf_counter()
            policy.scored()
            if self.asked and policy.sequences > 1:
                policy.joint.learn(self.given, self.asked, tokens)
            if len(drafted := self.drafted):
                given = drafted.tokens, drafted.parents, drafted.probabilities
                policy.acceptance.learn(*given, tokens)
            self.busy += time.perf_counter() - begin
            spent = float(policy.adds[self.nodes] - policy.adds[self.others])
            if self.looked is not None:
                policy.looked(self.looked, tokens, self.busy)
                spent += policy.look.value
            if self.asked:
                policy.overhead[self.long].add(self.busy)
                spent += policy.overhead[self.long].value
                if self.long:  # what one took beyond what it was thought to take is not owed
                    spent = min(spent, max(policy.balance + self.held, policy.adds[self.nodes]))
            policy.leave(len(tokens), self.held, spent)
        self.drafter.observe(tokens)


def _part(draft: Draft, nodes: np.ndarray) -> Draft:
    """Return the tree of ``nodes`` (m,) int32, ascending, each with its parent among them."""
    count, given = len(nodes), draft.probabilities
    if count == len(draft):
        return draft
    if count == 0:
        return NOTHING
    position = np.full(len(draft) + 1, -1, np.int32)  # the appended one is found by parent -1
    position[nodes] = np.arange(count, dtype=np.int32)
    return Draft(
        draft.tokens[nodes],
        position[draft.parents[nodes]],
        probabilities=None if given is None else given[nodes],
    )
