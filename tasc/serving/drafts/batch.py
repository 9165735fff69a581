"""A step of many sequences: each reads what was committed, and each drafts a chain.

``Together`` does a step of all sequences in one native call; ``OneByOne`` is the same in
plain Python, for any drafter. Chains follow the first child of each node of a draft.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from tasc._native import LookupDrafter, NgramDrafter, SuffixDrafter, step_chains
from tasc.decoding.core.draft import Draft
from tasc.decoding.core.protocols import Drafter

_NATIVE = (NgramDrafter, SuffixDrafter, LookupDrafter)


class Batch(Protocol):
    """How the drafters of a step, all made by one factory, are asked."""

    def step(
        self,
        drafters: Sequence[Drafter],
        tokens: Sequence[Sequence[int]],
        budgets: Sequence[int],
        least: float,
    ) -> list[list[int]]:
        """Return a chain of each, which has read ``tokens[i]``, ``budgets[i]`` tokens at most.

        One reads and drafts before the next one does. A token whose path is less likely than
        ``least`` is left out; a drafter that tells no probabilities is certain.
        """


def batch_for(drafter: Drafter) -> Batch:
    """Choose how drafters such as ``drafter`` are asked."""
    return Together() if isinstance(getattr(drafter, "native", None), _NATIVE) else OneByOne()


class OneByOne:
    """The definition, in plain Python."""

    def step(
        self,
        drafters: Sequence[Drafter],
        tokens: Sequence[Sequence[int]],
        budgets: Sequence[int],
        least: float,
    ) -> list[list[int]]:
        """See Batch.step."""
        chains = []
        for drafter, new, budget in zip(drafters, tokens, budgets, strict=True):
            drafter.observe(np.array(new, np.int32))
            chains.append(_first_path(drafter.draft(budget), least) if budget > 0 else [])
        return chains


class Together:
    """The same for drafters around a native one, called ``native``; all of one kind."""

    def step(
        self,
        drafters: Sequence[Any],
        tokens: Sequence[Sequence[int]],
        budgets: Sequence[int],
        least: float,
    ) -> list[list[int]]:
        """See Batch.step: what ends is remembered before the next one reads its tokens."""
        end = getattr(drafters[0], "end", None) if drafters else None
        if end is not None and any(len(new) and new[-1] == end for new in tokens):
            return OneByOne().step(drafters, tokens, budgets, least)
        return step_chains([drafter.native for drafter in drafters], tokens, budgets, least)


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
