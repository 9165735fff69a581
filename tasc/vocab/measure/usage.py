"""The use of new tokens by the saved tokenizer: occurrences, and those that split words."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tasc.analysis.outputs import Outputs
from tasc.backend.base import Int64
from tasc.tokenizer.loaded import Encoded


@dataclass(frozen=True)
class Usage:
    """Occurrences of new tokens in a set of outputs."""

    counts: Int64  # (M,) weighted occurrences of each
    splits: int  # weighted occurrences that split a word


def usage(
    outputs: Outputs, after: Encoded, strings: Sequence[bytes], added: Sequence[bytes]
) -> Usage:
    """Count the occurrences of tokens ``added`` to ``strings`` in ``after``, the encoded outputs.

    An occurrence splits a word if it starts or ends inside a base token, or if it spans pre-tokens
    and starts or ends inside one: " in the" in " in therapy". Pairs inside one pre-token do not.
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
    """Return the start and the end of each token, as bytes from there to the end of all texts.

    Texts are padded to one width, so equal numbers mean equal positions. Positions count from the
    end because one tokenizer may insert a space before a text.
    """
    sizes = lengths[encoded.tokens]
    total = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    ends_of_texts = np.repeat(total[encoded.offsets[1:]], np.diff(encoded.offsets))
    text = np.repeat(np.arange(len(encoded.offsets) - 1), np.diff(encoded.offsets))
    base = text << np.int64(32)
    return base + ends_of_texts - total[:-1], base + ends_of_texts - total[1:]


def _edges(encoded: Encoded, lengths: Int64, starts: np.ndarray) -> tuple[Int64, Int64]:
    """Return the positions between base tokens and between pre-tokens, both ascending."""
    begins, _ = _spans(encoded, lengths)
    ends = np.arange(len(encoded.offsets) - 1, dtype=np.int64) << np.int64(32)
    first = np.zeros(len(begins), bool)
    first[encoded.offsets[:-1][np.diff(encoded.offsets) > 0]] = True
    borders = begins[starts.astype(bool) | first]
    return np.unique(np.concatenate([begins, ends])), np.unique(np.concatenate([borders, ends]))
