"""Which nodes of a draft pay: a policy that is sizing and guard at once.

It weighs what each node is likely to bring (the drafter's own probabilities, corrected by recent
acceptance) against what it costs (T(k), corrected by every forward, and the time of drafting), and
it may only spend what it has saved, or a small allowance: so drafting that never succeeds costs a
bounded share of autoregressive decoding.
"""

import time
from collections import Counter

import numpy as np

from tasc._native import Acceptance
from tasc.decoding.core.draft import Draft
from tasc.decoding.core.typical import Typical
from tasc.decoding.joint import MOST_NODES, Joint
from tasc.decoding.live_cost import LiveCost
from tasc.models.cost import CostCurve

ALLOWANCE = 0.01  # of autoregressive time, to find out whether drafting pays
CREDIT = 1.0  # forwards without drafts: what may be spent before anything was saved
SAVINGS = 4.0  # forwards without drafts: what may be lost again of what was saved
DECAY = 0.98  # of the present pace, a step
FIRST_PAUSE, LAST_PAUSE = 16, 512  # steps without drafting once nothing is left to spend
FIRST_TRIAL, LAST_TRIAL = 4, 256  # steps from one trial to the next
SURPRISE = 0.2  # a forward that changes a time by less confirms it
SELDOM = 4  # steps without drafts, of which there may be many, to one that is learnt from
PLAIN = 3  # steps to learn what one without drafts takes: the first feels the tree before it


class Adaptive:
    """As many nodes as maximise expected accepted tokens per unit of time; none where none pay.

    An accepted token saves the time that a token takes at the present pace; a node costs what it
    adds to the forward. The account holds, in seconds, what drafting saved against autoregressive
    decoding, plus ALLOWANCE of its time; a step may not cost more than the account holds. Once it
    holds nothing, drafting pauses, twice as long each time, until a draft pays again. So n steps
    of drafts that all fail cost at most ALLOWANCE · n + CREDIT forwards without any, and what one
    trial is dearer than it looked. The time spent in this class is charged like drafting.

    A pause is no blind one: half of the allowance goes into looks, tokens that are drafted and not
    scored. Whether they come tells what a draft of one would have saved; where that adds up to
    CREDIT, the pause ends, and the account opens anew.

    A wrong curve would hide its error where nothing is drafted, or never more than a few nodes. So
    now and then a step is a trial: nodes are chosen as if sizes that were not seen lately were
    DOUBT times cheaper, or none are drafted where that is what was not seen. Trials grow rarer
    while they confirm what was known.

    A forward of B sequences, padded to n nodes each, takes T(B · (1 + n)). So in a batch ``Joint``
    chooses one n for all, and nodes up to that cost nothing. Who drafts more than those before it
    in a step is charged all that this adds: what is charged for a step is what it costs. B is that
    of the step before.
    """

    def __init__(self, cost: CostCurve, *, learns: bool = True) -> None:
        """Size trees for a target of this ``cost``; nothing is learnt of it in a simulation."""
        self.cost, self.learns = LiveCost(cost), learns
        self.steps = 0
        self.trial = False  # whether this step is one
        self.next_trial, self.until_trial = FIRST_TRIAL, FIRST_TRIAL
        self.plain = 0  # steps to come without drafts, to see what these cost
        self.begun = self.open = 0  # sequences that began this step, and did not end it yet
        self.width = 0  # nodes of the largest draft of this step
        self.drafted_before = True  # whether the step before had drafts
        self.decided = Counter[str]()  # "drafted", "not worth it", "paused", "plain", "trial"
        self.ready = 0.0  # when the last draft of this step was made
        self.acceptance = Acceptance()
        self.joint = Joint()
        self.sequences, self.together = 1, float(cost.at(1))  # seconds of a step without drafts
        self.balance = 0.0
        self._share(1)
        self._begin()
        self.usual = 16.0  # nodes that recent steps found worthwhile, the larger ones
        self.per_node = Typical()  # of drafting
        # of drafting and this: drafts of a kind that takes longer are told apart
        self.overhead = Typical(), Typical()
        self.whole = True  # whether drafts are verified as they come, so that all is paid for
        self.look = Typical()  # seconds of a token that is drafted and not scored
        self.unlooked = 0.0  # seconds that looks may take

    def _begin(self) -> None:
        """Open the account, and forget the pace: what was entered under other times is void."""
        self.time, self.tokens = self.forward, 1.0  # decayed: the present pace
        self._open()

    def _open(self) -> None:
        """Open the account."""
        self.balance = CREDIT * self.together
        self.pause, self.next_pause = 0, FIRST_PAUSE
        self.tried = False  # whether anything was drafted since the last pause
        self.missed = 0.0  # seconds that drafts would have saved, by the last looks

    def _share(self, sequences: int) -> None:
        """Let so many sequences share a step; what the account holds is worth as many of them."""
        self.sequences = sequences
        times = self.cost.at(self._tokens)
        self.balance *= float(times[0]) / self.together
        self.together = float(times[0])
        self.forward = self.together / sequences
        self.adds = times - times[0]  # [n]: seconds that n nodes a sequence add to a step

    @property
    def _tokens(self) -> np.ndarray:
        """[n]: tokens of a step of n nodes a sequence, (65,)."""
        return self.sequences * np.arange(1, MOST_NODES + 2)

    @property
    def least(self) -> float:
        """Seconds without which nothing is drafted: of one node, or a part of what it may owe."""
        return min(float(self.adds[1]), CREDIT * self.together / 2)

    def enter(self) -> None:
        """Begin one sequence's part of a step; those of a batch are under way at a time."""
        if self.open == 0:
            if self.begun not in (0, self.sequences):
                self._share(self.begun)
            self.begun = self.width = 0
            self.steps += 1
            self.plain = max(self.plain - 1, 0)
            self.trial = False
            if self.learns and self.steps >= self.next_trial and self.balance >= self.least:
                self._try()
            if self.sequences > 1:
                self.joint.begin(self.together + self.adds)
        self.begun, self.open = self.begun + 1, self.open + 1

    def _try(self) -> None:
        """Make this step a trial; what drafting is compared with comes first."""
        if self.cost.knows(self.sequences):
            self.trial = True
            self.decided["trial"] += 1
            self.next_trial = self.steps + self.until_trial
            hoped = self.cost.hoped(self._tokens)
            self.hoped = hoped - hoped[0]
        else:
            self.plain = PLAIN
            self.next_trial = self.steps + PLAIN

    @property
    def beyond(self) -> np.ndarray:
        """[n]: seconds that n nodes add to the step beyond the drafts that it has, (65,)."""
        adds = self.hoped if self.trial else self.adds
        found: np.ndarray = np.maximum(adds - adds[self.width], 0)
        return found

    def looks(self) -> bool:
        """Return whether a step without a draft is to see what one would bring."""
        if self.plain > 0 or self.whole:
            return False
        self.unlooked += ALLOWANCE / 2 * self.forward
        typical = self.look if self.look.known else self.overhead[False]
        found = typical.known and self.unlooked >= typical.value
        self.unlooked *= not found
        return found

    def looked(self, draft: Draft, committed: np.ndarray, seconds: float) -> None:
        """Enter whether the token of a look came; end a pause in which drafting would have paid."""
        self.decided["looked"] += 1
        self.look.add(seconds)
        self.acceptance.learn(draft.tokens, draft.parents, draft.probabilities, committed)
        came = draft.tokens.tolist() == committed[:1].tolist()
        saved = came * self.forward - float(self.adds[1]) / self.sequences
        self.missed = max(self.missed + saved, 0.0)
        if self.missed >= CREDIT * self.forward:
            self._open()

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
            self.joint.price if self.sequences > 1 else self.beyond,
            pace=min(self.time / self.tokens, self.forward),
            per_node=self.per_node.value,
            limit=self.balance / self.sequences,
        )

    def scored(self) -> None:
        """Learn from the forward of this step, once it is verified and before it is observed."""
        if self.open < self.begun or not self.learns:
            return
        seconds = time.perf_counter() - self.ready
        seldom = self.width == 0 and self.plain == 0 and self.steps % SELDOM > 0
        if (self.width > 0 or not self.drafted_before) and not seldom:
            changed = self.cost.learn(self.begun * (1 + self.width), seconds)
            together, expected = self.together, self.together + float(self.adds[self.width])
            if changed:
                self._share(self.sequences)
                if abs(self.together / together - 1) > SURPRISE:
                    self._begin()
            if self.trial and self.width > 0:
                found = self.together + float(self.adds[self.width])
                confirmed = abs(found / expected - 1) <= SURPRISE
                self.until_trial = (
                    min(2 * self.until_trial, LAST_TRIAL) if confirmed else FIRST_TRIAL
                )
                self.next_trial = self.steps + self.until_trial
        self.drafted_before = self.width > 0

    def leave(self, committed: int, held: float, spent: float) -> None:
        """End a part that committed so many tokens: enter it into the account.

        ``held`` was held back for its nodes; ``spent`` is what they added, and the time of
        drafting them. Pause when the account cannot pay for another trial.
        """
        self.open -= 1
        self.tried = self.tried or spent > 0
        self.time = DECAY * self.time + self.forward + spent
        self.tokens = DECAY * self.tokens + committed
        saved = (committed - 1) * self.forward - spent
        self.balance = min(self.balance + held + saved, SAVINGS * self.together)
        if self.balance < CREDIT * self.together:
            allowance = ALLOWANCE * self.forward * committed
            self.balance = min(self.balance + allowance, CREDIT * self.together)
        if saved > 0:
            self.next_pause = FIRST_PAUSE
        elif self.pause == 0 and self.balance <= self.least:
            self.pause = self.next_pause if self.tried else 1
            if self.tried:
                self.next_pause = min(2 * self.next_pause, LAST_PAUSE)
            self.tried = False
