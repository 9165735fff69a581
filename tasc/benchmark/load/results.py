"""What a load test leaves: ``results.json``, typed."""

from collections import Counter
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Literal

import numpy as np
from pydantic import NonNegativeFloat, NonNegativeInt

from tasc.benchmark.metrics import find
from tasc.benchmark.metrics.metric import Metric
from tasc.benchmark.results.comparisons import QualityDifference, SpeedRatio
from tasc.benchmark.results.conditions import RunResult, Sample, SplitTask
from tasc.benchmark.results.record import Record

_BUSY = 0.7  # of a core: answers wait for each other


class LoadSettings(Record):
    """How servers were asked; always with temperature 0, and streamed."""

    concurrency: tuple[int, ...]
    """Requests under way at a time."""
    repeats: int
    """Passes over all samples, at each level."""
    warmup: int
    """Requests to each server before, unmeasured."""
    max_new_tokens: int
    """``max_tokens`` of a request."""
    stop: tuple[str, ...]
    timeout: float
    """Seconds after which a request has failed."""
    seed: int
    """Of the order in which levels and servers took turns."""
    metrics: tuple[str, ...]
    delimiter: str
    """What separates items for metrics of items."""


class Endpoint(Record):
    """A server that was asked."""

    label: str
    url: str
    model: str
    """As the server calls it."""


class Output(Record):
    """What a server answered to one prompt, in the order of ``samples``; an item for each repeat.

    Text and tokens are those of the first repeat that was answered.
    """

    text: str
    tokens: NonNegativeInt
    """As the server counts them (``usage``)."""
    ms: tuple[NonNegativeFloat | None, ...]
    """Milliseconds from sending a request to its last token; None where it failed."""
    ttft_ms: tuple[NonNegativeFloat | None, ...]
    """The same to the first token."""
    errors: tuple[str, ...]
    """Why a request failed; empty where it did not."""

    @property
    def typical_ms(self) -> float | None:
        """The median over the repeats that were answered."""
        answered = [ms for ms in self.ms if ms is not None]
        return median(answered) if answered else None


class Latency(Record):
    """Milliseconds, over all requests that were answered."""

    mean: float
    median: float
    p99: float


class Equality(Record):
    """How many outputs are, as text, those of the reference; of those that both have."""

    against: str
    identical: int
    of: int
    different: tuple[int, ...]
    """The first samples that differ."""


class LoadCell(Record):
    """A server at one level of concurrency."""

    endpoint: str
    concurrency: int
    requests: int
    """Of all repeats."""
    failed: int
    """Of these."""
    seconds: tuple[float, ...]
    """Of each repeat, from its first request to its last answer."""
    client_cpu: float
    """Share of a core that this client took: near 1 it is what limits the figures."""
    requests_per_second: float
    """Answered ones."""
    output_tokens_per_second: float
    tokens_per_output: float
    ttft_ms: Latency | None
    """Time to the first token; None where nothing was answered."""
    tpot_ms: Latency | None
    """Time per output token: from the first to the last, by the number of those after the first."""
    itl_ms: Latency | None
    """Inter-token latency: between pieces of a stream, which hold several tokens with drafts."""
    e2el_ms: Latency | None
    """End-to-end latency: to the last token."""
    quality: dict[str, float]
    """By metric, between 0 and 1; what failed counts as an empty output."""
    equal: Equality
    outputs: tuple[Output, ...]

    @property
    def label(self) -> str:
        """Name it."""
        return f"{self.endpoint} · {self.concurrency} at a time"

    @property
    def errors(self) -> dict[str, int]:
        """The commonest reasons of failures, and how often each was seen."""
        found = Counter(why for output in self.outputs for why in output.errors if why)
        return dict(found.most_common(3))

    @property
    def texts(self) -> tuple[str, ...]:
        """What it answered to each sample."""
        return tuple(output.text for output in self.outputs)

    @cached_property
    def sample_ms(self) -> np.ndarray:
        """Milliseconds of each sample (N,) float64, nan where none was answered."""
        return np.array([output.typical_ms for output in self.outputs], float)

    @property
    def client_bound(self) -> bool:
        """Whether the client was so busy that the figures may be its own."""
        return self.client_cpu > _BUSY


class LoadComparison(Record):
    """A server against the first one, on the same samples at the same concurrency."""

    endpoint: str
    against: str
    concurrency: int
    speed: SpeedRatio | None
    """By end-to-end latency, over samples that both answered; None where there are none."""
    throughput_by_repeat: tuple[float | None, ...]
    """Answered requests a second by those of the other; None where that answered none."""
    quality: dict[str, QualityDifference]


class LoadResults(RunResult):
    """Servers measured side by side."""

    version: Literal[1] = 1
    """Of this format."""
    task: SplitTask
    settings: LoadSettings
    endpoints: tuple[Endpoint, ...]
    samples: tuple[Sample, ...]
    """In the order of each cell's outputs."""
    cells: tuple[LoadCell, ...]
    """Each server at each level."""
    comparisons: tuple[LoadComparison, ...]

    @property
    def metrics(self) -> dict[str, Metric]:
        """Each metric by its name."""
        return {name: find(name) for name in self.settings.metrics}

    @property
    def left_out(self) -> str:
        """Name the levels of concurrency that there are too few samples for."""
        levels = [c for c in self.settings.concurrency if c > self.task.samples]
        return ", ".join(map(str, levels))

    def save(self, folder: Path) -> None:
        """Write report.html."""
        from tasc.benchmark.load.page import render

        folder.mkdir(parents=True, exist_ok=True)
        (folder / "report.html").write_text(render(self), encoding="utf-8")
