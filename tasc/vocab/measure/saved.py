"""The saved tokenizer on outputs: the round trip, and the occurrences of new tokens."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from tasc.analysis.outputs import Outputs
from tasc.analysis.tokens import expand
from tasc.backend.base import Int64
from tasc.errors import InputError
from tasc.tokenizer.loaded import Encoded, LoadedTokenizer


def check_round_trip(
    texts: Sequence[str],
    before: Encoded,
    after: Encoded,
    base: LoadedTokenizer,
    saved: LoadedTokenizer,
) -> None:
    """Raise InputError unless every text decodes to itself, or to what ``base`` decodes.

    ``before`` and ``after`` are the texts in tokens of ``base`` and of ``saved``.
    """
    expected = base.decode_batch(_rows(before))
    actual = saved.decode_batch(_rows(after))
    broken = [
        (old, new)
        for text, old, new in zip(texts, expected, actual, strict=True)
        if new not in (old, text)
    ]
    if broken:
        raise InputError(
            f"{base.path}: with new tokens {len(broken)} of {len(texts)} outputs decode wrongly, "
            f"{broken[0][0][:60]!r} becomes {broken[0][1][:60]!r}: use the other --export"
        )


def changed_outputs(
    before: Encoded, after: Encoded, base_ids: Sequence[Sequence[int]], size: int
) -> int:
    """Count the texts whose tokens, with new tokens expanded, differ from ``before``.

    Token ``size + k`` expands to ``base_ids[k]``. With the ``added`` export, a text changes if a
    new token cuts a base token in two, as " in the" does in " in therapy".
    """
    flat = [np.arange(size, dtype=np.int32), *(np.asarray(ids, np.int32) for ids in base_ids)]
    lengths = np.array([0, *[1] * size, *map(len, base_ids)], np.int64)
    undone = expand(Encoded(np.concatenate(flat), np.cumsum(lengths)), after.tokens)
    texts = Encoded(undone.tokens, undone.offsets[after.offsets])
    pairs = zip(_rows(before), _rows(texts), strict=True)
    return sum(old != new for old, new in pairs)


def _rows(encoded: Encoded) -> list[list[int]]:
    tokens = encoded.tokens.tolist()
    return [tokens[begin:end] for begin, end in pairwise(encoded.offsets.tolist())]


def usage(
    outputs: Outputs, after: Encoded, strings: Sequence[bytes], added: Sequence[bytes]
) -> tuple[Int64, int]:
    """Count the occurrences of tokens ``added`` to ``strings`` in ``after``, the encoded outputs.

    Returns the weighted occurrences (M,) of each, and of all those that split a word.
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
    return counts, int(weights[inside | (crossed & open_ended)].sum())


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
