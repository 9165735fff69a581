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

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tasc.decoding.core.draft import Draft
from tasc.decoding.core.protocols import Drafter, Factory, UsesHiddenStates
from tasc.decoding.core.resources import Resources
from tasc.decoding.drafters.heads import methods
from tasc.decoding.drafters.heads.eagle import EagleOptions
from tasc.decoding.drafters.hetero import source
from tasc.decoding.drafters.hetero.options import HeteroOptions
from tasc.decoding.drafters.ngram.tasc_spec import Learnt, TascSpec, TascSpecOptions, indexes_of
from tasc.options.bounds import MOST, within

if TYPE_CHECKING:
    import torch

    from tasc.models.certified_head import Logits


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
    ngram_options = TascSpecOptions()
    indexes = indexes_of(resources, ngram_options)
    learnt = Learnt(len(indexes), ngram_options, logits=True)
    other = _other(resources, options)
    return lambda: Mix(
        TascSpec(indexes, resources.end, ngram_options, learnt), other(), always=options.always
    )


def _other(resources: Resources, options: MixOptions) -> Factory:
    """Prepare the other drafter; a draft model drafts greedily also for sampled outputs."""
    o = options
    if resources.draft_head is None:
        drawing = HeteroOptions(lookahead=o.depth, size=o.size)
        return source.tli(replace(resources, sampling=None), drawing)
    if o.size:
        return methods.fr_spec(resources, methods.FrSpecOptions(o.depth, o.width, o.size))
    return methods.eagle(resources, o)


class Mix:
    """One sequence's drafter; sequences share what the two drafters share.

    A head drafts from the second step on, as it reads the states of the prompt.
    """

    def __init__(self, ngrams: TascSpec, other: Drafter, *, always: bool = False) -> None:
        """Add the trees of ``other`` to those of n-grams: where that pays, or ``always``."""
        self.ngrams, self.other = ngrams, other
        self.needs = replace(
            ngrams.needs,
            hidden_states=other.needs.hidden_states,
            slow_drafts="all" if always else "that pay",
        )
        self.can_draft_more = self.reads_prompt = True

    def start(self, prompt: np.ndarray) -> None:
        self.can_draft_more, self.reads_prompt = self.other.needs.drafts_first, True
        self.ngrams.start(prompt)
        self.other.start(prompt)

    def draft(self, max_nodes: int) -> Draft:
        return self.ngrams.draft(max_nodes)

    def draft_more(self, max_nodes: int) -> Draft:
        self.reads_prompt = False
        guess = self.other.draft(max_nodes)
        if guess.probabilities is not None:
            self.ngrams.native.guess(guess.tokens, guess.parents, guess.probabilities)
        return self.ngrams.draft(max_nodes)

    def on_hidden_states(
        self, hidden: "torch.Tensor", logits: "torch.Tensor", path: np.ndarray
    ) -> None:
        assert isinstance(self.other, UsesHiddenStates)
        self.other.on_hidden_states(hidden, logits, path)

    def on_logits(self, draft: Draft, logits: "Logits") -> None:
        self.ngrams.on_logits(draft, logits)

    def sources(self) -> np.ndarray:
        return self.ngrams.sources()

    def observe(self, tokens: np.ndarray) -> None:
        self.can_draft_more = True
        self.ngrams.observe(tokens)
        self.other.observe(tokens)
