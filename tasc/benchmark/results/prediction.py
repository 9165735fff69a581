"""What a bench predicted of itself."""

import numpy as np

from tasc.report.record import Interval, Record

_FEWEST = 4  # points: by chance one order in six of three is perfect, and one in two of two
_ROUGH = 1.5  # of the bounds of a speed-up: the machine was not the same from turn to turn


def speedup_interval(speedup: float, plain_ms: np.ndarray, ms: np.ndarray) -> Interval:
    """Return the 10th and 90th percentile of speed-ups predicted from single turns of T(k).

    Args:
        speedup: predicted from the medians of the turns; the interval reaches to it.
        plain_ms: (turns,) of what is compared with.
        ms: (turns,) by the same turns, or of another model, (others, 1).

    Returns:
        None where the turns are not known.
    """
    if not plain_ms.size or not ms.size:
        return None
    low, high = np.percentile(plain_ms / ms, [10, 90]).tolist()
    return min(low, speedup), max(high, speedup)


class StepFigures(Record):
    """What decoding steps commit in a simulation."""

    samples: int
    tokens_per_output: float
    steps_per_output: float
    tokens_per_step: float
    tokens_per_step_interval: tuple[float, float]
    accepted_by_position: tuple[float, ...]
    drafts: int
    """Steps with a draft."""
    drafted_tokens: int
    accepted_tokens: int
    """With the end tokens among them, as vLLM counts."""
    engine_accepted_length: float
    """By vLLM's definition: 1 + accepted tokens / drafts."""
    ms_per_sample: float | None = None
    """Predicted from T(k); None where that is not known."""
    speedup: float | None = None
    """Predicted."""
    speedup_interval: Interval = None
    """Holds it, and what four of five turns of T(k)'s measurement predict alone; None where that is
    not known. Wide where the machine had other work meanwhile."""

    @property
    def rough(self) -> bool:
        """Whether that interval is so wide that the prediction says little."""
        return self.speedup_interval is not None and (
            self.speedup_interval[1] > _ROUGH * self.speedup_interval[0]
        )


class PredictedCell(StepFigures):
    """What was predicted from the references alone, and how far off that was."""

    model: str
    method: str
    measured_speedup: float
    speedup_error: float
    """(predicted - measured) / measured."""
    measured_tokens_per_step: float
    tokens_per_step_error: float


class EntropyPoint(Record):
    """One vocabulary."""

    budget: int
    """Tokens more than the smallest vocabulary has."""
    h2: float
    """Rényi-2 entropy of the corpus' output tokens, bits."""
    runtime: float
    """Milliseconds a sample."""


class EntropyAndRuntime(Record):
    """Does H₂ predict the run time? Appendix E of Tsur et al."""

    method: str
    points: tuple[EntropyPoint, ...]
    tau: float | None
    """Kendall's, -1 for perfect prediction; None where all values of one side are equal."""
    p_value: float | None
    """Of the null hypothesis that it is 0."""
    directional_rate: float | None
    """Share of steps with rising H₂ on which the runtime falls; None where H₂ never rises."""
    rises: int
    """Such steps."""

    @property
    def tells(self) -> bool:
        """Whether there are points enough for a rank correlation to say something."""
        return len(self.points) >= _FEWEST


class Prediction(Record):
    """What was predicted of the bench before it ran."""

    cells: tuple[PredictedCell, ...]
    entropy: EntropyAndRuntime | None
    """None for fewer than two vocabularies."""
