"""How many nodes a step drafts: a fixed number, or as many as pay on this device just now.

``Adaptive`` is both the sizing and the guard. It weighs what each node is likely to bring (the
drafter's own probabilities, corrected by recent acceptance) against what it costs (the measured
T(k), and the time of drafting), and it may only spend what it has saved, or a small allowance: so
drafting that never succeeds costs a bounded share of autoregressive decoding.
"""

import time
from typing import Protocol

import numpy as np

from tasc._native import Acceptance
from tasc.models.cost import CostCurve
from tasc.spec.draft import Draft
from tasc.spec.protocols import Drafter

ALLOWANCE = 0.01  # of autoregressive time, to find out whether drafting pays
CREDIT = 1.0  # one-token forwards: what may be spent before anything was saved
SAVINGS = 4.0  # one-token forwards: what may be lost again of what was saved
DECAY = 0.98  # of the present pace, a step
FIRST_DRAFT, MOST_NODES = 4, 64
FIRST_PAUSE, LAST_PAUSE = 16, 512  # steps without drafting once nothing is left to spend
NOTHING = Draft()


class Policy(Protocol):
    """Decides how much each step drafts. May serve many sequences, one after another."""

    def nodes(self, room: int) -> int:
        """Begin a step: how many nodes to ask the drafter for, ``room`` at most; 0: do not ask."""

    def choose(self, draft: Draft) -> Draft:
        """Return the part worth verifying of what the drafter answered, if it was asked."""

    def observe(self, settled: np.ndarray) -> None:
        """End the step: learn the tokens (k,) int32 that it settled."""


class Budgeted:
    """A drafter held to a policy: itself a drafter, so that the decoding loop need not know."""

    def __init__(self, drafter: Drafter, policy: Policy) -> None:
        """Let ``policy``, which sequences may share, decide for ``drafter``."""
        self.drafter, self.policy = drafter, policy

    def start(self, prompt: np.ndarray) -> None:
        """See Drafter.start."""
        self.in_step = False  # the prompt's first token is settled without one
        self.drafter.start(prompt)

    def draft(self, budget: int) -> Draft:
        """See Drafter.draft; may be less than the drafter would propose, or nothing."""
        self.in_step = True
        asked = self.policy.nodes(budget)
        return self.policy.choose(self.drafter.draft(asked)) if asked else NOTHING

    def observe(self, tokens: np.ndarray) -> None:
        """See Drafter.observe."""
        if self.in_step:
            self.policy.observe(tokens)
            self.in_step = False
        self.drafter.observe(tokens)


class Adaptive:
    """As many nodes as maximise expected accepted tokens per unit of time; none where none pay.

    An accepted token saves the time that a token takes at the present pace; a node costs what it
    adds to the forward. The account holds, in seconds, what drafting saved against autoregressive
    decoding, plus ALLOWANCE of its time; a step may not cost more than the account holds. Once it
    holds nothing, drafting pauses, twice as long each time, until a draft pays again. So n steps
    of drafts that all fail cost at most ALLOWANCE · n + CREDIT one-token forwards. The time spent
    in this class is charged like drafting.
    """

    def __init__(self, cost: CostCurve) -> None:
        """Size trees for a target of this ``cost``."""
        times = cost.at(np.arange(1, MOST_NODES + 2))
        self.forward = float(times[0])
        self.extra = times - times[0]  # [n]: seconds that n nodes add to a step
        self.acceptance = Acceptance()
        self.balance = CREDIT * self.forward
        self.pause, self.next_pause = 0, FIRST_PAUSE
        self.usual = 16.0  # nodes that recent steps found worthwhile, the larger ones
        self.per_node, self.overhead = _Typical(), _Typical()  # of drafting; of drafting and this
        self.time, self.tokens = self.forward, 1.0  # decayed: the present pace
        self.asked, self.added = 0, 0.0  # of this step: nodes, seconds that they add to the forward
        self.begun, self.busy = 0.0, 0.0  # of this step: the clock, seconds in drafter and policy
        self.drafted = NOTHING
        self.whole = True  # whether drafts are verified as they come, so that all is paid for

    def nodes(self, room: int) -> int:
        """See Policy.nodes: half as many again as were worthwhile lately, so that trees can grow.

        The first draft is small, as nobody knows yet what drafting costs; none may cost more to
        make than the account holds.
        """
        self.asked, self.added, self.busy, self.drafted = 0, 0.0, 0.0, NOTHING
        if self.pause > 0:
            self.pause -= 1
            return 0
        wanted = int(1.5 * self.usual) + 4 if self.per_node.known else FIRST_DRAFT
        if self.per_node.value * wanted > self.balance:
            wanted = max(int(self.balance / self.per_node.value), 1)
        if self.whole:
            wanted = min(wanted, int(np.searchsorted(self.extra, self.balance, "right")) - 1)
        self.asked = max(min(room, MOST_NODES, wanted), 0)
        self.begun = time.perf_counter()
        return self.asked

    def choose(self, draft: Draft) -> Draft:
        """See Policy.choose: the most probable nodes, as many as are worth their time."""
        self.per_node.add((time.perf_counter() - self.begun) / self.asked)
        if len(draft):
            self.drafted = draft
            self.whole = draft.q is not None
            nodes = self._worthwhile(draft)
            self.usual = max(len(nodes), 0.95 * self.usual)
            self.added = float(self.extra[len(nodes)])
            draft = _part(draft, nodes)
        self.busy = time.perf_counter() - self.begun
        return draft

    def _worthwhile(self, draft: Draft) -> np.ndarray:
        """Return the nodes (m,) int32, ascending, that bring the most beyond what they cost."""
        if draft.q is not None:
            # Drawn from laws: leaving some out by what they are would make rejection inexact.
            return np.arange(len(draft), dtype=np.int32)
        return self.acceptance.worthwhile(
            draft.tokens,
            draft.parents,
            draft.probabilities,
            self.extra,
            pace=min(self.time / self.tokens, self.forward),
            per_node=self.per_node.value,
            limit=self.balance,
        )

    def observe(self, settled: np.ndarray) -> None:
        """See Policy.observe."""
        drafted = self.drafted
        if len(drafted):
            begin = time.perf_counter()
            self.acceptance.learn(drafted.tokens, drafted.parents, drafted.probabilities, settled)
            self.busy += time.perf_counter() - begin
        spent = self.added
        if self.asked:
            self.overhead.add(self.busy)
            spent += self.overhead.value
        self.time = DECAY * self.time + self.forward + spent
        self.tokens = DECAY * self.tokens + len(settled)
        saved = (len(settled) - 1) * self.forward - spent
        self._book(saved, ALLOWANCE * self.forward * len(settled))

    def _book(self, saved: float, allowance: float) -> None:
        """Enter a step into the account; pause when it cannot pay for a single node."""
        self.balance = min(self.balance + saved, SAVINGS * self.forward)
        if self.balance < CREDIT * self.forward:
            self.balance = min(self.balance + allowance, CREDIT * self.forward)
        if saved > 0:
            self.next_pause = FIRST_PAUSE
        elif self.pause == 0 and self.balance <= self.extra[1]:
            self.pause, self.next_pause = self.next_pause, min(2 * self.next_pause, LAST_PAUSE)


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
    if nodes[-1] == count - 1:  # the first ones: no parent changes its place
        first = slice(count)
        return Draft(
            draft.tokens[first],
            draft.parents[first],
            probabilities=None if given is None else given[first],
        )
    place = np.full(len(draft) + 1, -1, np.int32)  # the appended one is found by parent -1
    place[nodes] = np.arange(count, dtype=np.int32)
    return Draft(
        draft.tokens[nodes],
        place[draft.parents[nodes]],
        probabilities=None if given is None else given[nodes],
    )
