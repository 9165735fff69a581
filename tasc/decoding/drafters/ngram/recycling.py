"""Recycling: the logits of tokens that the target has scored, accepted or not.

Luo et al., "Turning Trash into Treasure: Accelerating Inference of Large Language Models with Token
Recycling" (2024), arXiv:2408.08696: the k likeliest successors of each token are kept in a matrix,
renewed by every forward, and a tree is grown along them. No corpus and no training.

Departs: successors are kept by the last one, two and three tokens, with their probabilities, as a
running mean; what each of the three is worth is learnt while decoding, and the tree is the best one
under their mixture instead of a fixed one. A context belongs to the rows of a bounded table, so
large vocabularies cost no more than small ones.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tasc._native import NgramDrafter, RecycledLogits, SourceWeights
from tasc.decoding.core.draft import Draft
from tasc.decoding.core.protocols import Drafter, Factory
from tasc.decoding.core.resources import Resources
from tasc.options.bounds import Bounded, within

if TYPE_CHECKING:
    import torch

CONTEXT = 3  # tokens of the longest context
MOST_ROWS = 1 << 24  # of 76 bytes each


@dataclass(frozen=True)
class RecyclingOptions(Bounded):
    """``rows`` contexts are kept at most; what is new weighs ``renewal`` in the mean of each."""

    rows: int = within(1 << 16, 4, MOST_ROWS)
    renewal: float = within(0.5, 0, 1)


def prepare(resources: Resources, options: RecyclingOptions) -> Factory:
    """See Method.prepare: sequences share the logits, and the weights."""
    logits = RecycledLogits(options.rows, options.renewal)
    weights = SourceWeights(0, False, False, 1.0, 0.0, False)

    def factory() -> Drafter:
        none = (False, 1, 1.0, 0.0, 0.0, 0, 0.0, False, False)  # no prompt, no match
        return NgramTrees(NgramDrafter([], None, weights, *none, resources.end), logits)

    return factory


class NgramTrees:
    """One sequence's n-grams; the logits that it reads, and drafts along, are shared.

    The logits of a step are entered once its tokens are learnt from: the row that a token was
    chosen by would predict it.
    """

    def __init__(
        self, native: NgramDrafter, logits: RecycledLogits | None, *, mark: bool = False
    ) -> None:
        """Draft with ``native``; ``mark``: outputs begin with one there."""
        self.native, self.logits, self.mark = native, logits, mark
        if logits is not None:
            native.recycle(logits)

    def start(self, prompt: np.ndarray) -> None:
        """Read ``prompt`` (L,) int32."""
        self.native.start(prompt, self.mark)
        self.recent = prompt[-CONTEXT:]
        self.said: Callable[[], None] | None = None

    def draft(self, max_nodes: int) -> Draft:
        """Return the tree of at most ``max_nodes`` nodes with the most probable paths."""
        tokens, parents, probabilities = self.native.draft(max_nodes)
        return Draft(tokens, parents, probabilities=probabilities)

    def sources(self) -> np.ndarray:
        """See ReportsSources."""
        return self.native.sources()

    def on_logits(self, draft: Draft, logits: "torch.Tensor") -> None:
        """See UsesLogits."""
        if self.logits is None:
            return
        from tasc.decoding.drafters.ngram.top_softmax import top_softmax  # torch

        tree, enter = (draft.tokens, draft.parents), self.logits.add_tree
        self.said = lambda: enter(self.recent, *tree, *top_softmax(logits))

    def observe(self, tokens: np.ndarray) -> None:
        """Go on with what the step committed; then enter its logits."""
        self.native.observe(tokens)
        if self.said is not None:
            self.said()
            self.said = None
        if self.logits is not None:
            self.recent = np.concatenate((self.recent, tokens))[-CONTEXT:]
