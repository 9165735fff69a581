"""What a bench has measured so far, from which an interrupted one goes on: a line a cell's turn."""

from collections import UserDict
from pathlib import Path
from typing import Any

import numpy as np

from tasc.benchmark.results.cells import Seconds
from tasc.decoding.core.generation import Generation, Timeline
from tasc.files.journal import Journal
from tasc.report.record import Record

_NAME = "generations.jsonl"

Turn = tuple[int, int, int]  # repeat; its first sample; number of the cell


class Kept(Record):
    """A generation as it lies in a file."""

    tokens: tuple[int, ...]
    drafted: tuple[int, ...]
    accepted: tuple[int, ...]
    seconds: Seconds
    finish: str
    sources: tuple[int, ...] | None = None

    @classmethod
    def of(cls, made: Generation) -> "Kept":
        """Keep a generation."""
        return cls(
            tokens=tuple(made.tokens.tolist()),
            drafted=tuple(made.drafted),
            accepted=tuple(made.accepted),
            seconds=Seconds.model_validate(made.timeline, from_attributes=True),
            finish=made.finish,
            sources=None if made.sources is None else tuple(made.sources.tolist()),
        )

    def generation(self) -> Generation:
        """Return it again."""
        return Generation(
            np.array(self.tokens, np.int32),
            list(self.drafted),
            list(self.accepted),
            Timeline(**dict(self.seconds)),
            self.finish,
            None if self.sources is None else np.array(self.sources, np.uint8),
        )


class _Line(Record):
    turn: Turn
    generations: tuple[Kept, ...]


class Measured(UserDict[Turn, list[Generation]]):
    """The generations of each turn; what is added is written into a folder of checkpoints."""

    def __init__(self, work: Path, *, resume: bool) -> None:
        """Begin anew, or read what is there. Raises InputError where that is damaged."""
        super().__init__()
        self._journal = Journal(work / _NAME, _Line, resume=resume)
        for line in self._journal.lines:
            self.data[line.turn] = [kept.generation() for kept in line.generations]
        self.resumed = len(self.data)

    def __setitem__(self, turn: Turn, made: Any) -> None:  # noqa: ANN401 - generations
        """Keep what a turn made."""
        self._journal.add(_Line(turn=turn, generations=tuple(map(Kept.of, made))))
        super().__setitem__(turn, made)
