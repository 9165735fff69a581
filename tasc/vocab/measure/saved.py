"""The saved tokenizer on outputs: the round trip, and the outputs that it changes."""

from collections.abc import Sequence

import numpy as np

from tasc.analysis.tokens import expand
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
    expected = base.decode_batch(before.split())
    actual = saved.decode_batch(after.split())
    decoded = zip(texts, expected, actual, strict=True)
    broken = [(old, new) for text, old, new in decoded if new not in (old, text)]
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
    pairs = zip(before.split(), texts.split(), strict=True)
    return sum(not np.array_equal(old, new) for old, new in pairs)
