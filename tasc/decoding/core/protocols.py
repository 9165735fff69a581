"""The interfaces of drafters and verifiers. One object serves one sequence."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from tasc.decoding.core.draft import Draft

if TYPE_CHECKING:
    import torch

    from tasc.models.certified_head import Logits

# (draft tokens accepted so far in this step, the logits (V,) after them) -> adjusted logits (V,)
Adjust = Callable[[Sequence[int], "torch.Tensor"], "torch.Tensor"]
# Origins of drafts. A drafter's own sources are the first ones, by position.
SOURCES = ("corpus", "past outputs", "prompt", "logits", "other")


class Drafter(Protocol):
    """Proposes the tokens of a sequence. Any draft is lossless; a good one is fast."""

    def start(self, prompt: np.ndarray) -> None:
        """Forget the last sequence and read ``prompt`` (L,) int32. Called once per sequence."""

    def draft(self, max_nodes: int) -> Draft:
        """Propose at most ``max_nodes`` nodes after the observed tokens; change no state.

        A sequence that is decoded alone also drafts after the prompt, before any token is observed.
        """

    def observe(self, tokens: np.ndarray) -> None:
        """Learn the tokens (k,) int32 that a step committed: accepted path and bonus token."""


Factory = Callable[[], Drafter]  # makes the drafter of one sequence


@runtime_checkable
class UsesHiddenStates(Protocol):
    """A drafter that reads the target's hidden states. The loop keeps them only for such drafters.

    The hook is called before each ``observe``, first for the prompt, after ``start``. The drafter
    drafts after the prompt only if it has a true attribute ``drafts_first``.
    """

    def on_hidden_states(
        self, hidden: "torch.Tensor", logits: "torch.Tensor", path: np.ndarray
    ) -> None:
        """Receive the target's states of the tokens that it read.

        Args:
            hidden: (n + 1, d), last hidden states of the last token and the tree; for the prompt
                (L + n, d), of all its tokens and the tree.
            logits: (n + 1, V), the logits after the last token and each node of the tree.
            path: (k,) int32, the accepted nodes.
        """


@runtime_checkable
class UsesLogits(Protocol):
    """A drafter that learns from logits, including those of rejected nodes.

    One that has ``top_logits`` reads only so many of the largest logits of each row, and receives
    ``TopLogits`` where they are found without the others.
    """

    def on_logits(self, draft: Draft, logits: "Logits") -> None:
        """Receive the logits (n + 1, V) of a step before it is observed.

        Row 0 follows the last token, row i + 1 follows node i of ``draft``. ``draft`` is the tree
        that was scored, which may be a part of the proposed one. In the first call, after
        ``start``, row 0 follows the prompt.
        """


@runtime_checkable
class ReportsSources(Protocol):
    """A drafter that knows the sources of its drafts."""

    def sources(self) -> np.ndarray:
        """Return the source of each observed token, (T,) uint8 positions in ``SOURCES``.

        In a mixture it is the source with the largest share of the token's probability. For a token
        that was not drafted it is the source that would have proposed it.
        """


@runtime_checkable
class HasCostlyDrafts(Protocol):
    """A drafter some of whose drafts take much longer than others.

    ``max_seconds``: time that the next draft may take; unlimited unless set. ``was_costly``:
    whether the last draft was a costly one.
    """

    max_seconds: float
    was_costly: bool


def inner(drafter: Drafter) -> Drafter:
    """Return the drafter inside adaptive and constrained ones, or ``drafter`` itself."""
    while wrapped := getattr(drafter, "drafter", None):
        drafter = wrapped
    return drafter


class Verifier(Protocol):
    """Accepts a path of a draft, given the target's logits.

    ``logits`` (n + 1, V), of any float dtype: row 0 follows the last token, row i + 1 follows
    node i. Rows are adjusted and turned into distributions only when verification reaches them, in
    the order of the committed tokens. Returns the accepted nodes (k,) int32, root to leaf, and the
    bonus token.

    Raises InputError for an invalid tree, logits of another shape, or a row with no finite maximum.
    """

    def __call__(
        self, draft: Draft, logits: "torch.Tensor", adjust: Adjust | None = None
    ) -> tuple[np.ndarray, int]:
        """Verify one step."""
