"""What drafters and verifiers are. One object serves one sequence."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from tasc.decoding.core.draft import Draft

if TYPE_CHECKING:
    import torch

# (tokens this step accepted so far, a row of logits (V,) after them) -> the row (V,) to decide on
Adjust = Callable[[Sequence[int], "torch.Tensor"], "torch.Tensor"]


class Drafter(Protocol):
    """Proposes tokens; never decides. Any draft is lossless, a good one is fast.

    The constructor takes what sequences share.
    """

    def start(self, prompt: np.ndarray) -> None:
        """Forget the last sequence and read ``prompt`` (L,) int32. Called once a sequence."""

    def draft(self, budget: int) -> Draft:
        """Propose at most ``budget`` nodes after what was observed; changes nothing."""

    def observe(self, tokens: np.ndarray) -> None:
        """Learn the tokens (k,) int32 that a step committed: accepted path and bonus token."""


Factory = Callable[[], Drafter]  # makes the drafter of one sequence


@runtime_checkable
class UsesHiddenStates(Protocol):
    """What a drafter is besides, if it reads the target's own states; others cost nothing for it.

    ``read`` is called before each ``observe``; the first time, after ``start``, for the prompt.
    """

    def read(self, hidden: "torch.Tensor", logits: "torch.Tensor", path: np.ndarray) -> None:
        """Take what the target made of the tokens that it read.

        ``hidden`` (n + 1, d): its last hidden states of the last token and the tree; of the whole
        prompt, (L, d), the first time. ``logits`` (n + 1, V): its logits there, (1, V) of the
        prompt's last token. ``path`` (k,) int32: the accepted nodes.
        """


@runtime_checkable
class UsesLogits(Protocol):
    """What a drafter is besides, if it learns from logits, also of nodes that are not accepted."""

    def read_logits(self, draft: Draft, logits: "torch.Tensor") -> None:
        """Take the logits (n + 1, V) of a step, before it is observed.

        Row 0 is after the last token, row i + 1 after node i of ``draft``, which is what was scored
        and may be a part of what was drafted. The first time, after ``start``, it is empty, and the
        row is after the prompt.
        """


# What drafts are made from; a drafter's own are the first ones, by their position.
SOURCES = ("corpus", "past outputs", "prompt", "logits", "other")


@runtime_checkable
class TellsSources(Protocol):
    """What a drafter is besides, if it knows what its drafts come from."""

    def sources(self) -> np.ndarray:
        """Return what most of the probability of each observed token came from, (T,) uint8.

        Positions in ``SOURCES``: of a mixture, the source with the largest share of it. Of tokens
        that were not drafted it says what would have proposed them.
        """


@runtime_checkable
class Spends(Protocol):
    """What a drafter is besides, if some of its drafts take much longer than others.

    ``spend``: seconds that the next draft may take, no limit where nobody sets it. ``asked``:
    whether the last draft was one of the long ones.
    """

    spend: float
    asked: bool


def inner(drafter: Drafter) -> Drafter:
    """Return the drafter that ``drafter`` holds to a policy, or itself."""
    held: Drafter = getattr(drafter, "drafter", drafter)
    return held


class Verifier(Protocol):
    """Decides: from a draft and the target's logits to the accepted path and the token after it.

    ``logits`` (n + 1, V) are logits of any float dtype: row 0 after the last token, row i + 1 after
    node i. They are adjusted and made into distributions only where verification comes, in the
    order of the tokens they commit. Returns the accepted nodes (k,) int32, root to leaf, and the
    bonus token.

    Raises InputError for a tree that is none, logits that do not fit it, or a row that leaves no
    token to choose.
    """

    def __call__(
        self, draft: Draft, logits: "torch.Tensor", adjust: Adjust | None = None
    ) -> tuple[np.ndarray, int]:
        """Verify one step."""
