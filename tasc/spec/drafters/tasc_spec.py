"""TASC-spec: a mixture of corpus and prompt n-grams as drafter.

Tsur et al., "Task-Centric Acceleration of Small-Language Models", section 5.2: contexts of n_max..1
tokens, longest first; p_mixed = λ p_corp + (1 - λ) p_prompt; the prompt model covers the prompt and
what has been generated; where neither side has a hit, the most frequent token. λ = 0.75, p_min = 5.

Departs: a mark that no text contains stands before every output, in corpus and sequence alike, so
that the beginning of an answer is predicted from the beginnings of the corpus and not from the
prompt's last words. Drafts are best-first trees by path probability; width 1 is the paper's chain.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tasc._native import LocalTable, NgramIndex, draft_tree
from tasc.errors import InputError
from tasc.spec.draft import Draft

OUTPUT_MARK = -2  # stands before an output; no token has this id


@dataclass(frozen=True)
class TascSpecOptions:
    """How to count and mix.

    The paper's values are n_max 5, λ 0.75, p_min 5, width 1 (a chain). Replays of MASSIVE, UD tags
    and MedQuAD accept more with p_min 1 than with 2 or 5, so that is the default. A node is left
    out when its path is less likely than ``min_probability``: on a CPU it costs a few percent of a
    forward, more than such a path brings.
    """

    n_max: int = 5
    lambda_: float = 0.75
    p_min: int = 1
    width: int = 0
    min_probability: float = 0.05

    def __post_init__(self) -> None:
        """Refuse values outside their range."""
        if self.n_max < 1:
            raise InputError(f"n_max must be at least 1, got {self.n_max}")
        if not 0 <= self.lambda_ <= 1:
            raise InputError(f"lambda must lie between 0 and 1, got {self.lambda_}")
        if self.p_min < 1:
            raise InputError(f"p_min must be at least 1, got {self.p_min}")
        if not 0 <= self.min_probability < 1:
            raise InputError(f"min_probability must be in [0, 1), got {self.min_probability}")
        if self.width < 0:
            raise InputError(f"width must be 0 (no limit) or more, got {self.width}")


def corpus_index(outputs: Sequence[np.ndarray], end: int, options: TascSpecOptions) -> NgramIndex:
    """Count the n-grams of ``outputs``, each (T_i,) int32; equal ones are visited once."""
    counts = Counter(o.tobytes() for o in outputs)
    samples = [np.frombuffer(data, np.int32) for data in counts]
    if not samples:
        raise InputError("the corpus has no outputs to count n-grams in")
    mark, stop = np.array([OUTPUT_MARK], np.int32), np.array([end], np.int32)
    tokens = np.concatenate([part for s in samples for part in (mark, s, stop)])
    offsets = np.cumsum([0, *(len(s) + 2 for s in samples)], dtype=np.int64)
    weights = np.fromiter(counts.values(), np.int64, len(counts))
    return NgramIndex(tokens, offsets, weights, options.n_max, options.p_min)


class TascSpec:
    """One sequence's drafter; the corpus index is shared."""

    def __init__(self, index: NgramIndex, end: int, options: TascSpecOptions) -> None:
        """Draft from ``index``; ``end`` is the token that ends an output."""
        self.index, self.end, self.options = index, end, options
        self.local = LocalTable(options.n_max)

    def start(self, prompt: np.ndarray) -> None:
        """Read the prompt into the local n-gram table."""
        self.local.clear()
        self.local.extend(prompt)
        self.local.extend(np.array([OUTPUT_MARK], np.int32))

    def draft(self, budget: int) -> Draft:
        """Return the tree of at most ``budget`` nodes with the most probable paths."""
        o = self.options
        tokens, parents, probabilities = draft_tree(
            self.index, self.local, o.lambda_, budget, o.width, o.min_probability, self.end
        )
        return Draft(tokens, parents, probabilities=probabilities)

    def observe(self, tokens: np.ndarray) -> None:
        """Extend the local table by what the step settled."""
        self.local.extend(tokens)
