"""A file that grows with the work done, from which an ended run goes on: a record a line."""

from pathlib import Path
from typing import Generic, TypeVar

from pydantic import BaseModel

from tasc.errors import InputError

Line = TypeVar("Line", bound=BaseModel)


class Journal(Generic[Line]):
    """Records of one class, each written when it is known.

    Attributes:
        lines: those that a run before left, whole ones only; none where there is nothing to resume.
    """

    def __init__(self, path: Path, kind: type[Line], *, resume: bool) -> None:
        """Read what ``path`` holds, or begin anew: the file is made with the first record.

        Raises InputError where a line is none of ``kind``.
        """
        self._path, self.lines = path, list[Line]()
        if not resume or not path.exists():
            path.unlink(missing_ok=True)
            return
        # The last line may have been cut off, and is cut off here.
        whole, newline, _ = path.read_bytes().rpartition(b"\n")
        path.write_bytes(whole + newline)
        try:
            self.lines = [kind.model_validate_json(line) for line in whole.splitlines()]
        except ValueError:
            raise InputError(f"{path} is damaged: leave --resume out, which begins anew") from None

    def add(self, line: Line) -> None:
        """Write a record."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(line.model_dump_json() + "\n")
