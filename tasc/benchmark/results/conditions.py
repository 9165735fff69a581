"""What was measured, how, and on what."""

import hashlib
import time
from typing import Any, Self

from pydantic import Field

from tasc.environment import environment, shell_line
from tasc.report.record import Record, Report


class SplitTask(Record):
    """What the samples are."""

    source: str
    """Folder, file, or Hub id."""
    split: str
    """Whose prompts were answered."""
    samples: int
    """How many."""


class Task(SplitTask):
    """The same, and what drafts are made from."""

    dropped: int = 0
    """Examples of the split that were left out, as their output is empty."""
    corpus_split: str
    """Whose outputs drafters know."""
    corpus_outputs: int
    """How many those are."""
    seen: int = 0
    """Samples that occur in that split, too, with the same prompt and output."""
    corpus_repeated: int = 0
    """Of its examples those that occur in it more than once: a task of few different ones has seen
    samples without a fault."""
    template: str = ""
    """What writes the prompts."""
    trained_templates: dict[str, str] = Field(default_factory=dict)
    """Models that were trained on prompts of another template, and that template."""
    indexes: tuple[str, ...]
    """Saved n-gram indexes that stand for the corpus."""
    draft_model: str | None
    """What methods with a vocabulary of their own draft with."""


class SamplingSettings(Record):
    """How tokens were drawn."""

    temperature: float
    top_k: int
    top_p: float
    seed: int
    verify: str


class Settings(Record):
    """How the cells ran."""

    dtype: str
    device: str
    threads: int
    """CPU threads of torch."""
    repeats: int
    """Passes over all samples."""
    warmup: int
    """Samples decoded before, unmeasured."""
    max_new_tokens: int
    batch_size: int
    turn: int
    """Samples that a cell decoded before it was the next one's turn."""
    slice: int | None = None
    """Samples that methods which learn from outputs began anew after; None for all."""
    sampling: SamplingSettings | None
    """None for greedy decoding."""
    graphs: bool
    """Whether CUDA graphs were used."""
    compiled: bool
    """Whether the forward was compiled by torch."""
    seed: int
    """Of the order in which cells took turns."""
    metrics: tuple[str, ...]
    delimiter: str
    """What separates items for metrics of items."""
    judge: str | None = None
    """Model that scored outputs for the metric judge."""


class Sample(Record):
    """One prompt."""

    id: str
    """Begins the SHA-256 of prompt and reference."""
    reference: str

    @classmethod
    def of(cls, prompt: str, reference: str) -> Self:
        """Name a prompt and its reference."""
        held = hashlib.sha256(f"{prompt}\0{reference}".encode()).hexdigest()
        return cls(id=held[:16], reference=reference)


class Example(Record):
    """A prompt to show."""

    sample: int
    prompt: str


class Machine(Record):
    """What it ran on."""

    processor: str
    cores: int | None
    system: str


class Environment(Record):
    """Versions, commit, machine."""

    tasc: str
    git: str | None
    """Commit, with "+" where files were changed."""
    python: str
    packages: dict[str, str | None]
    machine: Machine


class RunResult(Report):
    """What a run leaves."""

    started: str
    command_line: str
    environment: Environment


def run_facts() -> dict[str, Any]:
    """Return what a run that begins now says of itself, by the fields of ``RunResult``."""
    return {
        "started": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "command_line": shell_line(),
        "environment": Environment.model_validate(environment()),
    }
