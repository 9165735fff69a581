"""The interfaces of drafters and verifiers. One object serves one sequence."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

import numpy as np

from tasc.decoding.core.draft import Draft

if TYPE_CHECKING:
    import torch

    from tasc.models.certified_head import Logits

# (draft tokens accepted so far in this step, the logits (V,) after them) -> adjusted logits (V,)
Adjust = Callable[[Sequence[int], "torch.Tensor"], "torch.Tensor"]
# Origins of drafts. A drafter's own sources are the first ones, by position.
SOURCES = ("corpus", "past outputs", "prompt", "logits", "other")


@dataclass(frozen=True)
class Needs:
    """What a drafter reads of the target's forwards, besides the committed tokens.

    The loop computes and keeps nothing else. With ``hidden_states`` it calls ``on_hidden_states``
    (see UsesHiddenStates), with ``logits`` it calls ``on_logits`` (see UsesLogits).
    ``top_logits``: how many of the largest logits of each row are read; None: all of them.
    ``drafts_first``: whether it may draft after the prompt, before any token is observed.
    ``slow_drafts``: which of its slow drafts are made (see DraftsMore).
    """

    hidden_states: bool = False
    logits: bool = False
    top_logits: int | None = None
    drafts_first: bool = True
    slow_drafts: Literal["none", "that pay", "all"] = "none"


NO_NEEDS = Needs()


class Drafter(Protocol):
    """Proposes the tokens of a sequence. Any draft is lossless; a good one is fast."""

    @property
    def needs(self) -> Needs:
        """What it reads of the forwards; the same as long as it exists."""

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
    """A drafter that reads the target's hidden states, and says so in ``needs``.

    The hook is called before each ``observe``, first for the prompt, after ``start``.
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
    """A drafter that learns from logits, including those of rejected nodes; ``needs`` says so."""

    def on_logits(self, draft: Draft, logits: "Logits") -> None:
        """Receive the logits (n + 1, V) of a step before it is observed.

        Row 0 follows the last token, row i + 1 follows node i of ``draft``. They are ``TopLogits``
        where the ``top_logits`` largest of each row are found without the others. ``draft`` is the
        tree that was scored, which may be a part of the proposed one. In the first call, after
        ``start``, row 0 follows the prompt.
        """


@runtime_checkable
class ReportsSources(Protocol):
    """A drafter that knows the sources of its drafts."""

    def sources(self) -> np.ndarray | None:
        """Return the source of each observed token, (T,) uint8 positions in ``SOURCES``.

        None if the drafter inside does not know them.

        In a mixture it is the source with the largest share of the token's probability. For a token
        that was not drafted it is the source that would have proposed it.
        """


@runtime_checkable
class DraftsMore(Protocol):
    """A drafter with a second, slow one, which is asked where that pays; ``needs`` says so."""

    @property
    def can_draft_more(self) -> bool:
        """Whether the slow drafter can draft now; a draft head waits for the prompt's states."""

    @property
    def reads_prompt(self) -> bool:
        """Whether the next slow draft takes longer, because it is the first of the sequence."""

    def draft_more(self, max_nodes: int) -> Draft:
        """Return a draft of both drafters in place of that of ``draft``, which was called before.

        Called at most once between two calls of ``observe``.
        """


@runtime_checkable
class LearnsTogether(Protocol):
    """A drafter whose sequences share what they learn from each token.

    Between the two calls it learns, but drafts as before, so that the order of sequences in a step
    changes no draft.
    """

    def defer_updates(self) -> None:
        """Keep what is learnt from now on apart."""

    def apply_updates(self) -> None:
        """Let drafts depend on what was learnt since ``defer_updates``."""


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
