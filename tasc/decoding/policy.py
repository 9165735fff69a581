"""How much to draft: one policy for the decoding loop and for engine plug-ins.

A loop calls ``plan`` before a step, with the number of sequences that share it, and ``record``
after it, with the time it took.
"""

import math
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tasc._native import Acceptance
from tasc.decoding.core.account import Account, Pace, Typical
from tasc.decoding.core.draft import Draft
from tasc.decoding.core.protocols import Drafter, DraftsMore
from tasc.decoding.core.slow import SlowDrafts
from tasc.models.cost_model import CostModel, Seconds

MOST_NODES = 64  # of a draft
FIRST_DRAFT = 4  # nodes, while the cost of drafting is unknown
FIRST_TRIAL, LAST_TRIAL = 4, 256  # steps between trials
SURPRISE = 0.2  # relative change of a time that contradicts the model
SELDOM = 4  # of the many steps without drafts, one in four is recorded
PLAIN = 3  # steps to measure one without drafts: a tree still slows down the first
PROBE_COST = 0.02  # forwards, where drafting is not timed: one step in four of a pause probes
NOTHING = Draft()


@dataclass(frozen=True)
class Batch:
    """The sequences that share a step.

    ``prompt``: tokens of a prompt that the step reads first, if it is the first of one sequence.
    """

    sequences: int
    prompt: int = 0


@dataclass(slots=True)
class Part:
    """One sequence's part of a step: its limit, and its draft."""

    max_nodes: int = 0  # requested from the drafter
    is_probe: bool = False
    is_slow: bool = False  # whether its drafter made a slow draft
    proposed: Draft = NOTHING
    scored: Draft = NOTHING  # the nodes of ``proposed`` that are worth verifying
    seconds: float = 0.0  # of drafting, and of the choice of nodes


@dataclass(frozen=True)
class Chains:
    """What each sequence may draft where all draft at once."""

    max_nodes: int
    min_probability: float  # of a token's path
    is_probe: bool = False  # drafted tokens are compared with the output, and not verified


@dataclass(frozen=True)
class Step:
    """What became of a step: the counts of all its sequences, and its times.

    ``forward``: seconds from the last draft to the committed tokens, and ``seconds`` of the whole
    step; None if they are unknown or no measure of a later step.
    """

    sequences: int
    drafted: int  # nodes that the forward scored
    accepted: int  # of them
    probed: int = 0  # tokens that were drafted and not scored
    hits: int = 0  # of them, those that came
    forward: float | None = None
    seconds: float | None = None
    plan: "Plan | None" = None  # whose drafts were made one by one


@dataclass(frozen=True)
class Times:
    """Seconds of a step of some sequences."""

    plain: float  # without drafts
    adds: Seconds  # [n]: that n nodes add, of all sequences
    sequences: int

    @property
    def node_share(self) -> float:
        """The cost of one node, in forwards."""
        return float(self.adds[1]) / self.plain

    @property
    def token_share(self) -> float:
        """The cost of one token of each sequence, in forwards."""
        return float(self.adds[self.sequences]) / self.plain


@dataclass
class Trials:
    """When to try what the cost model advises against; steps that read a prompt do not count."""

    steps: int = 0
    next: int = FIRST_TRIAL
    interval: int = FIRST_TRIAL
    plain: int = 0  # coming steps without drafts, to measure their cost
    drafted_before: bool = True  # whether the step before had drafts


@dataclass
class DraftTimes:
    """Seconds that drafting takes."""

    per_node: Typical = field(default_factory=Typical)
    usual: Typical = field(default_factory=Typical)  # of a whole draft
    slow: Typical = field(default_factory=Typical)  # of one by a slow drafter
    probe: Typical = field(default_factory=Typical)
    record: Typical = field(default_factory=Typical)  # of ``Policy.record``, per sequence


class Policy:
    """Decides how much each sequence drafts; all sequences teach it.

    Without a cost model, every draft is as large as it may be. With one, a step drafts the nodes
    that maximise expected accepted tokens per unit of time. A node is accepted by the drafter's own
    probability, corrected by recent acceptance, and then saves the present time per token. It costs
    the time of drafting it, to which the time spent in this class counts, and the time that it adds
    to the forward. A forward of B sequences with n nodes in all takes T(B + n), so the cost of a
    node depends on the nodes drafted before it in the step. ``Account`` bounds the cost of drafts
    that always fail.

    A wrong cost model would hide its error at sizes that are never drafted. So now and then a step
    is a trial: it chooses nodes as if sizes that were not seen lately were ``DOUBT`` times cheaper.
    If the cost of a step without drafts is unknown, it drafts nothing instead. Trials grow rarer
    while they confirm the model.

    Slow drafters are asked where they pay, with a cost model or without (see SlowDrafts).
    """

    def __init__(
        self, cost: CostModel | None = None, *, learns: bool = True, assumed: bool = False
    ) -> None:
        """Size drafts by ``cost``, which is corrected by the times of steps.

        Without ``learns`` it stays as it is, as in simulations. If it is ``assumed``, not measured,
        times only make nodes dearer: a few noisy ones could make them look free.
        """
        self.cost = None if cost is None else CostModel(cost.sizes, cost.seconds, cost.context)
        self.floor = CostModel(cost.sizes, cost.seconds) if cost is not None and assumed else None
        self.learns, self.assumed, self.clock = learns, assumed, time.perf_counter
        self.account, self.slow = Account(), SlowDrafts()
        self.acceptance = Acceptance(), Acceptance()  # of usual and of slow drafts
        self.decided = Counter[str]()  # drafted, not worth it, paused, probed, plain, trial
        self.trials, self.draft_times = Trials(), DraftTimes()
        self.known_times: dict[int, Times] = {}  # by sequences, until the cost model changes
        self.pace = Pace() if self.cost is None else Pace(self.times(1).plain, 1.0)
        self.usual_nodes = 16.0  # that recent steps found worthwhile, the larger ones
        self.samples = True  # whether drafts are sampled, so that all their nodes are verified
        self.has_slow = False  # whether a drafter can make slow drafts

    @property
    def adapts(self) -> bool:
        """Whether it has a cost model."""
        return self.cost is not None

    def fresh(self) -> "Policy":
        """Return a policy with the same cost model that has learnt nothing."""
        return Policy(self.cost, learns=self.learns, assumed=self.assumed)

    def plan(self, batch: Batch) -> "Plan":
        """Begin a step of ``batch``."""
        if self.cost is None:
            return Plan(self, reads=batch.prompt > 0)
        times, reads = self.times(batch.sequences), batch.prompt > 0
        trial = False
        if reads:
            seconds = self.cost.at(batch.prompt + np.arange(MOST_NODES + 1))
            times = Times(times.plain, seconds - seconds[0], 1)
        else:
            trial = self._begin_step(times)
        optimistic = None
        if trial:
            tokens = batch.sequences + np.arange(len(times.adds))
            optimistic = self.cost.optimistic(tokens)
        least = times.token_share if self.assumed else 0.0
        paused = self.account.is_paused() or self.account.balance < least
        plan = Plan(self, times, optimistic, reads=reads, paused=paused)
        plan.probes = paused and self._should_probe(times)
        return plan

    def record(self, step: Step) -> None:
        """Learn from a step that has ended."""
        if not step.sequences or not (self.adapts or self.has_slow):
            return
        begin = self.clock()
        reads = step.plan is not None and step.plan.reads
        if step.seconds is not None and not reads:
            tokens = step.sequences + step.accepted
            self.slow.record_step(step.seconds, tokens, step.sequences)
        if self.adapts:
            self._record(step, reads=reads)
        self.draft_times.record.add((self.clock() - begin) / step.sequences)

    def _record(self, step: Step, *, reads: bool) -> None:
        plan = step.plan
        planned = self.times(step.sequences) if plan is None or plan.times is None else plan.times
        if step.forward is not None and self.learns and not reads:
            self._record_forward(step, planned, is_trial=plan is not None and plan.is_trial)
        times, account = self.times(step.sequences), self.account
        adds = planned.adds if reads else times.adds
        verifying = float(adds[min(step.drafted, len(adds) - 1)])
        spent = verifying + self._drafting(plan.parts if plan else [])
        if plan is not None and any(part.is_slow for part in plan.parts):
            # A draft that takes longer than expected leaves no debt.
            spent = min(spent, max(account.balance * times.plain, verifying))
        if step.probed:
            account.record_probe(step.hits / step.probed, times.token_share)
        if not reads:
            tokens = step.sequences + step.accepted
            self.pace.add(times.plain + spent, tokens, step.sequences)
        account.drafted = account.drafted or spent > 0
        saved = step.accepted / step.sequences - spent / times.plain
        least = account.least(times.node_share if plan else times.token_share)
        account.record(saved, 1 + step.accepted / step.sequences, least)

    def _drafting(self, parts: Sequence[Part]) -> float:
        """Record the seconds that ``parts`` spent on drafting; return what is usual for them."""
        usual, took = 0.0, self.draft_times
        for part in parts:
            if part.max_nodes:
                kind = took.probe if part.is_probe else took.slow if part.is_slow else took.usual
                kind.add(part.seconds + took.record.value)
                usual += kind.value
        return usual

    def times(self, sequences: int) -> Times:
        """Return the times of a step of so many sequences."""
        assert self.cost is not None
        cached = self.known_times.get(sequences)
        if cached is None:
            tokens = max(sequences, 1) + np.arange(max(sequences, 1) * MOST_NODES + 1)
            seconds = self.cost.at(tokens)
            plain = float(seconds[0])
            adds: Seconds = seconds - plain
            if self.floor is not None:
                least = self.floor.at(tokens)
                adds = np.maximum(adds, plain * (least / least[0] - 1))
            cached = self.known_times[sequences] = Times(plain, adds, max(sequences, 1))
        return cached

    def _begin_step(self, times: Times) -> bool:
        """Count a step; return whether it is a trial."""
        trials = self.trials
        trials.steps += 1
        trials.plain = max(trials.plain - 1, 0)
        due = self.learns and not self.assumed and trials.steps >= trials.next
        if not due or self.account.balance < self.account.least(times.node_share):
            return False
        assert self.cost is not None
        if self.cost.is_known(times.sequences):
            self.decided["trial"] += 1
            trials.next = trials.steps + trials.interval
            return True
        trials.plain = PLAIN
        trials.next = trials.steps + PLAIN
        return False

    def _should_probe(self, times: Times) -> bool:
        if self.assumed:
            return self.account.should_probe(PROBE_COST)
        if self.trials.plain > 0 or self.samples:
            return False
        took = self.draft_times
        typical = took.probe if took.probe.known else took.usual
        forward = times.plain / times.sequences
        return self.account.should_probe(typical.value / forward if typical.known else math.inf)

    def _record_forward(self, step: Step, times: Times, *, is_trial: bool) -> None:
        assert self.cost is not None
        assert step.forward is not None
        trials = self.trials
        drafted_before, trials.drafted_before = trials.drafted_before, step.drafted > 0
        if not self.assumed and step.drafted == 0:
            seldom = trials.plain == 0 and trials.steps % SELDOM > 0
            if seldom or drafted_before:
                return
        drafted = min(step.drafted, len(times.adds) - 1)
        if self.cost.record(step.sequences + step.drafted, step.forward):
            self.known_times.clear()
            if abs(self.times(step.sequences).plain / times.plain - 1) > SURPRISE:
                # Past times are void.
                self.pace = Pace(self.times(step.sequences).plain / step.sequences, 1.0)
                self.account.reopen()
                if step.plan is not None:  # its nodes were chosen by those times: give them back
                    self.account.balance += step.plan.reserved / times.plain
        if is_trial and step.drafted > 0:
            corrected = self.times(step.sequences)
            actual = corrected.plain + float(corrected.adds[drafted])
            expected = times.plain + float(times.adds[drafted])
            confirmed = abs(actual / expected - 1) <= SURPRISE
            longer = min(2 * trials.interval, LAST_TRIAL)
            trials.interval = longer if confirmed else FIRST_TRIAL
            trials.next = trials.steps + trials.interval


class Plan:
    """What one step may draft: ``draft`` for each sequence in turn, or ``chains`` for all at once.

    A plan that is given up costs nothing: balances change when the step is recorded.
    """

    def __init__(
        self,
        policy: Policy,
        times: Times | None = None,
        optimistic: Seconds | None = None,
        *,
        reads: bool = False,
        paused: bool = False,
    ) -> None:
        """Plan a step of ``policy``, whose drafts have any size without ``times``.

        ``optimistic``: seconds by nodes that a trial assumes; ``reads``: whether the step reads a
        prompt first; ``paused``: whether it must not draft.
        """
        self.policy, self.times, self.reads, self.paused = policy, times, reads, paused
        self.is_trial, self.probes = optimistic is not None, False
        prices = np.zeros(0) if times is None else times.adds
        self.prices = prices if optimistic is None else optimistic - optimistic[0]
        self.nodes = 0  # to be scored, of all sequences so far
        self.reserved = 0.0  # seconds that they add to the forward
        self.parts: list[Part] = []

    def draft(self, drafter: Drafter, max_nodes: int) -> Part:
        """Let the drafter of the next sequence draft at most ``max_nodes`` nodes."""
        policy = self.policy
        begin = policy.clock()
        part = self._part(max_nodes)
        self.parts.append(part)
        if part.max_nodes or self.times is None:
            asked = policy.clock()
            part.proposed = drafter.draft(part.max_nodes)
            if drafter.needs.slow_drafts != "none":
                self._draft_slowly(drafter, part)
            if self.times is None:
                part.scored = part.proposed
            elif not part.is_probe:
                if not part.is_slow:  # a slow draft says nothing about the cost of a node
                    took = policy.clock() - asked
                    policy.draft_times.per_node.add(took / part.max_nodes)
                if len(part.proposed):
                    self._choose(part)
        part.seconds = policy.clock() - begin
        return part

    def chains(self) -> Chains:
        """Return what each sequence may draft, where all draft at once."""
        assert self.times is not None
        if self.probes:
            return Chains(1, 0.0, is_probe=True)
        cost = self.times.token_share
        max_nodes = 0 if self.paused else int(self.policy.account.balance / max(cost, 1e-9))
        return Chains(max_nodes, cost)

    def step(
        self,
        committed: Sequence[np.ndarray],
        forward: float | None = None,
        seconds: float | None = None,
    ) -> Step:
        """Return the step that became of the plan, and learn which drafted tokens came.

        ``committed``: the tokens (k,) int32 of each sequence, in the order of ``draft``. The times
        are as in Step.
        """
        probed, hits = self._learn(committed)
        accepted = sum(len(tokens) - 1 for tokens in committed)
        return Step(len(committed), self.nodes, accepted, probed, hits, forward, seconds, plan=self)

    def _learn(self, committed: Sequence[np.ndarray]) -> tuple[int, int]:
        """Return the number of probed tokens, and of those that came."""
        policy, probed, hits = self.policy, 0, 0
        if not (policy.adapts or policy.has_slow):
            return 0, 0
        for part, tokens in zip(self.parts, committed, strict=True):
            draft = part.proposed
            if len(draft) or part.is_probe:
                acceptance = policy.acceptance[part.is_slow]
                acceptance.learn(draft.tokens, draft.parents, draft.probabilities, tokens)
            if part.is_probe:
                probed += 1
                hits += draft.tokens.tolist() == tokens[:1].tolist()
        return probed, hits

    @property
    def _seconds_left(self) -> float:
        """Seconds that drafts may still cost in this step."""
        assert self.times is not None
        return self.policy.account.balance * self.times.plain - self.reserved

    @property
    def _extra(self) -> Seconds:
        """[n]: seconds that n nodes add to the step beyond its other drafts, (65,)."""
        here = self.nodes
        extra: Seconds = self.prices[here : here + MOST_NODES + 1] - self.prices[here]
        return extra

    def _part(self, max_nodes: int) -> Part:
        if self.times is None:
            return Part(max_nodes)
        request = self._request(max_nodes)
        if request or not self.probes or max_nodes < 1:
            return Part(request)
        self.policy.decided["probed"] += 1
        return Part(1, is_probe=True)

    def _request(self, max_nodes: int) -> int:
        """Return the number of nodes to request: 1.5 times the recently worthwhile ones.

        So trees can grow. The first draft is small, as the cost of drafting is unknown. No draft
        may cost more to make than the balance.
        """
        policy, seconds_left = self.policy, self._seconds_left
        is_plain = policy.trials.plain > 0
        if is_plain or self.paused or seconds_left < 0:
            policy.decided["plain" if is_plain else "paused"] += 1
            return 0
        per_node = policy.draft_times.per_node
        nodes = int(1.5 * policy.usual_nodes) + 4 if per_node.known else FIRST_DRAFT
        if per_node.value * nodes > seconds_left:
            nodes = max(int(seconds_left / per_node.value), 1)
        if policy.samples:
            nodes = min(nodes, int(np.searchsorted(self._extra, seconds_left, "right")) - 1)
        return max(min(max_nodes, MOST_NODES, nodes), 0)

    def _draft_slowly(self, drafter: Drafter, part: Part) -> None:
        """Replace a draft by a slow one where that is expected to pay."""
        assert isinstance(drafter, DraftsMore)
        policy = self.policy
        policy.has_slow = True
        if not part.max_nodes or not drafter.can_draft_more:
            return
        limit = self._slow_limit(part)
        before, first = _expected(policy.acceptance[False], part.proposed), drafter.reads_prompt
        always = drafter.needs.slow_drafts == "all"
        if not (limit > 0 if always else policy.slow.pays(before, limit, first=first)):
            return
        begin = policy.clock()
        part.proposed, part.is_slow = drafter.draft_more(part.max_nodes), True
        seconds = policy.clock() - begin
        after = _expected(policy.acceptance[True], part.proposed)
        policy.slow.record_draft(before, after, seconds, first=first)

    def _slow_limit(self, part: Part) -> float:
        """Return the seconds that a slow draft may take."""
        if self.times is None:
            return math.inf
        return 0.0 if part.is_probe else self._seconds_left

    def _choose(self, part: Part) -> None:
        """Score the nodes with the largest gain beyond their cost; reserve the time they take."""
        policy = self.policy
        nodes = self._worthwhile(part)
        policy.decided["drafted" if len(nodes) else "not worth it"] += 1
        policy.usual_nodes = max(len(nodes), 0.95 * policy.usual_nodes)
        self.reserved += float(self._extra[len(nodes)])
        self.nodes += len(nodes)
        part.scored = part.proposed.subtree(nodes)

    def _worthwhile(self, part: Part) -> np.ndarray:
        """Return the nodes (m,) int32, ascending, that are worth verifying."""
        assert self.times is not None
        policy, draft = self.policy, part.proposed
        policy.samples = draft.q is not None
        if policy.samples:  # rejection sampling is exact only if all sampled nodes are verified
            return np.arange(len(draft), dtype=np.int32)
        pace = min(policy.pace.per_token, self.times.plain / self.times.sequences)
        return policy.acceptance[part.is_slow].worthwhile(
            draft.tokens,
            draft.parents,
            draft.probabilities,
            self._extra,
            pace,
            policy.draft_times.per_node.value,
            self._seconds_left,
        )


def _expected(acceptance: Acceptance, draft: Draft) -> float:
    """Return the expected number of accepted tokens of ``draft``."""
    return float(acceptance.estimate(draft.tokens, draft.parents, draft.probabilities).sum())
