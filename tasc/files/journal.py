"""A file of one JSON record per line, from which an interrupted run resumes."""

import os
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import BaseModel

from tasc.errors import InputError

Line = TypeVar("Line", bound=BaseModel)


class Journal(Generic[Line]):
    """Records of one class, each written as soon as it exists; ``lines`` are an earlier run's."""

    def __init__(self, path: Path, kind: type[Line], *, resume: bool) -> None:
        """Read the records in ``path``, or start again without them.

        Raises InputError if a line is not a record of class ``kind``.
        """
        self._path, self.lines = path, list[Line]()
        if not resume or not path.exists():
            path.unlink(missing_ok=True)
            return
        # A kill can cut off the last line.
        complete, newline, _ = path.read_bytes().rpartition(b"\n")
        os.truncate(path, len(complete + newline))
        try:
            self.lines = [kind.model_validate_json(line) for line in complete.splitlines()]
        except ValueError:
            raise InputError(f"{path} is damaged: drop --resume to start again") from None

    def add(self, line: Line) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(line.model_dump_json() + "\n")
