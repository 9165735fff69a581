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
        positions = _occurrences(tokens, sample, None if boundaries is None else starts, ids)
        yield sample[positions], len(ids) - 1
        if not len(positions):
            continue
        tokens[positions] = step.new_id
        remains = np.ones(len(tokens), bool)
        remains[(positions[:, None] + np.arange(1, len(ids))).ravel()] = False
        tokens, sample = tokens[remains], sample[remains]
        starts = starts[np.append(remains, True)]


def _occurrences(
    tokens: Int32, sample: Int64, starts: np.ndarray | None, ids: Sequence[int]
) -> np.ndarray:
    """Return the positions of admissible occurrences: non-overlapping, left to right."""
    n = len(ids)
    last = len(tokens) - len(ids) + 1
    if last <= 0:
        return np.empty(0, np.int64)
    here = sample[:last] == sample[n - 1 :]
    for position, token in enumerate(ids):
        here &= tokens[position : position + last] == token
    positions = np.flatnonzero(here)
    if starts is not None:
        whole = starts[positions] & starts[positions + n]
        positions = positions[whole | ((n == 2) & ~starts[positions + 1])]
    if len(positions) < 2 or np.diff(positions).min() >= n:
        return positions
    chosen: list[int] = []
    for at in positions.tolist():
        if not chosen or at - chosen[-1] >= n:
            chosen.append(at)
    return np.array(chosen)
