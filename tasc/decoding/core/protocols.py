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


def reader(drafter: Drafter) -> UsesHiddenStates | None:
    """Return what of ``drafter``, or of the drafter that it holds, reads the target's states."""
    inner = getattr(drafter, "drafter", drafter)
    return inner if isinstance(inner, UsesHiddenStates) else None


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
