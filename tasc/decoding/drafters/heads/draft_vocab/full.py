"""Which rows of the LM head a draft head scores: all of them, or a part.

Pruning concerns drafts only. The target verifies over its whole vocabulary, so the output stays
what it was, also when sampling: trees are chosen without randomness and carry no distributions.
"""

from typing import Protocol

from torch import Tensor, nn


class DraftVocabulary(Protocol):
    """The columns in which one sequence is drafted; what sequences share, its factory holds.

    Who calls what when: the EAGLE drafter calls ``start`` once a sequence, before any other call.
    Then each step: ``logits`` once for each level of the tree (the first after the head's layer has
    read what the last step committed, so what ``observe`` began may still be under way till then),
    ``drafted`` with the finished tree, and, once the target has verified it, ``observe``. The
    prompt's own next token is observed like any other, before the first draft; a step that drafts
    nothing is only observed. Tensors are on the target's device, and nothing need wait for it.
    """

    @property
    def ids(self) -> Tensor | None:
        """(n_active,) int64: the target token of each column; None where column i is token i.

        A column with the logit -inf may have the id -1: it stands for no token.
        Asked for after each ``logits``; it may change between steps, not within one.
        """

    def start(self, prompt: Tensor, hidden: Tensor) -> None:
        """Begin a sequence.

        ``prompt`` (L,) int64; ``hidden`` (L, d) are the target's last hidden states there, so that
        ``lm_head(hidden[i])`` are its logits after ``prompt[i]``: take them in pieces, (L, V) may
        be large.
        """

    def logits(self, hidden: Tensor) -> Tensor:
        """Return the logits (m, n_active) of the head's states ``hidden`` (m, d)."""

    def drafted(self, tokens: Tensor) -> None:
        """Learn the tree's tokens (n,) int64, in the order of its nodes; a token may come twice."""

    def observe(self, tokens: Tensor, rows: Tensor, kept: Tensor) -> None:
        """Learn what a step committed.

        ``tokens`` (k,) int64: the accepted path and the bonus token, fewer where the output ended.
        ``rows`` (n + 1, V) are the target's logits of the whole verified tree, and ``kept`` (k,)
        int64 says which of them committed the tokens: ``rows[kept[i]]`` are those of ``tokens[i]``.
        """


class Unchanging:
    """What a vocabulary that never changes makes of the calls of a sequence: nothing."""

    def start(self, prompt: Tensor, hidden: Tensor) -> None:
        """See DraftVocabulary.start."""

    def drafted(self, tokens: Tensor) -> None:
        """See DraftVocabulary.drafted."""

    def observe(self, tokens: Tensor, rows: Tensor, kept: Tensor) -> None:
        """See DraftVocabulary.observe."""


class Full(Unchanging):
    """The whole vocabulary, as in EAGLE-2. Sequences may share it."""

    ids: Tensor | None = None

    def __init__(self, lm_head: nn.Linear) -> None:
        """Score with the target's own ``lm_head`` (V, d)."""
        self.lm_head = lm_head

    def logits(self, hidden: Tensor) -> Tensor:
        """See DraftVocabulary.logits."""
        rows: Tensor = self.lm_head(hidden)
        return rows
