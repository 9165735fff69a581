"""Adaptive drafting (``budget=auto``): as many nodes per step as pay on this device.

``Account`` bounds the cost of drafts that always fail.
"""

import time
from collections import Counter
from dataclasses import dataclass

import numpy as np

from tasc._native import Acceptance
from tasc.decoding.core.account import Account, Pace, Typical
from tasc.decoding.core.draft import Draft
from tasc.decoding.core.protocols import Drafter, HasCostlyDrafts, inner
from tasc.models.cost_model import CostModel, Seconds

MOST_NODES = 64  # of a draft
FIRST_DRAFT = 4  # nodes, while the cost of drafting is unknown
FIRST_TRIAL, LAST_TRIAL = 4, 256  # steps between trials
SURPRISE = 0.2  # relative change of a time that contradicts the model
SELDOM = 4  # of the many steps without drafts, one in four is recorded
PLAIN = 3  # steps to measure one without drafts: a tree still slows down the first
NOTHING = Draft()


@dataclass(slots=True)
class Step:
    """One sequence's part of a step: its plan, and what became of it."""

    max_nodes: int  # to request from the drafter
    max_seconds: float  # that a costly draft may take
    is_probe: bool
    began: float
    nodes_before: int = 0  # of the batch's drafts in this step
    nodes: int = 0  # the same with this draft
    seconds: float = 0.0  # of drafting, and of the policy
    proposed: Draft = NOTHING
    scored: Draft = NOTHING
    reserved: float = 0.0  # forwards taken from the balance until the step is recorded
    was_costly: bool = False


class Adaptive:
    """Drafts the nodes that maximise expected accepted tokens per unit of time.

    A node is accepted by the drafter's own probability, corrected by recent acceptance, and then
    saves the present time per token. It costs the time of drafting it, to which the time spent in
    this class counts, and the time that it adds to the forward: T(k), corrected by every forward.

    A wrong cost model would hide its error at sizes that are never drafted. So now and then a step
    is a trial: it chooses nodes as if sizes that were not seen lately were ``DOUBT`` times cheaper.
    If the cost of a step without drafts is unknown, it drafts nothing instead. Trials grow rarer
    while they confirm the model.

    A forward of B sequences with n nodes in all takes T(B + n). So in a batch the cost of a node
    depends on the nodes drafted before it in the step. B is taken from the step before.
    """

    def __init__(self, cost: CostModel, *, learns: bool = True) -> None:
        """Size trees by ``cost``, which stays as it is without ``learns``, as in simulations."""
        self.cost = CostModel(cost.sizes, cost.seconds, cost.context)
        self.learns, self.clock = learns, time.perf_counter
        self.account, self.acceptance = Account(), Acceptance()
        self.decided = Counter[str]()  # drafted, not worth it, paused, probed, plain, trial
        self.steps = 0
        self.trial = self.reads = False  # whether this step is one; whether it reads the prompt
        self.next_trial, self.trial_interval = FIRST_TRIAL, FIRST_TRIAL
        self.plain = 0  # coming steps without drafts, to measure their cost
        self.begun = self.open = 0  # sequences that began this step, and those not recorded yet
        self.nodes = 0  # that this step drafts, of all sequences
        self.drafted_before = True  # whether the step before had drafts
        self.ready = 0.0  # when the last draft of this step was made
        self._set_sequences(1)
        self.pace = Pace(self.forward, 1.0)
        self.usual = 16.0  # nodes that recent steps found worthwhile, the larger ones
        self.per_node = Typical()  # seconds of drafting
        self.overhead = Typical(), Typical()  # seconds of drafting and this class; [was_costly]
        self.probe_seconds = Typical()
        self.samples = True  # whether drafts are sampled, so that all their nodes are verified

    def begin(self, max_nodes: int, prompt: int = 0) -> Step:
        """Begin one sequence's part of a step; the parts of a batch overlap.

        ``prompt``: tokens that the step reads first, of the prompt of a single sequence.
        """
        if self.open == 0:
            self._begin_step(prompt)
        self.begun, self.open = self.begun + 1, self.open + 1
        if self.begun > self.sequences:  # more than in the step before
            self._set_sequences(self.begun)
            self.trial = False
        request = self._request(max_nodes)
        probes = not request and max_nodes > 0 and self._should_probe()
        seconds = 0.0 if probes else self._seconds_left
        self.ready = self.clock()
        return Step(int(probes) or request, seconds, probes, self.ready)

    def plan(self, step: Step, draft: Draft, *, was_costly: bool = False) -> Draft:
        """Return the nodes of ``draft`` that are worth verifying, most probable paths first."""
        step.proposed, step.was_costly = draft, was_costly
        if not step.is_probe:
            if not was_costly:  # a costly draft says nothing about the cost of a node
                self.per_node.add((self.clock() - step.began) / step.max_nodes)
            if len(draft):
                self._reserve(step, self._worthwhile(draft))
        self.ready = self.clock()
        step.seconds = self.ready - step.began
        return step.scored

    def record(self, step: Step, tokens: np.ndarray) -> None:
        """Record the ``tokens`` (k,) int32 that the step committed."""
        begin = self.clock()
        if self.open == self.begun and self.learns and not self.reads:
            self._record_forward(begin - self.ready)
        draft = step.proposed
        if len(draft) or step.is_probe:
            self.acceptance.learn(draft.tokens, draft.parents, draft.probabilities, tokens)
        step.seconds += self.clock() - begin
        spent = self._spent(step)
        if step.is_probe:
            hit = draft.tokens.tolist() == tokens[:1].tolist()
            self.account.record_probe(hit, self.sequences * self._token_cost)
        self.open -= 1
        if not self.reads:
            self.pace.add(self.forward + spent, len(tokens))
        account = self.account
        account.balance += step.reserved
        account.drafted = account.drafted or spent > 0
        saved = (len(tokens) - 1) / self.sequences - spent / self.together
        account.record(saved, len(tokens) / self.sequences, account.least(self._token_cost))

    def _spent(self, step: Step) -> float:
        """Return the seconds that ``step`` spent on drafting and verifying its nodes."""
        verifying = float(self.present[step.nodes] - self.present[step.nodes_before])
        if step.is_probe:
            self.decided["probed"] += 1
            self.probe_seconds.add(step.seconds)
            return verifying + self.probe_seconds.value
        if step.max_nodes == 0:
            return verifying
        overhead = self.overhead[step.was_costly]
        overhead.add(step.seconds)
        spent = verifying + overhead.value
        if step.was_costly:  # a draft that takes longer than expected leaves no debt
            left = self._seconds_left + step.reserved * self.together
            spent = min(spent, max(left, verifying))
        return spent

    def _begin_step(self, prompt: int) -> None:
        if self.begun not in (0, self.sequences):
            self._set_sequences(self.begun)
        self.begun = self.nodes = 0
        self.reads, self.trial, self.present = prompt > 0, False, self.adds
        if self.reads:
            times = self.cost.at(prompt + np.arange(MOST_NODES + 1))
            self.present = times - times[0]
            return
        self.steps += 1
        self.plain = max(self.plain - 1, 0)
        due = self.learns and self.steps >= self.next_trial
        if due and self.account.balance >= self.account.least(self._token_cost):
            self._begin_trial()

    def _set_sequences(self, sequences: int) -> None:
        self.sequences = sequences
        self.tokens = sequences + np.arange(sequences * MOST_NODES + 1)  # of a step of n nodes
        times = self.cost.at(self.tokens)
        self.together = float(times[0])  # seconds of a step without drafts
        self.forward = self.together / sequences
        self.adds: Seconds = times - times[0]  # [n]: seconds that n nodes add to a step
        self.present = self.adds  # the same in the present step

    @property
    def _token_cost(self) -> float:
        return float(self.adds[1]) / self.together

    @property
    def _seconds_left(self) -> float:
        return self.account.balance * self.together

    def _begin_trial(self) -> None:
        """Make this step a trial, once the cost of a step without drafts is known."""
        if self.cost.is_known(self.sequences):
            self.trial = True
            self.decided["trial"] += 1
            self.next_trial = self.steps + self.trial_interval
            times = self.cost.optimistic(self.tokens)
            self.optimistic = times - times[0]
        else:
            self.plain = PLAIN
            self.next_trial = self.steps + PLAIN

    @property
    def extra(self) -> Seconds:
        """[n]: seconds that n nodes add to the step beyond its other drafts, (65,)."""
        adds = self.optimistic if self.trial else self.present
        found: Seconds = adds[self.nodes : self.nodes + MOST_NODES + 1] - adds[self.nodes]
        return found

    def _request(self, max_nodes: int) -> int:
        """Return the number of nodes to request: 1.5 times the recently worthwhile ones.

        So trees can grow. The first draft is small, as the cost of drafting is unknown. No draft
        may cost more to make than the balance.
        """
        paused = self.account.is_paused() or self.account.balance < 0
        if paused or self.plain > 0:
            self.decided["plain" if self.plain > 0 else "paused"] += 1
            return 0
        nodes = int(1.5 * self.usual) + 4 if self.per_node.known else FIRST_DRAFT
        left = self._seconds_left
        if self.per_node.value * nodes > left:
            nodes = max(int(left / self.per_node.value), 1)
        if self.samples:
            nodes = min(nodes, int(np.searchsorted(self.extra, left, "right")) - 1)
        return max(min(max_nodes, MOST_NODES, nodes), 0)

    def _should_probe(self) -> bool:
        if self.plain > 0 or self.samples:
            return False
        typical = self.probe_seconds if self.probe_seconds.known else self.overhead[False]
        cost = typical.value / self.forward if typical.known else np.inf
        return self.account.should_probe(cost)

    def _worthwhile(self, draft: Draft) -> np.ndarray:
        """Return the nodes (m,) int32, ascending, with the largest gain beyond their cost."""
        self.samples = draft.q is not None
        if self.samples:  # rejection sampling is exact only if all sampled nodes are verified
            return np.arange(len(draft), dtype=np.int32)
        tree = draft.tokens, draft.parents, draft.probabilities
        times = min(self.pace.per_token, self.forward), self.per_node.value, self._seconds_left
        return self.acceptance.worthwhile(*tree, self.extra, *times)

    def _reserve(self, step: Step, nodes: np.ndarray) -> None:
        """Plan to score ``nodes``; no other sequence may spend their cost."""
        self.decided["drafted" if len(nodes) else "not worth it"] += 1
        self.usual = max(len(nodes), 0.95 * self.usual)
        step.reserved = float(self.extra[len(nodes)]) / self.together
        self.account.balance -= step.reserved
        step.nodes_before = self.nodes
        step.nodes = self.nodes = self.nodes + len(nodes)
        step.scored = step.proposed.subtree(nodes)

    def _record_forward(self, seconds: float) -> None:
        drafted_before, self.drafted_before = self.drafted_before, self.nodes > 0
        seldom = self.nodes == 0 and self.plain == 0 and self.steps % SELDOM > 0
        if seldom or (self.nodes == 0 and drafted_before):
            return
        together, expected = self.together, self.together + float(self.adds[self.nodes])
        if self.cost.record(self.begun + self.nodes, seconds):
            self._set_sequences(self.sequences)
            if abs(self.together / together - 1) > SURPRISE:  # past times are void
                self.pace = Pace(self.forward, 1.0)
                self.account.reopen()
        if self.trial and self.nodes > 0:
            actual = self.together + float(self.adds[self.nodes])
            confirmed = abs(actual / expected - 1) <= SURPRISE
            longer = min(2 * self.trial_interval, LAST_TRIAL)
            self.trial_interval = longer if confirmed else FIRST_TRIAL
            self.next_trial = self.steps + self.trial_interval


class AdaptiveDrafter:
    """A drafter whose policy, which sequences may share, decides how much it drafts."""

    def __init__(self, drafter: Drafter, policy: Adaptive) -> None:
        self.drafter, self.policy = drafter, policy
        own = inner(drafter)
        self.costly = own if isinstance(own, HasCostlyDrafts) else None
        self.step: Step | None = None
        self.unread = 0  # tokens of the prompt, until the first step

    def start(self, prompt: np.ndarray) -> None:
        self.step = None
        self.policy.open = 0  # sequences begin between steps: abandon one that was not recorded
        self.unread = len(prompt)
        self.drafter.start(prompt)

    def draft(self, max_nodes: int) -> Draft:
        step = self.step = self.policy.begin(max_nodes, self.unread)
        if self.costly is not None:
            self.costly.max_seconds = step.max_seconds
        if not step.max_nodes:
            return NOTHING
        draft = self.drafter.draft(step.max_nodes)
        was_costly = self.costly is not None and self.costly.was_costly
        return self.policy.plan(step, draft, was_costly=was_costly)

    def observe(self, tokens: np.ndarray) -> None:
        if self.step is not None:
            self.policy.record(self.step, tokens)
            self.step = None
        self.unread = 0
        self.drafter.observe(tokens)
