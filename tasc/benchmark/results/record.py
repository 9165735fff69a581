"""What all parts of a result share."""

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

Interval = tuple[float, float] | None  # None where there is too little data for one


class Record(BaseModel):
    """A part of a result: frozen, and closed to unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class ResultRecord(Record):
    """A whole result, as a command leaves it."""

    def save(self, folder: Path) -> None:
        """Write what stands beside that file into a folder: nothing, unless there is a page."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as the JSON values of its file."""
        return self.model_dump(mode="json")
