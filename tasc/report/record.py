"""Reports: frozen records, typed from the work that makes them to JSON, page and terminal."""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

Interval = tuple[float, float] | None  # None where there is too little data for one


class Record(BaseModel):
    """A part of a report: frozen, and closed to unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Report(Record):
    """The report of a command, as its JSON file holds it."""

    def to_dict(self) -> dict[str, Any]:
        return self.model_dump(mode="json")


class Reported(ABC):
    """A result in memory with a typed report, which also leaves other files."""

    report: Any  # of a class in ``tasc.commands.registry``

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write those files into a folder, which need not exist."""

    def to_dict(self) -> dict[str, Any]:
        values: dict[str, Any] = self.report.to_dict()
        return values
