"""A step of many sequences: each drafter reads its committed tokens and drafts a chain.

``together`` runs all sequences in one native call; ``one_by_one`` is the same in plain Python, for
any drafter. A chain follows the first child of each node of a draft.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from tasc._native import LookupDrafter, NgramDrafter, SuffixDrafter, ThreadPool, step_chains
from tasc.decoding.core.draft import Draft
from tasc.decoding.core.protocols import Drafter, LearnsTogether

# (drafters of one factory, new tokens of each, maximum chain length of each, minimum probability of
# a token's path) -> chain of each
Step = Callable[[Sequence[Any], Sequence[Sequence[int]], Sequence[int], float], list[list[int]]]


def step_for(drafter: Drafter, threads: int = 1) -> Step:
    """Return the step function for drafters like ``drafter``; ``threads`` share a large step."""
    native = getattr(drafter, "native", None)
    if isinstance(native, NgramDrafter | SuffixDrafter | LookupDrafter):
        return partial(together, pool=ThreadPool(threads)) if threads > 1 else together
    return one_by_one


def one_by_one(
    drafters: Sequence[Drafter],
    tokens: Sequence[Sequence[int]],
    max_nodes: Sequence[int],
    min_probability: float,
) -> list[list[int]]:
    """Let drafter i read ``tokens[i]`` and return its chain of at most ``max_nodes[i]`` tokens.

    Shared source weights change only after all have drafted. A chain ends before a token whose path
    has less than ``min_probability``; drafts without probabilities count as certain.
    """
    learners = [d for d in drafters if isinstance(d, LearnsTogether)] if len(drafters) > 1 else []
    for learning in learners:
        learning.defer_updates()
    chains = []
    for drafter, new, most in zip(drafters, tokens, max_nodes, strict=True):
        drafter.observe(np.array(new, np.int32))
        path = _first_path(drafter.draft(most), min_probability) if most > 0 else []
        chains.append(path[:most])  # determined text does not count towards a maximum
    for learning in learners:
        learning.apply_updates()
    return chains


def together(
    drafters: Sequence[Any],
    tokens: Sequence[Sequence[int]],
    max_nodes: Sequence[int],
    min_probability: float,
    pool: ThreadPool | None = None,
) -> list[list[int]]:
    """Do the same for drafters of one kind with a ``native`` drafter inside.

    If a sequence ends, all run one by one, so that those after it can draft from its output. The
    threads of ``pool`` share a large step; the chains are the same.
    """
    end = getattr(drafters[0], "end", None) if drafters else None
    if end is not None and any(len(new) and new[-1] == end for new in tokens):
        return one_by_one(drafters, tokens, max_nodes, min_probability)
    natives = [drafter.native for drafter in drafters]
    return step_chains(natives, tokens, max_nodes, min_probability, pool)


def _first_path(draft: Draft, min_probability: float) -> list[int]:
    path = draft.first_children()
    if draft.probabilities is not None:
        likely = (draft.probabilities[path] >= min_probability).tolist()
        path = path[: [*likely, False].index(False)]
    tokens: list[int] = draft.tokens[path].tolist()
    return tokens
