"""Two vocabularies side by side: what they share, on texts and as sets, and which algorithm fits.

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
MANY_FORWARDS = 64  # for the ψ of one token: more cost too much
LARGE_SHARE = 0.5  # of what the target says


class Side(Record):
    """One tokenizer.

    ``size`` counts ids, special ones included; ``strings`` distinct strings. ``injective``: of
    ``tested`` texts, how many come back as they were; ``lost`` is the first that does not.
    """

    path: str
    size: int
    strings: int
    longest: int
    mean_bytes: float
    tested: int
    injective: int
    lost: str | None

    @classmethod
    def of(cls, tokenizer: LoadedTokenizer, strings: Strings, texts: Sequence[str]) -> "Side":
        """Describe ``tokenizer``, whose strings are ``strings``."""
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
    """Say whether decode(encode(text)) is the text."""
    return tokenizer.decode(tokenizer.encode([text]).tokens.tolist()) == text


class Pairing(Record):
    """A target's tokenizer and a drafter's."""

    target: Side
    draft: Side
    same: bool  # whether every id means the same in both
    shared: int  # distinct strings that both have
    share: float  # of the target's ids (table 5)
    used: int  # distinct target tokens in the texts
    used_shared: int  # of them the drafter's, too (table 6)
    shared_by_occurrence: float  # the same, each as often as it occurs
    segmented: int  # tokens whose segmentations were counted, the most frequent ones
    segmentations_median: float
    segmentations_max: int
    forwards: float  # of the drafter, for the ψ of one token by all its segmentations: the median
    unreachable: int  # used target tokens that no draft tokens spell
    draft_tokens_per_target_token: float  # in the texts


def pairing(target: LoadedTokenizer, draft: LoadedTokenizer, texts: Sequence[str]) -> Pairing:
    """Compare two tokenizers on ``texts``."""
    ours, theirs = Strings(target.vocabulary()), Strings(draft.vocabulary())
    shared = ours.ids.keys() & theirs.ids.keys()
    tokens = target.encode(texts).tokens
    used, counts = np.unique(tokens, return_counts=True)
    said = [ours.of_id[i] for i in used.tolist()]
    both = np.array([s in shared for s in said], bool)
    often = [said[i] for i in np.argsort(-counts, kind="stable")[:SEGMENTED] if said[i]]
    ways = np.array([theirs.segmentations(s) for s in often] or [0])
    reachable = [s for s, n in zip(often, ways, strict=False) if n]
    return Pairing(
        target=Side.of(target, ours, texts),
        draft=Side.of(draft, theirs, texts),
        same=ours.of_id == theirs.of_id,
        shared=len(shared),
        share=len(shared) / max(len(target.vocabulary()), 1),
        used=len(used),
        used_shared=int(both.sum()),
        shared_by_occurrence=float(counts[both].sum() / max(counts.sum(), 1)),
        segmented=len(often),
        segmentations_median=float(np.median(ways)),
        segmentations_max=int(ways.max()),
        forwards=float(np.median([theirs.forwards(s) for s in reachable])) if reachable else 0.0,
        unreachable=int((ways == 0).sum()) if often else 0,
        draft_tokens_per_target_token=len(draft.encode(texts).tokens) / max(len(tokens), 1),
    )


def recommend(pair: Pairing, acceptance: dict[str, float] | None) -> tuple[str, str]:
    """Return the algorithm to use and why (table 3, or measured acceptance where there is some).

    ``acceptance`` is α by algorithm, see table 2.
    """
    if pair.same:
        return "standard", "both have one vocabulary"
    few = pair.forwards <= MANY_FORWARDS
    if acceptance:
        alpha = dict(acceptance) if few else {k: v for k, v in acceptance.items() if k != "slrs"}
        best = max(alpha, key=lambda name: (alpha[name], name == "tli"))
        if alpha[best] < _NOTHING:
            return "slem", "sampled, next to nothing would be accepted of any; it drafts greedily"
        return best, f"the largest expected acceptance when sampling, {alpha[best]:.2f}"
    if pair.shared_by_occurrence >= LARGE_SHARE:
        return "tli", f"{pair.shared_by_occurrence:.0%} of what the target says are tokens of both"
    if pair.unreachable * 2 > pair.segmented:
        return "slem", "the drafter cannot spell most of the target's tokens; expect little"
    if few and pair.draft.mean_bytes <= _SHORT:
        return "slrs", f"draft tokens are short ({pair.draft.mean_bytes:.1f} bytes) and few shared"
    return "slem", "few tokens are shared, and draft tokens are long"


_SHORT = 3.0  # bytes
_NOTHING = 0.005  # expected acceptance that is written as 0.00
