"""The merge search: calls ``tasc._native`` and wraps the result."""

import numpy as np

from tasc import _native
from tasc.backend.base import Alias, Merge, MergeRequest, MergeResult, refusals
from tasc.progress import Progress, silent


def merge_search(request: MergeRequest, progress: Progress = silent) -> MergeResult:
    """Find up to ``budget`` n-grams that are worth a new token (Tsur et al., Algorithm 1).

    The search runs on one core, releases the GIL and can be interrupted. Ties go to the larger n,
    then to the smaller ids. An n-gram with the text of a base token is skipped; one with the text
    of a new token becomes that token. Raises InputError for an invalid request.
    """
    boundaries = request.boundaries
    with refusals():
        fields = _native.merge_search(
            tokens=np.ascontiguousarray(request.tokens),
            offsets=np.ascontiguousarray(request.offsets),
            weights=np.ascontiguousarray(request.weights),
            strings=np.frombuffer(b"".join(request.vocabulary), np.uint8),
            string_ends=np.cumsum([0, *map(len, request.vocabulary)], dtype=np.int64),
            special=np.array(sorted(request.special), np.int32),
            boundaries=np.ascontiguousarray(() if boundaries is None else boundaries, np.uint8),
            budget=request.budget,
            n_max=request.n_max,
            alpha=request.alpha_pcs,
            conditional=request.conditional,
            min_frequency=request.min_frequency,
            min_reward=request.min_reward,
            admit=request.admit,
            tick=lambda accepted: progress("merge search", accepted, request.budget),
        )
    merges = tuple(
        Merge(ids, new_id, string, count, count * (len(ids) - 1), pcs, tokens, h2, h1, inner)
        for ids, new_id, string, count, inner, pcs, tokens, h2, h1 in fields["merges"]
    )
    progress("merge search", len(merges), len(merges))
    return MergeResult(
        merges=merges,
        tokens_before=fields["tokens_before"],
        h2_before=fields["h2_before"],
        h1_before=fields["h1_before"],
        rejected=fields["rejected"],
        aliases=tuple(Alias(*alias) for alias in fields["aliases"]),
    )
