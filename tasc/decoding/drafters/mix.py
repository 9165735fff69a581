"""Mix: n-grams and a draft head, or a small draft model, in one tree, asked where that pays.

What the head, or the model, drafts is one more source of TASC-spec's mixture
(``ngram/tasc_spec.py``): its tree gives the probability of each node after its parent, which is
mixed with what corpus, prompt, past outputs and logits say there. What that is worth is learnt
while decoding as of all sources, by depth and by how sure it is; behind its tree n-grams go on.
A node's place in the tree is the probability of its path in the mixture: its expected acceptance.

Asking takes a forward of the head, n-grams take next to nothing. So they draft first, and the head
is asked only where what it adds to the expected accepted tokens is worth more, at the present pace
of decoding, than the seconds that it takes. All three are measured as it goes.
"""

import math
import time
from dataclasses import dataclass, replace

import numpy as np

from tasc._native import Acceptance
from tasc.decoding.core.draft import Draft
from tasc.decoding.core.protocols import Drafter, Factory, UsesHiddenStates
from tasc.decoding.core.resources import Resources
from tasc.decoding.core.typical import Typical
from tasc.decoding.drafters.heads import methods
from tasc.decoding.drafters.heads.eagle import EagleOptions
from tasc.decoding.drafters.hetero import source
from tasc.decoding.drafters.hetero.options import HeteroOptions
from tasc.decoding.drafters.ngram.tasc_spec import Learnt, TascSpec, TascSpecOptions, indexes_of
from tasc.options.bounds import MOST, within

HOPED = 2.0  # accepted tokens that asking is thought to add before anything is known
BINS, PER_TOKEN = 8, 2  # expected accepted tokens that are told apart
DECAY = 0.98  # of what was learnt, a step
ALLOWANCE = 0.01  # of all time, to find out whether asking has come to pay


@dataclass(frozen=True)
class MixOptions(EagleOptions):
    """``depth`` and ``width`` of the head's tree, as EAGLE-2's; a draft model's is a chain.

    ``size``: the head, or the model, scores so many of the most frequent tokens alone, 0 for all.
    ``always`` asks at every step.
    """

    size: int = within(0, 0, MOST)
    always: bool = False


def prepare(resources: Resources, options: MixOptions) -> Factory:
    """See Method.prepare: with the first head, or else the draft model."""
    own = TascSpecOptions()
    indexes = indexes_of(resources, own)
    learnt = Learnt(len(indexes), own, logits=True)
    other, asking = _other(resources, options), Asking(always=options.always)
    return lambda: Mix(TascSpec(indexes, resources.end, own, learnt), other(), asking)


def _other(resources: Resources, options: MixOptions) -> Factory:
    """Prepare what is asked; a draft model says what is likeliest, however outputs are drawn."""
    o = options
    if resources.draft_head is None:
        drawing = HeteroOptions(lookahead=o.depth, size=o.size)
        return source.tli(replace(resources, sampling=None), drawing)
    if o.size:
        return methods.fr_spec(resources, methods.FrSpecOptions(o.depth, o.width, o.size))
    return methods.eagle(resources, o)


class Asking:
    """Whether asking pays just now; shared by sequences, whose steps all count."""

    def __init__(self, *, always: bool = False) -> None:
        """Know nothing; ``always``: ask at every step."""
        self.always = always
        self.acceptance = Acceptance(), Acceptance()  # of trees without what was asked, and with it
        self.gains, self.asked = np.zeros(BINS), np.zeros(BINS)  # decayed, by what was expected
        self.seconds = Typical()  # that asking takes
        self.first = 0.0  # what it took the first time in a sequence, where a prompt was read
        self.time = self.tokens = 0.0  # decayed: the present pace
        self.since: float | None = None  # when the last step ended, where the next one follows
        self.allowed = 0.0  # seconds that may go into asking although it does not seem to pay

    def expected(self, draft: Draft, *, asked: bool) -> float:
        """Return the tokens of ``draft`` that are likely to be accepted."""
        given = draft.tokens, draft.parents, draft.probabilities
        return float(self.acceptance[asked].estimate(*given).sum())

    def learn(self, draft: Draft, committed: np.ndarray, *, asked: bool) -> None:
        """Learn what became of ``draft``."""
        self.acceptance[asked].learn(draft.tokens, draft.parents, draft.probabilities, committed)

    def gain(self, expected: float) -> float:
        """Return the accepted tokens that asking is likely to add to so many."""
        k = _bin(expected)
        usual = (self.gains.sum() + HOPED) / (self.asked.sum() + 1)
        return float((self.gains[k] + usual) / (self.asked[k] + 1))

    def pays(self, expected: float, spend: float = math.inf, *, begins: bool = False) -> bool:
        """Return whether to ask, which may take ``spend`` seconds.

        Where a sequence ``begins`` to ask, its prompt is read, too, which may be too much; whether
        asking pays is judged without, as it is done once. What does not seem to pay is tried within
        an allowance.
        """
        if self.always:
            return spend > 0
        pace = self.time / self.tokens if self.tokens > 0 else 0.0
        if not self.seconds.known:
            return spend == math.inf or 0 < (self.first or HOPED * pace) < spend
        if (self.first if begins else self.seconds.value) > spend:
            return False
        if self.gain(expected) * pace > self.seconds.value:
            return True
        tries = self.allowed >= self.seconds.value
        if tries:
            self.allowed = 0.0
        return tries

    def add(self, before: float, after: float) -> None:
        """Enter the expected accepted tokens before and after asking."""
        self.gains *= DECAY
        self.asked *= DECAY
        self.gains[_bin(before)] += after - before
        self.asked[_bin(before)] += 1

    def commit(self, tokens: int) -> None:
        """Enter the tokens of a step; the first after ``since`` was emptied begin the clock."""
        now = time.perf_counter()
        if self.since is not None:
            self.time = DECAY * self.time + now - self.since
            self.allowed += ALLOWANCE * (now - self.since)
            self.tokens = DECAY * self.tokens + tokens
        self.since = now


def _bin(expected: float) -> int:
    return min(int(PER_TOKEN * expected), BINS - 1)


class Mix:
    """One sequence's drafter; ``asking``, and what the two drafters share, is of all of them."""

    def __init__(self, own: TascSpec, other: Drafter, asking: Asking) -> None:
        """Draft with ``own``, and with ``other`` where ``asking`` says so."""
        self.own, self.other, self.asking = own, other, asking
        self.max_seconds, self.was_costly = math.inf, False
        self.on_logits = own.on_logits
        if isinstance(other, UsesHiddenStates):
            self.on_hidden_states = other.on_hidden_states

    def start(self, prompt: np.ndarray) -> None:
        """See Drafter.start."""
        self.asking.since = None
        self.drafted, self.was_costly, self.before = Draft(), False, False
        self.own.start(prompt)
        self.other.start(prompt)

    def draft(self, max_nodes: int) -> Draft:
        """See Drafter.draft: the ``max_nodes`` nodes most likely to be accepted."""
        self.drafted, self.was_costly = self.own.draft(max_nodes), False
        if max_nodes > 0:
            expected = self.asking.expected(self.drafted, asked=False)
            if self.asking.pays(expected, self.max_seconds, begins=not self.before):
                self._ask(max_nodes, expected)
        return self.drafted

    def _ask(self, budget: int, expected: float) -> None:
        begin = time.perf_counter()
        guess = self.other.draft(budget)
        if guess.probabilities is not None:
            self.own.native.guess(guess.tokens, guess.parents, guess.probabilities)
            self.drafted, self.was_costly = self.own.draft(budget), True
        seconds = time.perf_counter() - begin
        if self.before:
            self.asking.seconds.add(seconds)
        else:
            self.asking.first = seconds
        self.before = True
        self.asking.add(expected, self.asking.expected(self.drafted, asked=self.was_costly))

    def observe(self, tokens: np.ndarray) -> None:
        """See Drafter.observe."""
        if len(self.drafted):
            self.asking.learn(self.drafted, tokens, asked=self.was_costly)
        self.drafted = Draft()
        self.own.observe(tokens)
        self.other.observe(tokens)
        self.asking.commit(len(tokens))

    def sources(self) -> np.ndarray:
        """See ReportsSources."""
        return self.own.sources()
