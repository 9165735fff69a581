"""What all parts of a result share."""

from pydantic import BaseModel, ConfigDict

Interval = tuple[float, float] | None  # None where there is too little data for one


class Record(BaseModel):
    """A part of a result: frozen, and closed to unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)
