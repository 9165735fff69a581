"""Prompt lookup: copy the continuation of an earlier occurrence of the sequence's end.

Saxena, "Prompt Lookup Decoding" (2023), as transformers defines it (``prompt_lookup_num_tokens``,
``max_matching_ngram_size``): take the longest n-gram, n_max to 1 tokens, that ends the sequence and
occurs earlier; the continuation of its first occurrence is the chain. An end token ends the chain.
"""

from dataclasses import dataclass

from tasc._native import LookupDrafter
from tasc.decoding.core.draft import Draft
from tasc.decoding.core.protocols import Factory
from tasc.decoding.core.resources import Resources
from tasc.decoding.drafters.ngram.native import NativeDrafter
from tasc.options.bounds import LONGEST, Bounded, within


@dataclass(frozen=True)
class PromptLookupOptions(Bounded):
    """``n_max``: longest n-gram to match; ``chain``: longest copy, 0 for the budget."""

    n_max: int = within(2, 1, LONGEST)
    chain: int = within(10, 0, LONGEST)


def prepare(resources: Resources, options: PromptLookupOptions) -> Factory:
    """Prepare prompt lookup."""
    return lambda: PromptLookup(LookupDrafter(options.n_max, options.chain, resources.end))


class PromptLookup(NativeDrafter):
    """One sequence's drafter. The probabilities of a copy are not known."""

    def draft(self, max_nodes: int) -> Draft:
        tokens, parents, _ = self.native.draft(max_nodes)
        return Draft(tokens, parents)
