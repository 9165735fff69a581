"""What all parts of a result share."""

from typing import Any

from pydantic import BaseModel, ConfigDict

Interval = tuple[float, float] | None  # None where there is too little data for one


class Record(BaseModel):
    """A part of a result: frozen, and closed to unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class ResultRecord(Record):
    """A whole result, as a command leaves it."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as the JSON values of its file."""
        return self.model_dump(mode="json")
