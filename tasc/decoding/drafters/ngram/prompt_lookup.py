"""Prompt lookup: copy what followed the last time the end of the sequence stood in it.

Saxena, "Prompt Lookup Decoding" (2023), as transformers defines it (``prompt_lookup_num_tokens``,
``max_matching_ngram_size``): the longest n-gram, n_max..1, that ends the sequence is looked for
from the front, and the first position it stands at gives a chain. The end token closes a chain.
"""

from dataclasses import dataclass

import numpy as np

from tasc._native import LookupDrafter
from tasc.decoding.core.draft import Draft
from tasc.decoding.core.protocols import Factory
from tasc.decoding.core.resources import Resources
from tasc.options.bounds import LONGEST, Bounded, within


@dataclass(frozen=True)
class PromptLookupOptions(Bounded):
    """``n_max``: longest n-gram to match; ``chain``: tokens copied at most, 0 for the budget."""

    n_max: int = within(2, 1, LONGEST)
    chain: int = within(10, 0, LONGEST)


def prepare(resources: Resources, options: PromptLookupOptions) -> Factory:
    """See Method.prepare."""
    return lambda: PromptLookup(resources.end, options)


class PromptLookup:
    """One sequence's drafter; it keeps the sequence and nothing else."""

    def __init__(self, end: int, options: PromptLookupOptions) -> None:
        """Draft chains that stop behind ``end``."""
        self.native = LookupDrafter(options.n_max, options.chain, end)

    def start(self, prompt: np.ndarray) -> None:
        """Begin with ``prompt`` (L,) int32."""
        self.native.start(prompt)

    def draft(self, max_nodes: int) -> Draft:
        """Return the continuation of the first match, at most ``max_nodes`` tokens."""
        tokens, parents, _ = self.native.draft(max_nodes)
        return Draft(tokens, parents)

    def observe(self, tokens: np.ndarray) -> None:
        """Append what the step committed."""
        self.native.observe(tokens)
