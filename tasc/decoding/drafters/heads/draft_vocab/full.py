"""The interface of a draft vocabulary, and the whole vocabulary.

Pruning concerns drafts only. The target verifies over its whole vocabulary, so the output does not
change. This also holds when sampling: trees are built without randomness and carry no
distributions.
"""

from typing import Protocol

from torch import Tensor, nn

from tasc.models.packed import PackedLinear


class DraftVocabulary(Protocol):
    """The tokens that one sequence can draft, as columns of its draft logits.

    EAGLE calls ``start`` once per sequence. Each step then calls ``logits`` once per level of the
    tree, ``drafted`` with the finished tree, and ``observe`` after verification. The first call of
    ``logits`` follows the head's forward over the tokens of the last step, so work that ``observe``
    started may overlap with it. The first output token is observed before the first draft; a step
    without a draft is only observed. Tensors are on the target's device, and no call needs to wait
    for the device.
    """

    @property
    def ids(self) -> Tensor | None:
        """(n_active,) int64: the token of each column; None if column i is token i.

        A column with logit -inf may have the id -1, which is no token. The ids may change between
        steps, but not within one.
        """

    def start(self, prompt: Tensor, hidden: Tensor) -> None:
        """Begin a sequence.

        ``prompt`` (L,) int64; ``hidden`` (L, d) are the target's last hidden states, so that
        ``lm_head(hidden[i])`` are its logits after ``prompt[i]``. All of them, (L, V), may not fit
        into memory: compute them in pieces.
        """

    def logits(self, hidden: Tensor) -> Tensor:
        """Return the logits (m, n_active) of the head's states ``hidden`` (m, d)."""

    def drafted(self, tokens: Tensor) -> None:
        """Receive the tree's tokens (n,) int64 in node order; a token may occur twice."""

    def observe(self, tokens: Tensor, rows: Tensor, kept: Tensor) -> None:
        """Receive the result of a step.

        ``tokens`` (k,) int64: the accepted path and the bonus token, cut at the end of the output.
        ``rows`` (n + 1, V): the target's logits of the whole verified tree. ``kept`` (k,) int64:
        ``rows[kept[i]]`` are the logits that committed ``tokens[i]``.
        """


class Unchanging:
    """A vocabulary that does not change during a sequence: the ``rows`` of a linear layer."""

    rows: nn.Linear | PackedLinear

    def logits(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self.rows(hidden)
        return logits

    def start(self, prompt: Tensor, hidden: Tensor) -> None: ...

    def drafted(self, tokens: Tensor) -> None: ...

    def observe(self, tokens: Tensor, rows: Tensor, kept: Tensor) -> None: ...


class Full(Unchanging):
    """The whole vocabulary, as in EAGLE-2. Sequences may share it."""

    ids: Tensor | None = None

    def __init__(self, lm_head: nn.Linear | PackedLinear) -> None:
        self.rows = lm_head
