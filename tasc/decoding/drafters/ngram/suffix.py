"""Suffix drafting: match the longest suffix of the sequence in the corpus or in its own past.

In the family of SAM-Decoding (Hu et al., 2024) and SuffixDecoding (Oliaro et al., 2024): the longer
of the two matches drafts a best-first tree of its continuations by their counts.

Departs: a suffix array, sorted up to 64 tokens, replaces the automaton of the corpus. Matches thus
have at most 64 tokens, and matches at more than 1,024 positions are sampled.
"""

from dataclasses import dataclass

from tasc._native import SuffixArray, SuffixDrafter
from tasc.decoding.core.protocols import Factory
from tasc.decoding.core.resources import Resources
from tasc.decoding.drafters.ngram.native import NativeDrafter
from tasc.errors import InputError
from tasc.options.bounds import MOST, Bounded, within
from tasc.tokenizer.loaded import Encoded


@dataclass(frozen=True)
class SuffixOptions(Bounded):
    """``longest``: longest match within the sequence; paths below ``min_probability`` end.

    ``width``: maximum number of children per node; 0 for no limit, 1 for a chain.
    """

    longest: int = within(24, 1, 63)
    min_probability: float = within(0.0, 0, 1, below=True)
    width: int = within(0, 0, MOST)


def prepare(resources: Resources, options: SuffixOptions) -> Factory:
    """Prepare suffix drafting with a suffix array of the outputs. Raises InputError for none."""
    outputs = resources.outputs
    if not len(outputs):
        raise InputError("the corpus has no outputs to match: pass some")
    whole = Encoded.of(outputs)
    corpus = SuffixArray(whole.tokens, whole.offsets, resources.end)
    return lambda: NativeDrafter(
        SuffixDrafter(
            corpus=corpus,
            longest=options.longest,
            min_probability=options.min_probability,
            width=options.width,
            end=resources.end,
        )
    )
