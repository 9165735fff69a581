"""Compare two vocabularies: shared tokens, as sets and in texts, and the algorithm that fits.

Timor et al., "Accelerating LLM Inference with Lossless Speculative Decoding Algorithms for
Heterogeneous Vocabularies": tables 3, 5, 6, 8 and 9.
"""

from collections.abc import Sequence

import numpy as np

from tasc.report.record import Record
from tasc.tokenizer.loaded import LoadedTokenizer
from tasc.vocab.strings import Strings

PREFIX = 100  # characters of a text that injectivity is tested on, as in Appendix F
SEGMENTED = 2000  # tokens of the texts whose segmentations are counted
MANY_FORWARDS = 64  # most draft forwards for the ψ of one token at which SLRS can pay
LARGE_SHARE = 0.5  # of the target's tokens in the texts
_SHORT = 3.0  # mean bytes of a draft token
_NOTHING = 0.005  # expected acceptance that prints as 0.00


class Side(Record):
    """One tokenizer."""

    path: str
    size: int  # ids, including special ones
    strings: int  # distinct strings
    longest: int  # bytes of the longest string
    mean_bytes: float  # per string
    tested: int  # texts
    injective: int  # of them, texts that decode to themselves
    lost: str | None  # the first text that does not

    @classmethod
    def of(cls, tokenizer: LoadedTokenizer, strings: Strings, texts: Sequence[str]) -> "Side":
        prefixes = [text[:PREFIX] for text in texts]
        lost = [text for text in prefixes if not round_trips(tokenizer, text)]
        return cls(
            path=tokenizer.path,
            size=len(tokenizer.vocabulary()),
            strings=len(strings.ids),
            longest=strings.longest,
            mean_bytes=float(np.mean([len(s) for s in strings.ids])) if strings.ids else 0.0,
            tested=len(prefixes),
            injective=len(prefixes) - len(lost),
            lost=lost[0] if lost else None,
        )


def round_trips(tokenizer: LoadedTokenizer, text: str) -> bool:
    """Return whether decode(encode(text)) is the text."""
    return tokenizer.decode(tokenizer.encode([text]).tokens.tolist()) == text


class Pairing(Record):
    """The tokenizers of a target and of a drafter."""

    target: Side
    draft: Side
    same: bool  # whether every id has the same string in both
    shared: int  # distinct strings in both
    share: float  # of the target's ids (table 5)
    used: int  # distinct target tokens in the texts
    used_shared: int  # of them, tokens that the drafter also has (table 6)
    shared_by_occurrence: float  # the same share, weighted by occurrences
    segmented: int  # tokens whose segmentations were counted, the most frequent ones
    segmentations_median: float
    segmentations_max: int
    forwards: float  # median number of draft forwards for the ψ of one token
    unreachable: int  # used target tokens that no draft tokens spell
    draft_tokens_per_target_token: float  # in the texts


def pairing(target: LoadedTokenizer, draft: LoadedTokenizer, texts: Sequence[str]) -> Pairing:
    """Compare two tokenizers on ``texts``."""
    ours, theirs = Strings(target.vocabulary()), Strings(draft.vocabulary())
    shared = ours.ids.keys() & theirs.ids.keys()
    tokens = target.encode(texts).tokens
    used, counts = np.unique(tokens, return_counts=True)
    strings = [ours.of_id[i] for i in used.tolist()]
    both = np.array([s in shared for s in strings], bool)
    frequent = [strings[i] for i in np.argsort(-counts, kind="stable")[:SEGMENTED] if strings[i]]
    ways = np.array([theirs.segmentations(s) for s in frequent] or [0])
    reachable = [s for s, n in zip(frequent, ways, strict=False) if n]
    return Pairing(
        target=Side.of(target, ours, texts),
        draft=Side.of(draft, theirs, texts),
        same=ours.of_id == theirs.of_id,
        shared=len(shared),
        share=len(shared) / max(len(target.vocabulary()), 1),
        used=len(used),
        used_shared=int(both.sum()),
        shared_by_occurrence=float(counts[both].sum() / max(counts.sum(), 1)),
        segmented=len(frequent),
        segmentations_median=float(np.median(ways)),
        segmentations_max=int(ways.max()),
        forwards=float(np.median([theirs.forwards(s) for s in reachable])) if reachable else 0.0,
        unreachable=int((ways == 0).sum()) if frequent else 0,
        draft_tokens_per_target_token=len(draft.encode(texts).tokens) / max(len(tokens), 1),
    )


def recommend(pair: Pairing, acceptance: dict[str, float] | None) -> tuple[str, str]:
    """Return the algorithm to use and the reason (table 3, or measured acceptance if given).

    ``acceptance`` is α by algorithm (table 2).
    """
    if pair.same:
        return "standard", "both have the same vocabulary"
    few = pair.forwards <= MANY_FORWARDS
    if acceptance:
        alpha = dict(acceptance) if few else {k: v for k, v in acceptance.items() if k != "slrs"}
        best = max(alpha, key=lambda name: (alpha[name], name == "tli"))
        if alpha[best] < _NOTHING:
            return "slem", "hardly any sampled draft would be accepted; SLEM drafts greedily"
        return best, f"the largest expected acceptance when sampling, {alpha[best]:.2f}"
    if pair.shared_by_occurrence >= LARGE_SHARE:
        return "tli", f"{pair.shared_by_occurrence:.0%} of the target's output tokens are shared"
    if pair.unreachable * 2 > pair.segmented:
        return "slem", "the drafter cannot spell most of the target's tokens; expect a small gain"
    if few and pair.draft.mean_bytes <= _SHORT:
        return "slrs", f"draft tokens are short ({pair.draft.mean_bytes:.1f} bytes) and few shared"
    return "slem", "few tokens are shared, and draft tokens are long"
