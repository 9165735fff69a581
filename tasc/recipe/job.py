"""A step in flight: its options, its texts, and the folder it writes."""

from dataclasses import dataclass
from typing import Any

from tasc.artefact import Workspace
from tasc.data.corpus import Corpus
from tasc.data.stream import Stream
from tasc.progress import Progress

Result = dict[str, Any]


@dataclass(frozen=True)
class Job:
    """A step in flight."""

    config: Any  # the config class that belongs to the command
    corpora: dict[str, Corpus]
    workspace: Workspace
    resume: bool
    progress: Progress
    stream: Stream | None = None  # the main split, where it is read in passing

    @property
    def corpus(self) -> Corpus:
        """The split the command works on."""
        return self.corpora["main"]

    def optional(self, name: str) -> Corpus | None:
        """Another split, if the command was given one and the source has it."""
        return self.corpora.get(name)

    @property
    def training(self) -> dict[str, Any]:
        """Keywords of what trains: where checkpoints lie, whether to go on from them, the bar."""
        return {"work": self.workspace.work, "resume": self.resume, "progress": self.progress}
