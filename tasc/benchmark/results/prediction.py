"""What a bench predicted of itself."""

from tasc.benchmark.results.record import Record


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
    ms_per_sample: float | None
    """Predicted from T(k); None where that is not known."""
    speedup: float | None
    """Predicted."""


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
    """Kendall's."""
    p_value: float | None
    directional_rate: float | None
    rises: int


class Prediction(Record):
    """What was predicted of the bench before it ran."""

    cells: tuple[PredictedCell, ...]
    entropy: EntropyAndRuntime | None
    """None for fewer than two vocabularies."""
