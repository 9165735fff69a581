"""A drafter against reference outputs, no model: what a target that writes them would accept."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tasc.backend.tree import greedy_walk
from tasc.spec.drafters import Factory


@dataclass(frozen=True)
class Replay:
    """What a replay counted; ``tokens`` include each output's end token.

    ``accepted`` (steps,) int32 are the draft tokens accepted at each step.
    """

    tokens: int
    steps: int
    accepted: np.ndarray
    drafted: int
    draft_seconds: float

    @property
    def tokens_per_step(self) -> float:
        """Mean acceptance length, the bonus token included."""
        return self.tokens / max(self.steps, 1)

    def by_position(self, positions: int) -> list[float]:
        """Share of steps that accept at least 1, 2, …, ``positions`` draft tokens."""
        return [float((self.accepted >= k).mean()) for k in range(1, positions + 1)]


def replay(
    factory: Factory,
    prompts: Sequence[np.ndarray],
    outputs: Sequence[np.ndarray],
    end: int,
    budget: int,
) -> Replay:
    """Replay ``outputs`` (T_i,) int32 after ``prompts`` (L_i,) int32, teacher-forced.

    Each output is followed by ``end``. A step settles the drafted tokens that agree with the
    output and one more, so the first token costs a step like any other.
    """
    clock = time.perf_counter
    tokens, drafted, seconds = 0, 0, 0.0
    accepted: list[int] = []
    for prompt, output in zip(prompts, outputs, strict=True):
        drafter = factory()
        truth = np.append(output, np.int32(end)).astype(np.int32)
        begin = clock()
        drafter.start(prompt)
        seconds += clock() - begin
        at = 0
        while at < len(truth):
            begin = clock()
            draft = drafter.draft(budget)
            seconds += clock() - begin
            path = _follow(draft.tokens, draft.parents, truth[at:])
            settled = truth[at : at + path + 1]
            begin = clock()
            drafter.observe(settled)
            seconds += clock() - begin
            at += len(settled)
            accepted.append(min(path, len(settled)))
            drafted += len(draft)
        tokens += len(truth)
    return Replay(tokens, len(accepted), np.array(accepted, np.int32), drafted, seconds)


def _follow(tokens: np.ndarray, parents: np.ndarray, truth: np.ndarray) -> int:
    """Count the tokens of ``truth`` that a path of the tree spells."""
    depths = np.zeros(len(tokens) + 1, np.int64)
    for i, parent in enumerate(parents.tolist()):
        depths[i + 1] = depths[parent + 1] + 1
    # A target that writes the reference has, after a node of depth d, the arg-max truth[d].
    said = np.append(truth, np.full(max(len(tokens), 1), -1, np.int32))
    return len(greedy_walk(tokens, parents, said[depths].astype(np.int32)))
