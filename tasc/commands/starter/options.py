"""The options of ``tasc init``, and its report."""

from pathlib import Path
from typing import ClassVar

from pydantic import Field, field_validator

from tasc.benchmark.results.analysis import Verdict
from tasc.commands.estimate import StepEstimate
from tasc.commands.starter.prompts import TriedPrompt
from tasc.options.command import CommandOptions
from tasc.options.fields import MODEL, Seed, as_value_error
from tasc.options.references import expand_user
from tasc.options.task import Data, is_task_file
from tasc.report.record import Report


class InitOptions(CommandOptions):
    """Options of ``tasc init``."""

    command = "init"
    flags: ClassVar = ("json",)

    source: Data
    model: str | None = Field(
        None,
        description=f"{MODEL} to fine-tune; without it the recipe trains a small one from scratch.",
    )
    recipe: str = Field(
        "recipe.yaml", description="Recipe file to write. An existing file is never replaced."
    )
    hours: float | None = Field(
        None,
        gt=0,
        le=10_000,
        description="Time for the whole recipe on this machine, which sets the numbers of examples "
        "and epochs; needs a local --model.",
    )
    seed: Seed = Field(0, description="Seed of the recipe and of held-out examples.")

    @field_validator("model", "recipe")
    @classmethod
    def _expand_user(cls, value: str | None) -> str | None:
        if value is None:
            return None
        if not value.strip():
            raise ValueError("--recipe or --model is empty: give a file, and a folder or Hub id")
        with as_value_error():
            return expand_user(value)

    @property
    def folder(self) -> Path:
        """The folder of the recipe, where all files are written."""
        return Path(self.recipe).parent

    @property
    def has_task_file(self) -> bool:
        """Whether the data were given by a task file, which the recipe then refers to."""
        return is_task_file(self.source.written["path"])

    @property
    def task(self) -> Path:
        """The task file that the recipe refers to: the one that was given, or one to write."""
        return (
            Path(self.source.written["path"]) if self.has_task_file else self.folder / "task.yaml"
        )


class Started(Report):
    """What ``tasc init`` wrote."""

    recipe: Path
    task: Path
    """The task file that the recipe refers to."""
    read_as: str
    """How unnamed columns were recognised; empty if the columns were named."""
    held_out: dict[str, int]
    """Rows of the splits that were written, by name; none where the data have them."""
    folder: Path | None
    """Where those were written."""
    constraint: Path | None = None
    """The labels or the JSON Schema of the outputs, if 99 % of the outputs have one."""
    fitting: float = 0.0
    """Share of held-out outputs that satisfy it."""
    unfit: str = ""
    """Why no schema was written for JSON outputs."""
    template: str | None = None
    """The prompt template that was chosen; None if the data, the task file or you had one."""
    prompts: tuple[TriedPrompt, ...] = ()
    """The prompts that were tried with the model, the best first."""
    verdict: Verdict | None = None
    """The verdict of the recipe's analysis; None without the tokenizer or the data here."""
    left_out: bool = False
    """Whether the recipe leaves TASC-ft out: it does not pay, or, without a verdict, every output
    is one short word."""
    estimates: dict[str, StepEstimate] = Field({})
    """The estimated time and memory of each step of the recipe on this machine."""
