"""Reports: frozen records, typed from the work that makes them to JSON, page and terminal."""

from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict

Interval = tuple[float, float] | None  # None where there is too little data for one


class Record(BaseModel):
    """A part of a report: frozen, and closed to unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Report(Record):
    """The report of a command, as its JSON file holds it."""

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON values of the file."""
        return self.model_dump(mode="json")


class HasReport(Protocol):
    """A result in memory, with a typed report."""

    @property
    def report(self) -> Any:  # noqa: ANN401 - a class of ``tasc.commands.registry``
        """The report."""


class Reported:
    """Gives a result ``to_dict``, like a report."""

    def to_dict(self: HasReport) -> dict[str, Any]:
        """Return the report as JSON values."""
        values: dict[str, Any] = self.report.to_dict()
        return values
