"""N-gram trie: a trie of the context's n-grams, matched with the end of the sequence.

"Faster In-Context Learning for LLMs via N-Gram Trie Speculative Decoding", section 3: a window of n
tokens slides over the context; the trie contains each window and its sub-prefixes (Algorithm 1). A
min-heap selects the num_draft most frequent nodes below the longest matching suffix (L_p to 1
tokens) as one tree. n = 13 and L_p = 3 as in the paper.

Departs: shorter windows cover the end of the context, so that its last tokens are in the trie. As
in the paper, decoding does not change the trie.
"""

from dataclasses import dataclass

import numpy as np

from tasc._native import NgramTrie as NativeTrie
from tasc.decoding.core.draft import Draft
from tasc.decoding.core.protocols import NO_NEEDS, Factory
from tasc.decoding.core.resources import Resources
from tasc.errors import InputError
from tasc.options.bounds import MOST_NODES, Bounded, within


@dataclass(frozen=True)
class NgramTrieOptions(Bounded):
    """``n``: window; ``prefix``: L_p; ``num_draft``: most frequent nodes, 0 for the budget."""

    n: int = within(13, 2, 64)
    prefix: int = within(3, 1, 63)
    num_draft: int = within(0, 0, MOST_NODES)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.prefix >= self.n:
            raise InputError(f"an n-gram trie needs 1 ≤ prefix < n, got {self.prefix} and {self.n}")


def prepare(resources: Resources, options: NgramTrieOptions) -> Factory:  # noqa: ARG001
    """Prepare the n-gram trie of the prompt."""
    return lambda: NgramTrie(options)


class NgramTrie:
    """One sequence's drafter."""

    needs = NO_NEEDS

    def __init__(self, options: NgramTrieOptions) -> None:
        self.options = options
        self.trie = NativeTrie(options.n, options.prefix)

    def start(self, prompt: np.ndarray) -> None:
        self.trie.build(prompt)
        self.tail = prompt[-self.options.prefix :]

    def draft(self, max_nodes: int) -> Draft:
        most = self.options.num_draft or max_nodes
        tokens, parents, _ = self.trie.draft(self.tail, most, max_nodes)
        return Draft(tokens, parents)

    def observe(self, tokens: np.ndarray) -> None:
        self.tail = np.concatenate([self.tail, tokens])[-self.options.prefix :]
