"""llama.cpp's n-gram caches (common/ngram-cache.cpp), from a task's outputs.

A file is a list of records without a header, in the machine's byte order: the n-gram, int32[4]
padded with -1; the number m > 0 of continuations, int32; m pairs of token and count > 0, int32.
"""

import struct
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

STATIC, DYNAMIC = (2,), (1, 2, 3, 4)  # n-gram lengths that -lcs and -lcd use
_LONGEST = 4
Ngram = tuple[int, ...]


def count(
    outputs: Iterable[np.ndarray], end: int, lengths: Sequence[int]
) -> dict[Ngram, Counter[int]]:
    """Count the tokens after each n-gram of ``outputs`` (T_i,) int32, followed by ``end``."""
    counts: dict[Ngram, Counter[int]] = defaultdict(Counter)
    for output in outputs:
        tokens = [*output.tolist(), end]
        for n in lengths:
            for at in range(n, len(tokens)):
                counts[tuple(tokens[at - n : at])][tokens[at]] += 1
    return counts


def write(counts: dict[Ngram, Counter[int]], path: Path) -> None:
    """Write a cache, with sorted n-grams so that equal counts give equal files."""
    with path.open("wb") as file:
        for ngram in sorted(counts):
            padded = ngram + (-1,) * (_LONGEST - len(ngram))
            pairs = [number for pair in sorted(counts[ngram].items()) for number in pair]
            file.write(struct.pack(f"=5i{len(pairs)}i", *padded, len(pairs) // 2, *pairs))
