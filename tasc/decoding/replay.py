"""Outputs that were decoded before, shown to drafters again, so that they know what they knew.

The loop is the same one, so sequences of a batch begin and end in the same order; no forward runs
and nothing is drafted, as drafting teaches a drafter nothing (``core/protocols.py``).
"""

from collections.abc import Collection, Sequence
from functools import partial
from typing import Any, cast

import numpy as np
import torch

from tasc.decoding.core.draft import Draft
from tasc.decoding.core.generation import Generation
from tasc.decoding.core.protocols import Adjust, Drafter, Factory
from tasc.decoding.decode import Request, generate_all
from tasc.models.target import Target


def replay(
    prompts: Sequence[np.ndarray],
    generations: Sequence[Generation],
    factory: Factory,
    *,
    max_new_tokens: int,
    end_ids: Collection[int],
    batch_size: int,
) -> None:
    """Let the drafters of ``factory`` read ``prompts`` (L_i,) int32 and what was generated.

    ``prompts``, limits and ``batch_size`` are those of the call that made ``generations``; nothing
    may have cut its outputs but end tokens and the limit.
    """
    told = [_Told(made) for made in generations]
    generate_all(
        cast(Target, _Silent()),
        [
            Request(prompt, partial(one.taught_by, factory), one.verify)
            for prompt, one in zip(prompts, told, strict=True)
        ],
        max_new_tokens=max_new_tokens,
        end_ids=end_ids,
        budget=max_new_tokens,
        batch_size=batch_size,
    )


class _Told:
    """A drafter that proposes what was accepted, and the verifier that accepts it."""

    drafter: Drafter

    def __init__(self, made: Generation) -> None:
        self.tokens, self.accepted = made.tokens, iter(made.accepted)
        self.known = 0

    def taught_by(self, factory: Factory) -> "_Told":
        self.drafter = factory()
        return self

    def start(self, prompt: np.ndarray) -> None:
        self.drafter.start(prompt)

    def draft(self, budget: int) -> Draft:  # noqa: ARG002 - what was accepted was within it
        count = next(self.accepted)
        chain = np.arange(-1, count - 1, dtype=np.int32)
        return Draft(self.tokens[self.known : self.known + count], chain)

    def observe(self, tokens: np.ndarray) -> None:
        self.drafter.observe(tokens)
        self.known += len(tokens)

    def verify(
        self,
        draft: Draft,
        logits: torch.Tensor,  # noqa: ARG002 - decided before
        adjust: Adjust | None = None,  # noqa: ARG002
    ) -> tuple[np.ndarray, int]:
        count = len(draft)
        return np.arange(count, dtype=np.int32), int(self.tokens[self.known + count])


class _Silent:
    """A target that computes nothing: what the loop asks of one, and rows that nobody reads."""

    device, states = torch.device("cpu"), None

    def join(self, prompts: Sequence[np.ndarray], **_: Any) -> torch.Tensor:  # noqa: ANN401
        return torch.empty(len(prompts), 0)

    def score(self, last: Sequence[int], trees: Sequence[Any]) -> list[torch.Tensor]:  # noqa: ARG002
        return [torch.empty(len(tokens) + 1, 0) for tokens, _ in trees]

    def check(self, *_: object) -> None: ...

    def begin(self, *_: object) -> None: ...

    def keep(self, *_: object) -> None: ...

    def leave(self, *_: object) -> None: ...
