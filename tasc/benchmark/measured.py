"""Checkpoints of a bench: the generations of each turn of a cell, one line per turn."""

from collections import UserDict
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from tasc.decoding.core.generation import Generation
from tasc.files.journal import Journal

_NAME = "generations.jsonl"

Turn = tuple[int, int, int]  # repeat, first sample, index of the cell


class _Line(BaseModel):
    turn: Turn
    generations: list[Generation]


class Measured(UserDict[Turn, list[Generation]]):
    """The generations of each turn; a new turn is appended to the checkpoint file."""

    def __init__(self, work: Path, *, resume: bool) -> None:
        """Start an empty file, or read the existing one. Raises InputError if it is damaged."""
        super().__init__()
        self._journal = Journal(work / _NAME, _Line, resume=resume)
        self.data |= {line.turn: line.generations for line in self._journal.lines}
        self.resumed = len(self.data)

    def __setitem__(self, turn: Turn, generations: Any) -> None:  # noqa: ANN401
        """Append a turn."""
        self._journal.add(_Line(turn=turn, generations=generations))
        super().__setitem__(turn, generations)
