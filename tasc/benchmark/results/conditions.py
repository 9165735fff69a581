"""The conditions of a run: task, settings, machine."""

import hashlib
import time
from typing import Any, Self

from pydantic import Field, NonNegativeInt, PositiveInt

from tasc.data.corpus import Example
from tasc.environment import environment, shell_line
from tasc.models.folder.generation import described
from tasc.report.record import Record, Report


class SplitTask(Record):
    """The samples of a run."""

    source: str
    """Folder, file, or Hub id."""
    split: str
    """Split of the samples."""
    samples: PositiveInt
    """Number of samples."""


class Task(SplitTask):
    """The samples of a bench, and the corpus to draft from."""

    dropped: int = 0
    """Examples of the split that were left out because their output is empty."""
    corpus_split: str
    """Split of the outputs that drafters know."""
    corpus_outputs: int
    """Number of those outputs."""
    seen: int = 0
    """Samples that also occur in the corpus split, with the same prompt and output."""
    corpus_repeated: NonNegativeInt = 0
    """Examples of the corpus split that occur in it more than once. A task that repeats itself has
    seen samples in any fair draw."""
    misfits: tuple[str, ...] = ()
    """Why references do not satisfy the constraint, each with their number."""
    template: str = ""
    """Prompt template."""
    trained_templates: dict[str, str] = Field(default_factory=dict)
    """Templates of the models that were trained with another one."""
    trained: tuple[str, ...] = ()
    """Models that tasc trained; the others are untuned."""
    with_new_tokens: tuple[str, ...] = ()
    """Models that were trained with the new tokens of tasc augment."""
    indexes: tuple[str, ...]
    """Saved n-gram indexes that replace the corpus."""
    draft_model: str | None
    """Draft model of the methods with a vocabulary of their own."""


class SamplingSettings(Record):
    """Sampling parameters."""

    temperature: float
    top_k: int
    top_p: float
    seed: int
    verify: str


class GenerationDefaults(Record):
    """Settings in a model's generation_config.json that have an effect."""

    applied: dict[str, Any] = Field(default_factory=dict)
    """Applied as in transformers, such as a repetition penalty."""
    ignored: dict[str, Any] = Field(default_factory=dict)
    """Not applied, such as a temperature: the options of the bench decide these."""

    @property
    def line(self) -> str:
        """Both in one line; empty if there are none."""
        parts = {"applied": self.applied, "not used": self.ignored}
        return "; ".join(f"{how} {described(some)}" for how, some in parts.items() if some)


class Settings(Record):
    """Settings of a bench."""

    dtype: str
    device: str
    threads: int
    """CPU threads of torch."""
    repeats: int
    """Passes over all samples."""
    warmup: int
    """Unmeasured samples before the first pass."""
    max_new_tokens: int
    batch_size: int
    turn: PositiveInt
    """Samples that a cell decodes before the next cell's turn."""
    minutes: float | None = None
    """Minutes of decoding after which no further samples were decoded; None for all samples."""
    slice: int | None = None
    """Samples after which methods that learn from outputs restart; None for all."""
    sampling: SamplingSettings | None
    """None for greedy decoding."""
    graphs: bool
    """Whether CUDA graphs were used."""
    compiled: bool
    """Whether the forward was compiled by torch."""
    seed: int
    """Seed of the order in which cells took turns."""
    metrics: tuple[str, ...]
    delimiter: str
    """Separates the items for metrics of items."""
    judge: str | None = None
    """Model that scored outputs for the metric judge."""
    generation: dict[str, GenerationDefaults] = Field(default_factory=dict)
    """By model; models without such settings are left out."""


class Sample(Record):
    """One prompt."""

    id: str
    """First 16 digits of the SHA-256 of the example's input and output."""
    reference: str
    prompt_id: str = ""
    """First 16 digits of the SHA-256 of the prompt."""
    prompt: str | None = None
    """The prompt of the first samples; None for the others."""

    @classmethod
    def of(cls, example: Example, *, shown: bool = False) -> Self:
        """Identify an example and its prompt; store the prompt if it is ``shown`` on the page."""
        return cls(
            id=example.id,
            reference=example.output,
            prompt_id=hashlib.sha256(example.prompt.encode()).hexdigest()[:16],
            prompt=example.prompt if shown else None,
        )


class Machine(Record):
    """The machine of a run."""

    processor: str
    cores: int | None
    system: str


class Environment(Record):
    """Versions, commit and machine."""

    tasc: str
    git: str | None
    """Commit, with "+" if files were changed."""
    python: str
    packages: dict[str, str | None]
    machine: Machine


class RunResult(Report):
    """The facts that the results of every run contain."""

    started: str
    command_line: str
    environment: Environment


def run_facts() -> dict[str, Any]:
    """Return the fields of ``RunResult`` for a run that begins now."""
    return {
        "started": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "command_line": shell_line(),
        "environment": Environment.model_validate(environment()),
    }
