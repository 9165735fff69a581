"""How the saved tokenizer uses its new tokens: how often, and whether they split words."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tasc.analysis.outputs import Outputs
from tasc.backend.base import Int64
from tasc.tokenizer.loaded import Encoded


@dataclass(frozen=True)
class Usage:
    """New tokens in a set of outputs, as the saved tokenizer splits them."""

    counts: Int64  # (M,) weighted occurrences of each
    splits: int  # of them: occurrences that split a word, see ``usage``


def usage(
    outputs: Outputs, after: Encoded, strings: Sequence[bytes], added: Sequence[bytes]
) -> Usage:
    """Count the occurrences of new tokens in ``after``, the outputs in tokens of either kind.

    ``strings`` are those of the base tokens, ``added`` those of the new ones. An occurrence splits
    a word if it begins or ends inside a base token, or runs from one pre-token into another and
    begins or ends inside one: " in the" in " in therapy". Pairs inside one pre-token do not.
    """
    size = len(strings)
    new = after.tokens >= size
    weights = np.repeat(outputs.weights, np.diff(after.offsets))[new]
    positions = after.tokens[new] - size
    counts = np.bincount(positions, weights, minlength=len(added)).astype(np.int64)
    lengths = np.array([len(string) for string in (*strings, *added)], np.int64)
    tokens, borders = _edges(outputs.encoded, lengths, outputs.starts)
    begins, ends = _spans(after, lengths)
    begins, ends = begins[new], ends[new]
    inside = ~(np.isin(begins, tokens) & np.isin(ends, tokens))
    crossed = np.searchsorted(borders, begins) > np.searchsorted(borders, ends, "right")
    open_ended = ~(np.isin(begins, borders) & np.isin(ends, borders))
    splits = int(weights[inside | (crossed & open_ended)].sum())
    return Usage(counts, splits)


def _spans(encoded: Encoded, lengths: Int64) -> tuple[Int64, Int64]:
    """Where each token begins and ends, as the number of bytes from there to the end of all texts.

    Each text counts as wide as the widest, so that equal numbers mean equal positions. Counted from
    the end because a space that is put before a text may be missing from one side.
    """
    sizes = lengths[encoded.tokens]
    total = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    ends_of_texts = np.repeat(total[encoded.offsets[1:]], np.diff(encoded.offsets))
    text = np.repeat(np.arange(len(encoded.offsets) - 1), np.diff(encoded.offsets))
    base = text << np.int64(32)
    return base + ends_of_texts - total[:-1], base + ends_of_texts - total[1:]


def _edges(encoded: Encoded, lengths: Int64, starts: np.ndarray) -> tuple[Int64, Int64]:
    """The positions between base tokens, and those between pre-tokens; both ascending."""
    begins, _ = _spans(encoded, lengths)
    ends = np.arange(len(encoded.offsets) - 1, dtype=np.int64) << np.int64(32)
    first = np.zeros(len(begins), bool)
    first[encoded.offsets[:-1][np.diff(encoded.offsets) > 0]] = True
    borders = begins[starts.astype(bool) | first]
    return np.unique(np.concatenate([begins, ends])), np.unique(np.concatenate([borders, ends]))
