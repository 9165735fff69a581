"""The one decoding loop. Every method is measured on it, so a speed-up is the method's own."""

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

import numpy as np
import torch

from tasc.errors import InputError
from tasc.models.target import Target
from tasc.spec.draft import Draft
from tasc.spec.protocols import Drafter
from tasc.spec.verify import greedy

Verify = Callable[[Draft, torch.Tensor], tuple[np.ndarray, int]]


@dataclass
class Timeline:
    """Seconds of one generation by part; ``forward`` counts the target's forwards after prefill."""

    prefill: float = 0.0
    draft: float = 0.0
    forward: float = 0.0
    verify: float = 0.0
    commit: float = 0.0

    @property
    def total(self) -> float:
        """Seconds from the prompt to the last token."""
        return self.prefill + self.draft + self.forward + self.verify + self.commit


@dataclass
class Generation:
    """The tokens of one sequence and how they came about.

    ``tokens`` (T,) int32 without the prompt, the end token included when it was produced.
    ``drafted[i]`` and ``accepted[i]`` count the nodes proposed and accepted at step i. The first
    token comes from the prefill, the others from steps.
    """

    tokens: np.ndarray
    drafted: list[int] = field(default_factory=list)
    accepted: list[int] = field(default_factory=list)
    timeline: Timeline = field(default_factory=Timeline)

    @property
    def decoding_steps(self) -> int:
        """Target calls that settled tokens, the prefill included."""
        return len(self.accepted) + 1


def generate(
    target: Target,
    drafter: Drafter,
    prompt: np.ndarray,
    *,
    max_new_tokens: int,
    end_ids: Collection[int] = (),
    budget: int = 12,
    verify: Verify = greedy,
) -> Generation:
    """Decode ``prompt`` (L,) int32 until an end token or ``max_new_tokens``.

    Each step drafts at most ``budget`` nodes, scores them with the last token in one forward, and
    keeps the verified path. An end token inside an accepted run ends the sequence there.
    """
    if max_new_tokens < 1:
        raise InputError(f"max_new_tokens must be at least 1, got {max_new_tokens}")
    clock = time.perf_counter
    times, ends = Timeline(), set(end_ids)
    begin = clock()
    row = target.prefill(prompt, max_new_tokens + budget)
    _, last = verify(Draft(), row)
    times.prefill = clock() - begin
    begin = clock()
    drafter.start(prompt)
    tokens = [last]
    drafter.observe(np.array(tokens, np.int32))
    times.draft += clock() - begin
    result = Generation(np.empty(0, np.int32), timeline=times)
    while last not in ends and len(tokens) < max_new_tokens:
        t0 = clock()
        draft = drafter.draft(min(budget, max_new_tokens - len(tokens) - 1))
        t1 = clock()
        rows = target.score(last, draft.tokens, draft.parents)
        t2 = clock()
        path, last = verify(draft, rows)
        t3 = clock()
        target.keep(path)
        settled = _until_end([*draft.tokens[path].tolist(), last], ends)
        last = settled[-1]
        tokens += settled
        t4 = clock()
        drafter.observe(np.array(settled, np.int32))
        result.drafted.append(len(draft))
        result.accepted.append(len(settled) - 1)
        times.draft += t1 - t0 + clock() - t4
        times.forward += t2 - t1
        times.verify += t3 - t2
        times.commit += t4 - t3
    result.tokens = np.array(tokens, np.int32)
    return result


def _until_end(settled: list[int], ends: set[int]) -> list[int]:
    for i, token in enumerate(settled):
        if token in ends:
            return settled[: i + 1]
    return settled
