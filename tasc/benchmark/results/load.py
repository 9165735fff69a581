"""``results.json`` of ``tasc load``, typed."""

from collections import Counter
from collections.abc import Sequence
from statistics import median
from typing import Literal, Self

from pydantic import NonNegativeFloat, NonNegativeInt

from tasc.benchmark.results.comparisons import SpeedRatio
from tasc.benchmark.results.conditions import RunResult, Sample, SplitTask
from tasc.report.record import Record

Answer = tuple[str, int, float | None, str]  # text, tokens, milliseconds, reason of a failure


class LoadSettings(Record):
    """Options of the run. Requests have temperature 0 and are not streamed."""

    concurrency: int
    """Requests in flight."""
    repeats: int
    """Passes over all samples."""
    warmup: int
    """Unmeasured requests to each server."""
    max_new_tokens: int
    """``max_tokens`` of a request."""
    stop: tuple[str, ...]
    timeout: float
    """Seconds after which a request failed."""
    seed: int
    """Seed of the order in which the servers took turns."""


class Endpoint(Record):
    """A server."""

    label: str
    url: str
    model: str
    """Its name on the server."""


class Output(Record):
    """A server's answers to one prompt, an item per repeat; text and tokens are the first one's."""

    text: str = ""
    """Empty if every request failed."""
    tokens: NonNegativeInt = 0
    """The server's count (``usage``)."""
    ms: tuple[NonNegativeFloat | None, ...] = ()
    """End-to-end milliseconds of each request; None where it failed."""
    errors: tuple[str, ...] = ()
    """The reason of each failure; empty where a request was answered."""

    @classmethod
    def of(cls, answers: Sequence[Answer]) -> Self:
        none: Answer = "", 0, None, ""
        text, tokens, *_ = next((answer for answer in answers if answer[2] is not None), none)
        _, _, ms, errors = zip(*answers, strict=True)
        return cls(text=text, tokens=tokens, ms=ms, errors=errors)

    @property
    def median_ms(self) -> float | None:
        answered = [ms for ms in self.ms if ms is not None]
        return median(answered) if answered else None


class Equality(Record):
    """Number of outputs that equal the reference's, character for character."""

    against: str
    identical: int
    of: int
    """Samples that both answered."""
    different: tuple[int, ...]
    """The first samples that differ."""


class LoadCell(Record):
    """One server."""

    endpoint: str
    requests: int
    """In all repeats."""
    failed: int
    seconds: tuple[float, ...]
    """Duration of each repeat."""
    requests_per_second: float
    """Answered requests."""
    ms_per_sample: float | None
    """Mean over samples of the median end-to-end latency; None if every request failed."""
    equal: Equality
    outputs: tuple[Output, ...]

    @property
    def errors(self) -> dict[str, int]:
        """The most common reasons of failures, with their counts."""
        reasons = Counter(why for output in self.outputs for why in output.errors if why)
        return dict(reasons.most_common(3))


class LoadComparison(Record):
    """A server compared with the first one on the same samples."""

    endpoint: str
    against: str
    speed: SpeedRatio | None
    """Ratio of end-to-end latencies over the samples that both answered; None without any."""


class LoadResults(RunResult):
    """Servers measured side by side."""

    version: Literal[4] = 4
    """Version of this format."""
    task: SplitTask
    settings: LoadSettings
    endpoints: tuple[Endpoint, ...]
    samples: tuple[Sample, ...]
    """In the order of each cell's outputs."""
    cells: tuple[LoadCell, ...]
    """One per server."""
    comparisons: tuple[LoadComparison, ...]
