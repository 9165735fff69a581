"""Mix: n-grams and a draft head, or a small draft model, in one tree.

The tree of the head or model is one more source of TASC-spec's mixture (``ngram/tasc_spec.py``): it
gives the probability of each node after its parent, which is mixed with those of corpus, prompt,
past outputs and logits. Its weight is learnt while decoding, like that of all sources, by depth and
by its confidence; n-grams continue below its tree. A node's rank in the tree is the probability of
its path in the mixture: its expected acceptance.

The head needs a forward, n-grams cost almost nothing. So n-grams draft first, and the head drafts
only where its gain in expected accepted tokens, at the present pace of decoding, is worth more than
its time. All three are measured while decoding.
"""

import math
import time
from dataclasses import dataclass, replace

import numpy as np

from tasc._native import Acceptance
from tasc.decoding.core.account import ALLOWANCE, DECAY, Allowance, Pace, Typical
from tasc.decoding.core.draft import Draft
from tasc.decoding.core.protocols import Drafter, Factory, UsesHiddenStates
from tasc.decoding.core.resources import Resources
from tasc.decoding.drafters.heads import methods
from tasc.decoding.drafters.heads.eagle import EagleOptions
from tasc.decoding.drafters.hetero import source
from tasc.decoding.drafters.hetero.options import HeteroOptions
from tasc.decoding.drafters.ngram.tasc_spec import Learnt, TascSpec, TascSpecOptions, indexes_of
from tasc.options.bounds import MOST, within

PRIOR_GAIN = 2.0  # accepted tokens that the other drafter is assumed to add at first
BINS, PER_TOKEN = 8, 2  # of the expected number of accepted tokens


@dataclass(frozen=True)
class MixOptions(EagleOptions):
    """``depth`` and ``width`` of the head's tree, as EAGLE-2's; a draft model's is a chain.

    ``size``: number of most frequent tokens that the head or model scores, 0 for all. ``always``:
    use it at every step.
    """

    size: int = within(0, 0, MOST)
    always: bool = False


def prepare(resources: Resources, options: MixOptions) -> Factory:
    """Prepare n-grams with the draft head, or else with the draft model."""
    own = TascSpecOptions()
    indexes = indexes_of(resources, own)
    learnt = Learnt(len(indexes), own, logits=True)
    other, policy = _other(resources, options), CostlyDraftPolicy(always=options.always)
    return lambda: Mix(TascSpec(indexes, resources.end, own, learnt), other(), policy)


def _other(resources: Resources, options: MixOptions) -> Factory:
    """Prepare the other drafter; a draft model drafts greedily also for sampled outputs."""
    o = options
    if resources.draft_head is None:
        drawing = HeteroOptions(lookahead=o.depth, size=o.size)
        return source.tli(replace(resources, sampling=None), drawing)
    if o.size:
        return methods.fr_spec(resources, methods.FrSpecOptions(o.depth, o.width, o.size))
    return methods.eagle(resources, o)


class CostlyDraftPolicy:
    """Whether the other drafter pays at present; sequences share it, and all their steps count."""

    def __init__(self, *, always: bool = False) -> None:
        """Begin without measurements; with ``always``, the other drafter drafts at every step."""
        self.always, self.clock = always, time.perf_counter
        self.acceptance = Acceptance(), Acceptance()  # of trees without and with the other drafter
        self.gains, self.drafts = np.zeros(BINS), np.zeros(BINS)  # decayed, by expected tokens
        self.seconds = Typical()  # of one draft
        self.first = 0.0  # seconds of the last first draft of a sequence, which reads the prompt
        self.pace = Pace()
        self.last_step: float | None = None  # when the last step of this sequence ended
        self.allowance = Allowance()

    def expected(self, draft: Draft, *, mixed: bool) -> float:
        view = draft.tokens, draft.parents, draft.probabilities
        return float(self.acceptance[mixed].estimate(*view).sum())

    def gain(self, expected: float) -> float:
        """Return the accepted tokens that the other drafter is expected to add."""
        k = _bin(expected)
        mean = (self.gains.sum() + PRIOR_GAIN) / (self.drafts.sum() + 1)
        return float((self.gains[k] + mean) / (self.drafts[k] + 1))

    def pays(self, expected: float, max_seconds: float = math.inf, *, first: bool = False) -> bool:
        """Return whether to draft, which may take ``max_seconds``.

        The ``first`` draft of a sequence also reads the prompt. That may exceed the limit, but does
        not count in the comparison, as it happens once. A draft that does not seem to pay is tried
        within ALLOWANCE of the time.
        """
        if self.always:
            return max_seconds > 0
        pace = self.pace.per_token
        if not self.seconds.known:
            limited = 0 < (self.first or PRIOR_GAIN * pace) < max_seconds
            return limited or max_seconds == math.inf
        if (self.first if first else self.seconds.value) > max_seconds:
            return False
        if self.gain(expected) * pace > self.seconds.value:
            return True
        return self.allowance.spend(self.seconds.value)

    def record_draft(self, before: float, after: float) -> None:
        """Record the expected number of accepted tokens without and with the other drafter."""
        self.gains *= DECAY
        self.drafts *= DECAY
        self.gains[_bin(before)] += after - before
        self.drafts[_bin(before)] += 1

    def record_step(self, tokens: int) -> None:
        """Record the committed tokens of a step; its time counts from the end of the last one."""
        now = self.clock()
        if self.last_step is not None:
            self.pace.add(now - self.last_step, tokens)
            self.allowance.saved += ALLOWANCE * (now - self.last_step)
        self.last_step = now


def _bin(expected: float) -> int:
    return min(int(PER_TOKEN * expected), BINS - 1)


class Mix:
    """One sequence's drafter; sequences share ``policy`` and what the two drafters share.

    A head drafts from the second step on, as it reads the states of the prompt.
    """

    drafts_first = True

    def __init__(self, own: TascSpec, other: Drafter, policy: CostlyDraftPolicy) -> None:
        self.own, self.other, self.policy = own, other, policy
        self.max_seconds, self.was_costly = math.inf, False
        self.on_logits, self.sources = own.on_logits, own.sources
        self.top_logits = own.top_logits
        if isinstance(other, UsesHiddenStates):
            self.on_hidden_states = other.on_hidden_states

    def start(self, prompt: np.ndarray) -> None:
        self.policy.last_step = None
        self.drafted, self.was_costly, self.first = Draft(), False, True
        self.waits = isinstance(self.other, UsesHiddenStates)
        self.own.start(prompt)
        self.other.start(prompt)

    def draft(self, max_nodes: int) -> Draft:
        self.drafted, self.was_costly = self.own.draft(max_nodes), False
        if max_nodes > 0 and not self.waits:
            expected = self.policy.expected(self.drafted, mixed=False)
            if self.policy.pays(expected, self.max_seconds, first=self.first):
                self._add_other(max_nodes, expected)
        return self.drafted

    def _add_other(self, max_nodes: int, expected: float) -> None:
        policy = self.policy
        begin = policy.clock()
        guess = self.other.draft(max_nodes)
        if guess.probabilities is not None:
            self.own.native.guess(guess.tokens, guess.parents, guess.probabilities)
            self.drafted, self.was_costly = self.own.draft(max_nodes), True
        seconds = policy.clock() - begin
        if self.first:
            policy.first = seconds
        else:
            policy.seconds.add(seconds)
        self.first = False
        policy.record_draft(expected, policy.expected(self.drafted, mixed=self.was_costly))

    def observe(self, tokens: np.ndarray) -> None:
        if len(draft := self.drafted):
            acceptance = self.policy.acceptance[self.was_costly]
            acceptance.learn(draft.tokens, draft.parents, draft.probabilities, tokens)
        self.drafted, self.waits = Draft(), False
        self.own.observe(tokens)
        self.other.observe(tokens)
        self.policy.record_step(len(tokens))
