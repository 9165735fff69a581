"""A step of many sequences: each reads what was committed, and each drafts a chain.

``together`` does a step of all sequences in one native call; ``one_by_one`` is the same in plain
Python, for any drafter. Chains follow the first child of each node of a draft.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from tasc._native import LookupDrafter, NgramDrafter, SuffixDrafter, ThreadPool, step_chains
from tasc.decoding.core.draft import Draft
from tasc.decoding.core.protocols import Drafter

_NATIVE = (NgramDrafter, SuffixDrafter, LookupDrafter)

# Drafters of a step, all made by one factory; what each of them reads, how many tokens it drafts at
# most, and how likely a token's path must be at least. Returns a chain of each.
Step = Callable[[Sequence[Any], Sequence[Sequence[int]], Sequence[int], float], list[list[int]]]


def step_for(drafter: Drafter, threads: int = 1) -> Step:
    """Choose how drafters such as ``drafter`` are asked; ``threads`` share a large step."""
    if isinstance(getattr(drafter, "native", None), _NATIVE):
        return partial(together, pool=ThreadPool(threads)) if threads > 1 else together
    return one_by_one


def one_by_one(
    drafters: Sequence[Drafter],
    tokens: Sequence[Sequence[int]],
    budgets: Sequence[int],
    least: float,
) -> list[list[int]]:
    """Let drafter i read ``tokens[i]`` and return its chain, ``budgets[i]`` tokens at most.

    The weights of sources, which several share, stay as they are until all have drafted. A token
    whose path is less likely than ``least`` is left out; a drafter that tells no probabilities is
    certain.
    """
    natives = [getattr(drafter, "native", None) for drafter in drafters]
    learning = [n for n in natives if isinstance(n, NgramDrafter)] if len(natives) > 1 else []
    for native in learning:
        native.defer_updates()
    chains = []
    for drafter, new, budget in zip(drafters, tokens, budgets, strict=True):
        drafter.observe(np.array(new, np.int32))
        chains.append(_first_path(drafter.draft(budget), least) if budget > 0 else [])
    for native in learning:
        native.apply_updates()
    return chains


def together(
    drafters: Sequence[Any],
    tokens: Sequence[Sequence[int]],
    budgets: Sequence[int],
    least: float,
    pool: ThreadPool | None = None,
) -> list[list[int]]:
    """Do the same for drafters around a native one, called ``native``; all of one kind.

    What ends is remembered before the next one reads its tokens. The threads of ``pool`` share a
    large step; chains are the same.
    """
    end = getattr(drafters[0], "end", None) if drafters else None
    if end is not None and any(len(new) and new[-1] == end for new in tokens):
        return one_by_one(drafters, tokens, budgets, least)
    return step_chains([drafter.native for drafter in drafters], tokens, budgets, least, pool)


def _first_path(draft: Draft, least: float) -> list[int]:
    found: list[int] = []
    last = -1
    for i, (token, parent) in enumerate(
        zip(draft.tokens.tolist(), draft.parents.tolist(), strict=True)
    ):
        if parent != last:
            continue
        if draft.probabilities is not None and draft.probabilities[i] < least:
            break
        found.append(token)
        last = i
    return found
