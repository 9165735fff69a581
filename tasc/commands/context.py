"""A command in flight: what it works on besides its options, and what it gives back."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tasc.commands.chat import with_prompts
from tasc.files.scratch import scratch
from tasc.options.command import ModelOptions, StepOptions
from tasc.options.texts import Texts, read_texts
from tasc.progress import Progress, silent
from tasc.report.record import Report


class Artefact(Protocol):
    """The result of a command that leaves more files than its report and pages."""

    @property
    def report(self) -> Any:  # noqa: ANN401 - a class of ``tasc.commands.registry``
        """The typed report."""

    def save(self, folder: Path) -> None:
        """Write those files into a folder, which need not exist."""


Result = Report | Artefact


@dataclass(frozen=True)
class StepContext:
    """A command in flight."""

    texts: Texts  # the splits that its options name
    work: Path  # folder for checkpoints
    resume: bool = False  # whether to go on from those there
    progress: Progress = silent  # told how far it is

    @property
    def kept(self) -> dict[str, Any]:
        """Keywords of what leaves checkpoints."""
        return {"work": self.work, "resume": self.resume, "progress": self.progress}


@contextmanager
def at_work(options: StepOptions, context: StepContext | None) -> Iterator[StepContext]:
    """Work with the threads of ``options``.

    Where there is no ``context`` yet, the texts are read, and checkpoints do not outlive the call.
    """
    with using_threads(options):
        if context is not None:
            yield context
            return
        with scratch() as folder:
            yield StepContext(with_prompts(options, read_texts(options)), folder)


@contextmanager
def using_threads(options: StepOptions) -> Iterator[None]:
    """Let torch use the command's number of CPU threads meanwhile, its own choice where None."""
    if not isinstance(options, ModelOptions) or options.threads is None:
        yield
        return
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(options.threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
