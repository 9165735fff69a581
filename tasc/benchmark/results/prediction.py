"""Predictions of a bench, made before it ran."""

import numpy as np

from tasc.report.record import Interval, Record

FEWEST = 10  # outputs; resampling fewer gives intervals that are far too narrow
_FEWEST_POINTS = 4  # of three points, one order in six is perfect by chance
_ROUGH = 1.5  # ratio of the bounds of a speed-up: the machine was loaded meanwhile


def speedup_interval(speedup: float, plain_ms: np.ndarray, ms: np.ndarray) -> Interval:
    """Return the 10th and 90th percentile of speed-ups predicted from single turns of T(k).

    ``plain_ms`` (turns,) are without drafts, ``ms`` of the same turns, or (others, 1) of another
    model. The interval includes ``speedup``, the ratio of the medians. None if no turns are known.
    """
    if not plain_ms.size or not ms.size:
        return None
    low, high = np.percentile(plain_ms / ms, [10, 90]).tolist()
    return min(low, speedup), max(high, speedup)


class StepFigures(Record):
    """Simulated decoding steps."""

    samples: int
    tokens_per_output: float
    steps_per_output: float
    tokens_per_step: float
    tokens_per_step_interval: tuple[float, float]
    accepted_by_position: tuple[float, ...]
    drafts: int
    """Number of steps with a draft."""
    drafted_tokens: int
    accepted_tokens: int
    """Including drafted end tokens, as vLLM counts."""
    engine_accepted_length: float
    """By vLLM's definition: 1 + accepted tokens / drafts."""
    ms_per_sample: float | None = None
    """Predicted from T(k); None if that is not known."""
    speedup: float | None = None
    """Predicted."""
    speedup_interval: Interval = None
    """The 10th to 90th percentile of the speed-ups that single turns of T(k)'s measurement predict;
    None if the turns are not known. Wide if the machine was loaded."""

    @property
    def rough(self) -> bool:
        """Whether that interval is too wide for the prediction to mean much."""
        low, high = self.speedup_interval or (1.0, 1.0)
        return high > _ROUGH * low

    @property
    def interval(self) -> Interval:
        """The interval of the tokens per step; None below FEWEST outputs."""
        return self.tokens_per_step_interval if self.samples >= FEWEST else None


class PredictedCell(StepFigures):
    """The prediction for a cell from the references alone, and its error."""

    model: str
    method: str
    measured_speedup: float
    speedup_error: float
    """(predicted - measured) / measured."""
    measured_tokens_per_step: float
    tokens_per_step_error: float


class EntropyPoint(Record):
    """The entropy and the run time with one vocabulary."""

    budget: int
    """Number of tokens more than in the smallest vocabulary."""
    h2: float
    """Rényi-2 entropy of the corpus' output tokens, in bits."""
    runtime: float
    """Milliseconds per sample."""


class EntropyAndRuntime(Record):
    """Does H₂ predict the run time? Appendix E of Tsur et al."""

    method: str
    points: tuple[EntropyPoint, ...]
    tau: float | None
    """Kendall's, -1 for a perfect prediction; None if all values of one side are equal."""
    p_value: float | None
    """Of the null hypothesis that tau is 0."""
    directional_rate: float | None
    """Share of the rises in H₂ on which the run time falls; None if H₂ never rises."""
    rises: int
    """Number of rises in H₂."""

    @property
    def tells(self) -> bool:
        """Whether there are enough points for a rank correlation."""
        return len(self.points) >= _FEWEST_POINTS


class Prediction(Record):
    """The predictions of a bench."""

    cells: tuple[PredictedCell, ...]
    entropy: EntropyAndRuntime | None
    """None below two vocabularies."""
