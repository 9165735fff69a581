"""How many nodes a step drafts: as many as pay on this device just now.

``Adaptive`` is both the sizing and the guard. It weighs what each node is likely to bring (the
drafter's own probabilities, corrected by recent acceptance) against what it costs (the measured
T(k), and the time of drafting), and it may only spend what it has saved, or a small allowance: so
drafting that never succeeds costs a bounded share of autoregressive decoding.
"""

import time

import numpy as np

from tasc._native import Acceptance
from tasc.decoding.core.draft import Draft
from tasc.decoding.core.protocols import Drafter
from tasc.models.cost import CostCurve

ALLOWANCE = 0.01  # of autoregressive time, to find out whether drafting pays
CREDIT = 1.0  # forwards without drafts: what may be spent before anything was saved
SAVINGS = 4.0  # forwards without drafts: what may be lost again of what was saved
DECAY = 0.98  # of the present pace, a step
FIRST_DRAFT, MOST_NODES = 4, 64
FIRST_PAUSE, LAST_PAUSE = 16, 512  # steps without drafting once nothing is left to spend
NOTHING = Draft()


class Adaptive:
    """As many nodes as maximise expected accepted tokens per unit of time; none where none pay.

    An accepted token saves the time that a token takes at the present pace; a node costs what it
    adds to the forward. The account holds, in seconds, what drafting saved against autoregressive
    decoding, plus ALLOWANCE of its time; a step may not cost more than the account holds. Once it
    holds nothing, drafting pauses, twice as long each time, until a draft pays again. So n steps
    of drafts that all fail cost at most ALLOWANCE · n + CREDIT forwards without any. The time spent
    in this class is charged like drafting.

    A forward of B sequences, padded to n nodes each, takes T(B · (1 + n)), of which a sequence's
    share is one part in B. Nodes are weighed by that share, as if all drafted alike; but who drafts
    more than those before it in a step pays all that this adds, and no more nodes than these have
    cost nothing. So what is charged for a step is what it costs. B is that of the step before.
    """

    def __init__(self, cost: CostCurve) -> None:
        """Size trees for a target of this ``cost``."""
        self.cost = cost
        self.begun = self.open = 0  # sequences that began this step, and did not end it yet
        self.width = 0  # nodes of the largest draft of this step
        self.acceptance = Acceptance()
        self.together = float(cost.at(1))  # seconds of a step without drafts
        self.balance = CREDIT * self.together
        self._share(1)
        self.pause, self.next_pause = 0, FIRST_PAUSE
        self.usual = 16.0  # nodes that recent steps found worthwhile, the larger ones
        self.per_node, self.overhead = _Typical(), _Typical()  # of drafting; of drafting and this
        self.time, self.tokens = self.forward, 1.0  # decayed: the present pace
        self.whole = True  # whether drafts are verified as they come, so that all is paid for

    def _share(self, sequences: int) -> None:
        """Let so many sequences share a step; what the account holds is worth as many of them."""
        times = self.cost.at(sequences * np.arange(1, MOST_NODES + 2))
        self.balance *= float(times[0]) / self.together
        self.sequences, self.together = sequences, float(times[0])
        self.forward = self.together / sequences
        self.adds = times - times[0]  # [n]: seconds that n nodes a sequence add to a step

    def enter(self) -> None:
        """Begin one sequence's part of a step; those of a batch are under way at a time."""
        if self.open == 0:
            if self.begun not in (0, self.sequences):
                self._share(self.begun)
            self.begun = self.width = 0
        self.begun, self.open = self.begun + 1, self.open + 1

    @property
    def beyond(self) -> np.ndarray:
        """[n]: seconds that n nodes add to the step beyond the drafts that it has, (65,)."""
        found: np.ndarray = np.maximum(self.adds - self.adds[self.width], 0)
        return found

    def worthwhile(self, draft: Draft) -> np.ndarray:
        """Return the nodes (m,) int32, ascending, that bring the most beyond what they cost."""
        if draft.q is not None:
            # Drawn from distributions: leaving some out by what they are would make rejection
            # inexact.
            return np.arange(len(draft), dtype=np.int32)
        return self.acceptance.worthwhile(
            draft.tokens,
            draft.parents,
            draft.probabilities,
            self.beyond / self.sequences,
            pace=min(self.time / self.tokens, self.forward),
            per_node=self.per_node.value,
            limit=self.balance / self.sequences,
        )

    def leave(self, committed: int, added: float, spent: float) -> None:
        """End a part that committed so many tokens: enter it into the account.

        ``added`` was held back for its nodes; ``spent`` is that and the time of drafting them.
        Pause when the account cannot pay for a single node.
        """
        self.open -= 1
        self.time = DECAY * self.time + self.forward + spent
        self.tokens = DECAY * self.tokens + committed
        saved = (committed - 1) * self.forward - spent
        self.balance = min(self.balance + added + saved, SAVINGS * self.together)
        if self.balance < CREDIT * self.together:
            allowance = ALLOWANCE * self.forward * committed
            self.balance = min(self.balance + allowance, CREDIT * self.together)
        if saved > 0:
            self.next_pause = FIRST_PAUSE
        elif self.pause == 0 and self.balance <= self.adds[1]:
            self.pause, self.next_pause = self.next_pause, min(2 * self.next_pause, LAST_PAUSE)


class Budgeted:
    """A drafter held to a policy: itself a drafter, so that the decoding loop need not know."""

    def __init__(self, drafter: Drafter, policy: Adaptive) -> None:
        """Let ``policy``, which sequences may share, decide for ``drafter``."""
        self.drafter, self.policy = drafter, policy

    def start(self, prompt: np.ndarray) -> None:
        """See Drafter.start."""
        self.in_step = False  # the prompt's first token is committed without one
        self.policy.open = 0  # sequences begin between steps
        self.drafter.start(prompt)

    def draft(self, budget: int) -> Draft:
        """See Drafter.draft; may be less than the drafter would propose, or nothing."""
        self.in_step = True
        self.added, self.busy, self.drafted = 0.0, 0.0, NOTHING
        self.policy.enter()
        self.asked = self._nodes(budget)
        self.begun = time.perf_counter()
        return self._choose(self.drafter.draft(self.asked)) if self.asked else NOTHING

    def _nodes(self, room: int) -> int:
        """Return how many nodes to ask for: half as many again as were worthwhile lately.

        So trees can grow. The first draft is small, as nobody knows yet what drafting costs; none
        may cost more to make than the account holds.
        """
        policy, per_node = self.policy, self.policy.per_node
        if policy.pause > 0:
            policy.pause -= 1
            return 0
        wanted = int(1.5 * policy.usual) + 4 if per_node.known else FIRST_DRAFT
        if per_node.value * wanted > policy.balance:
            wanted = max(int(policy.balance / per_node.value), 1)
        if policy.whole:
            wanted = min(wanted, int(np.searchsorted(policy.beyond, policy.balance, "right")) - 1)
        return max(min(room, MOST_NODES, wanted), 0)

    def _choose(self, draft: Draft) -> Draft:
        """Return the most probable nodes, as many as are worth their time."""
        policy = self.policy
        policy.per_node.add((time.perf_counter() - self.begun) / self.asked)
        if len(draft):
            self.drafted = draft
            policy.whole = draft.q is not None
            nodes = policy.worthwhile(draft)
            policy.usual = max(len(nodes), 0.95 * policy.usual)
            self.added = float(policy.beyond[len(nodes)])
            policy.balance -= self.added  # held back from the others, till it is booked
            policy.width = max(policy.width, len(nodes))
            draft = _part(draft, nodes)
        self.busy = time.perf_counter() - self.begun
        return draft

    def observe(self, tokens: np.ndarray) -> None:
        """See Drafter.observe."""
        if self.in_step:
            self.in_step = False
            policy, begin = self.policy, time.perf_counter()
            if len(drafted := self.drafted):
                given = drafted.tokens, drafted.parents, drafted.probabilities
                policy.acceptance.learn(*given, tokens)
                self.busy += time.perf_counter() - begin
            spent = self.added
            if self.asked:
                policy.overhead.add(self.busy)
                spent += policy.overhead.value
            policy.leave(len(tokens), self.added, spent)
        self.drafter.observe(tokens)


class _Typical:
    """A running median of times: what else runs on the machine must not be charged to drafting."""

    def __init__(self) -> None:
        self.value, self.known = 0.0, False

    def add(self, seconds: float) -> None:
        """Begin with the first; then step a fifth towards each."""
        if not self.known:
            self.value, self.known = seconds, True
        else:
            self.value *= 1.2 if seconds > self.value else 1 / 1.2


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
