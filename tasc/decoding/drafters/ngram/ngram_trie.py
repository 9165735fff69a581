"""N-gram trie: a trie of the context's n-grams, entered by the end of the sequence.

"Faster In-Context Learning for LLMs via N-Gram Trie Speculative Decoding", section 3: a window of n
tokens slides over the context, its sub-prefixes are inserted too (Algorithm 1), and the num_draft
most frequent nodes below the longest matching suffix (L_p..1 tokens) are drafted through a min-heap
as one tree. n = 13 and L_p = 3 are the paper's.

Departs: windows at the end of the context are shorter instead of absent, so that its last tokens
are known. As in the paper, the trie is not changed while decoding.
"""

from dataclasses import dataclass

import numpy as np

from tasc._native import NgramTrie as NativeTrie
from tasc.decoding.core.draft import Draft
from tasc.decoding.core.protocols import Factory
from tasc.decoding.core.resources import Resources
from tasc.errors import InputError
from tasc.options.bounds import MOST_NODES, Bounded, within


@dataclass(frozen=True)
class NgramTrieOptions(Bounded):
    """``n``: window; ``prefix``: L_p; ``num_draft``: nodes kept by frequency, 0 for the budget."""

    n: int = within(13, 2, 64)
    prefix: int = within(3, 1, 63)
    num_draft: int = within(0, 0, MOST_NODES)

    def __post_init__(self) -> None:
        """Refuse values outside their range."""
        super().__post_init__()
        if self.prefix >= self.n:
            raise InputError(f"an n-gram trie needs 1 ≤ prefix < n, got {self.prefix} and {self.n}")


def prepare(resources: Resources, options: NgramTrieOptions) -> Factory:  # noqa: ARG001
    """See Method.prepare."""
    return lambda: NgramTrie(options)


class NgramTrie:
    """One sequence's drafter."""

    def __init__(self, options: NgramTrieOptions) -> None:
        """Draft with the window and prefix of ``options``."""
        self.options = options
        self.trie = NativeTrie(options.n, options.prefix)
        self.tail = np.empty(0, np.int32)

    def start(self, prompt: np.ndarray) -> None:
        """Build the trie of ``prompt`` (L,) int32."""
        self.trie.build(prompt)
        self.tail = prompt[-self.options.prefix :]

    def draft(self, max_nodes: int) -> Draft:
        """Return the most frequent continuations as one tree of at most ``max_nodes`` nodes."""
        tokens, parents, _ = self.trie.draft(
            self.tail, self.options.num_draft or max_nodes, max_nodes
        )
        return Draft(tokens, parents)

    def observe(self, tokens: np.ndarray) -> None:
        """Move on by what the step committed."""
        self.tail = np.concatenate([self.tail, tokens])[-self.options.prefix :]
