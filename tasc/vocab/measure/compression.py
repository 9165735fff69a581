"""Apply the merges of a search to outputs, also to ones that the search did not see."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from tasc.backend.base import Alias, Int32, Int64, Merge, UInt8


def savings(
    tokens: Int32, offsets: Int64, boundaries: UInt8 | None, steps: Iterable[Merge | Alias]
) -> Iterator[tuple[Int64, int]]:
    """Apply merges one after another to S samples, and yield what each saves.

    This is the samples that contain it (K,), once per occurrence, and the tokens that each
    occurrence saves. ``boundaries`` (T,) restricts occurrences as in MergeRequest.
    """
    tokens = tokens.copy()
    sample = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    first = np.zeros(len(tokens) + 1, bool)
    first[offsets] = True
    starts = first.copy() if boundaries is None else first | np.append(boundaries, 1).astype(bool)
    for step in steps:
        ids = step.ids
        found = _occurrences(tokens, sample, None if boundaries is None else starts, ids)
        yield sample[found], len(ids) - 1
        if not len(found):
            continue
        tokens[found] = step.new_id
        kept = np.ones(len(tokens), bool)
        kept[(found[:, None] + np.arange(1, len(ids))).ravel()] = False
        tokens, sample = tokens[kept], sample[kept]
        starts = starts[np.append(kept, True)]


def _occurrences(
    tokens: Int32, sample: Int64, starts: np.ndarray | None, ids: Sequence[int]
) -> np.ndarray:
    """Return the positions of admissible occurrences: non-overlapping, left to right."""
    n, last = len(ids), len(tokens) - len(ids) + 1
    if last <= 0:
        return np.empty(0, np.int64)
    here = sample[:last] == sample[n - 1 :]
    for position, token in enumerate(ids):
        here &= tokens[position : position + last] == token
    found = np.flatnonzero(here)
    if starts is not None:
        whole = starts[found] & starts[found + n]
        found = found[whole | ((n == 2) & ~starts[found + 1])]
    if len(found) < 2 or np.diff(found).min() >= n:
        return found
    kept: list[int] = []
    for at in found.tolist():
        if not kept or at - kept[-1] >= n:
            kept.append(at)
    return np.array(kept)
