"""Recycling: draft from the logits of all scored tokens, accepted or not.

Luo et al., "Turning Trash into Treasure: Accelerating Inference of Large Language Models with Token
Recycling" (2024), arXiv:2408.08696: a matrix stores the k likeliest successors of each token, every
forward updates it, and drafts are trees along it. No corpus and no training.

Departs: successors are stored for the last one, two and three tokens, with a running mean of their
probabilities. The weights of the three are learnt while decoding, and the tree is the best one
under their mixture, not a fixed one. Contexts share a table of bounded size, so that large
vocabularies cost no more than small ones.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tasc._native import NgramDrafter, RecycledLogits, SourceWeights
from tasc.decoding.core.draft import Draft
from tasc.decoding.core.protocols import NO_NEEDS, Factory, Needs
from tasc.decoding.core.resources import Resources
from tasc.models.cost_model import SUCCESSORS
from tasc.options.bounds import Bounded, within

if TYPE_CHECKING:
    from tasc.models.certified_head import Logits

CONTEXT = 3  # tokens in the longest context
MOST_ROWS = 1 << 24  # 76 bytes each


@dataclass(frozen=True)
class RecyclingOptions(Bounded):
    """``rows``: maximum number of contexts; ``renewal``: weight of new values in the means."""

    rows: int = within(1 << 16, 4, MOST_ROWS)
    renewal: float = within(0.5, 0, 1)


def prepare(resources: Resources, options: RecyclingOptions) -> Factory:
    """Prepare recycling; sequences share the logits and the weights."""
    logits = RecycledLogits(options.rows, options.renewal)
    weights = SourceWeights(
        corpora=0, memory=False, prompt=False, lambda_=1.0, gain=0.0, match=False
    )

    def make() -> NgramTrees:
        native = NgramDrafter(
            corpora=[],
            memory=None,
            weights=weights,
            prompt=False,
            n_max=1,
            lambda_=1.0,
            gain=0.0,
            discount=0.0,
            width=0,
            min_probability=0.0,
            match=False,
            fallback=False,
            end=resources.end,
        )
        return NgramTrees(native, logits)

    return make


class NgramTrees:
    """One sequence's n-grams; sequences share the recycled logits.

    A step's logits are added after learning from its tokens, because the row that chose a token
    would predict it.
    """

    def __init__(
        self, native: NgramDrafter, logits: RecycledLogits | None, *, mark: bool = False
    ) -> None:
        """Draft with ``native``; ``mark``: whether it marks where outputs begin."""
        self.native, self.logits, self.mark = native, logits, mark
        self.needs = NO_NEEDS
        self.recent = np.empty(0, np.int32)
        self.add_logits: Callable[[], None] | None = None
        if logits is not None:
            native.recycle(logits)
            self.needs = Needs(logits=True, top_logits=SUCCESSORS)

    def start(self, prompt: np.ndarray) -> None:
        self.native.start(prompt, self.mark)
        self.recent, self.add_logits = prompt[-CONTEXT:], None

    def draft(self, max_nodes: int) -> Draft:
        """Return the tree of at most ``max_nodes`` nodes with the most probable paths."""
        tokens, parents, probabilities = self.native.draft(max_nodes)
        return Draft(tokens, parents, probabilities=probabilities)

    def sources(self) -> np.ndarray:
        return self.native.sources()

    def defer_updates(self) -> None:
        self.native.defer_updates()

    def apply_updates(self) -> None:
        self.native.apply_updates()

    def on_logits(self, draft: Draft, logits: "Logits") -> None:
        if self.logits is None:
            return
        from tasc.decoding.drafters.ngram.top_softmax import top_softmax  # torch

        tree, add = (draft.tokens, draft.parents), self.logits.add_tree
        self.add_logits = lambda: add(self.recent, *tree, *top_softmax(logits, SUCCESSORS))

    def observe(self, tokens: np.ndarray) -> None:
        """Append the committed tokens, then add the step's logits."""
        self.native.observe(tokens)
        if self.add_logits is not None:
            self.add_logits()
            self.add_logits = None
        if self.logits is not None:
            self.recent = np.concatenate((self.recent, tokens))[-CONTEXT:]
