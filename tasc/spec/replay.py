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

    For each step, (steps,) int32: ``accepted`` draft tokens, ``settled`` ones, and draft ``nodes``.
    """

    tokens: int
    steps: int
    accepted: np.ndarray
    settled: np.ndarray
    nodes: np.ndarray
    draft_seconds: float

    @property
    def drafted(self) -> int:
        """Nodes of all drafts."""
        return int(self.nodes.sum())

    @property
    def acceptance_length(self) -> float:
        """Mean tokens that a step with a draft settles, as a bench measures it; 1 without any."""
        settled = self.settled[self.nodes > 0]
        return float(settled.mean()) if len(settled) else 1.0

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
    *,
    prefilled: bool = False,
) -> Replay:
    """Replay ``outputs`` (T_i,) int32 after ``prompts`` (L_i,) int32, teacher-forced.

    Each output is followed by ``end``. A step settles the drafted tokens that agree with the
    output and one more, so the first token costs a step like any other; with ``prefilled`` the
    prompt's forward settles it, as in a decoding loop, and no step of it is counted.
    """
    clock = time.perf_counter
    tokens, seconds = 0, 0.0
    counts: list[tuple[int, int, int]] = []  # accepted, settled, nodes of each step
    for prompt, output in zip(prompts, outputs, strict=True):
        drafter = factory()
        truth = np.append(output, np.int32(end)).astype(np.int32)
        begin = clock()
        drafter.start(prompt)
        at = 0
        if prefilled:
            at = 1
            drafter.observe(truth[:1])
        seconds += clock() - begin
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
            counts.append((min(path, len(settled)), len(settled), len(draft)))
        tokens += len(truth)
    accepted, settled_by_step, nodes = np.array(counts, np.int32).reshape(-1, 3).T
    return Replay(tokens, len(counts), accepted, settled_by_step, nodes, seconds)


def _follow(tokens: np.ndarray, parents: np.ndarray, truth: np.ndarray) -> int:
    """Count the tokens of ``truth`` that a path of the tree spells."""
    depths = np.zeros(len(tokens) + 1, np.int64)
    for i, parent in enumerate(parents.tolist()):
        depths[i + 1] = depths[parent + 1] + 1
    # A target that writes the reference has, after a node of depth d, the arg-max truth[d].
    said = np.append(truth, np.full(max(len(tokens), 1), -1, np.int32))
    return len(greedy_walk(tokens, parents, said[depths].astype(np.int32)))
