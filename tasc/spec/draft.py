"""The one draft type: a tree of proposed tokens in arrays."""

from dataclasses import dataclass, field

import numpy as np

from tasc.errors import InputError


def _no_tokens() -> np.ndarray:
    return np.empty(0, np.int32)


@dataclass(frozen=True)
class Draft:
    """A tree of proposed tokens in the target's vocabulary.

    ``tokens`` (n,) int32; ``parents`` (n,) int32: node i continues node ``parents[i]`` < i, and -1
    is the last accepted token. A chain has parents -1, 0, 1, …; no nodes at all is plain decoding.
    ``probabilities`` (n,) float32, where the drafter knows them: of the path from the last token
    through each node.
    """

    tokens: np.ndarray = field(default_factory=_no_tokens)
    parents: np.ndarray = field(default_factory=_no_tokens)
    probabilities: np.ndarray | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        """Refuse a tree whose parents do not precede their children."""
        if self.tokens.dtype != np.int32 or self.parents.dtype != np.int32:
            raise InputError(
                f"a draft holds int32 arrays, got {self.tokens.dtype} and {self.parents.dtype}"
            )
        n = len(self.tokens)
        if len(self.parents) != n:
            raise InputError(f"a draft of {n} tokens needs {n} parents, got {len(self.parents)}")
        if self.probabilities is not None and len(self.probabilities) != n:
            raise InputError(
                f"a draft of {n} tokens needs {n} probabilities, got {len(self.probabilities)}"
            )
        bad = (self.parents < -1) | (self.parents >= np.arange(n, dtype=np.int32))
        if bad.any():
            i = int(bad.argmax())
            raise InputError(
                f"draft node {i} has parent {self.parents[i]}: a parent is -1 or an earlier node"
            )

    def __len__(self) -> int:
        """Return the number of nodes."""
        return len(self.tokens)


def chain(tokens: np.ndarray) -> Draft:
    """Return the draft in which each of ``tokens`` (n,) int32 continues the one before it."""
    return Draft(tokens, np.arange(-1, len(tokens) - 1, dtype=np.int32))
