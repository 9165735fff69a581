"""Figures of decoding steps, simulated or measured, each defined once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tasc.decoding.core.generation import Generation
from tasc.models.cost_model import CostModel

_RESAMPLES = 1000  # of the bootstrap
_TAIL = 0.025  # on either side of the interval


@dataclass(frozen=True, eq=False)
class StepStats:
    """Counts of decoding steps after the prefill."""

    tokens: np.ndarray  # (N,) per output, including the end token
    steps: np.ndarray  # (N,) per output
    drafted: np.ndarray  # (S,) nodes drafted per step
    accepted: np.ndarray  # (S,) draft tokens committed per step, without the bonus token
    draft_seconds: float  # spent in the drafter
    # Simulation only: outputs whose end token was drafted after the prefill. ``accepted`` counts it
    # as a bonus token.
    ended: int = 0
    prefilled: np.ndarray | int = 1  # (N,) tokens that the prefill of each output committed
    scored: np.ndarray | int = 0  # (N,) nodes that the prefill scored; simulation only

    @classmethod
    def of(cls, generations: Sequence[Generation]) -> "StepStats":
        return cls(
            np.array([len(g.tokens) for g in generations]),
            np.array([len(g.accepted) for g in generations]),
            np.array([nodes for g in generations for nodes in g.drafted], int),
            np.array([tokens for g in generations for tokens in g.accepted], int),
            sum(g.timeline.draft for g in generations),
            prefilled=np.array([g.prefilled for g in generations], int),
        )

    @property
    def samples(self) -> int:
        return len(self.tokens)

    @property
    def tokens_per_step(self) -> float:
        """Mean number of tokens committed per step (accepted + 1), including the end token.

        The prefill and its tokens do not count; steps without a draft do. 1 if there are no steps.
        """
        later = self.tokens - self.prefilled
        return float(_tokens_per_step(later.sum(), self.steps.sum()))

    @property
    def interval(self) -> tuple[float, float]:
        """95 % confidence interval of ``tokens_per_step``, by bootstrap over outputs."""
        rng = np.random.default_rng(0)
        drawn = [rng.integers(self.samples, size=self.samples) for _ in range(_RESAMPLES)]
        later = self.tokens - self.prefilled
        tokens = np.array([later[outputs].sum() for outputs in drawn])
        steps = np.array([self.steps[outputs].sum() for outputs in drawn])
        low, high = np.quantile(_tokens_per_step(tokens, steps), [_TAIL, 1 - _TAIL]).tolist()
        return low, high

    @property
    def engine_counts(self) -> tuple[int, int, int]:
        """Drafts, drafted tokens and accepted tokens, as vLLM's metrics count them.

        There, steps without a draft do not count, and a drafted end token is accepted.
        """
        drafts, accepted = (self.drafted > 0).sum(), self.accepted.sum()
        return int(drafts), int(self.drafted.sum()), int(accepted) + self.ended

    @property
    def engine_accepted_length(self) -> float:
        """Mean accepted length by vLLM's definition: 1 + accepted / drafts; 1 without drafts."""
        drafts, _, accepted = self.engine_counts
        return 1 + accepted / drafts if drafts else 1.0

    @property
    def accepted_by_position(self) -> list[float]:
        """Share of steps that accept at least 1, 2, … draft tokens."""
        most = int(self.accepted.max(initial=0))
        return [float((self.accepted >= k).mean()) for k in range(1, most + 1)]

    def ms_per_sample(self, prompts: Sequence[np.ndarray], cost: CostModel) -> float:
        """Predict milliseconds per output: prefill of ``prompts`` (L_i,), drafts, and forwards."""
        read = np.array([max(len(prompt), 1) for prompt in prompts]) + self.scored
        seconds = float(cost.at(read).sum() + cost.at(self.drafted + 1).sum()) + self.draft_seconds
        return 1000 * seconds / self.samples

    def ms_by_turn(self, prompts: Sequence[np.ndarray], cost: CostModel) -> np.ndarray:
        """Return ``ms_per_sample`` for each turn of the measurement of ``cost``: (turns,)."""
        return np.array([self.ms_per_sample(prompts, turn) for turn in cost.turns])

    def to_dict(self) -> dict[str, Any]:
        """Return the figures; ``steps_per_output`` includes the prefill, as in a bench."""
        drafts, drafted, accepted = self.engine_counts
        return {
            "drafts": drafts,
            "drafted_tokens": drafted,
            "accepted_tokens": accepted,
            "engine_accepted_length": self.engine_accepted_length,
            "samples": self.samples,
            "tokens_per_output": float(self.tokens.mean()),
            "steps_per_output": float(self.steps.mean()) + 1,
            "tokens_per_step": self.tokens_per_step,
            "tokens_per_step_interval": list(self.interval),
            "accepted_by_position": self.accepted_by_position,
        }


def _tokens_per_step(tokens: Any, steps: Any) -> np.ndarray:  # noqa: ANN401 - numbers or arrays
    return np.asarray(np.where(steps > 0, tokens / np.maximum(steps, 1), 1.0))
