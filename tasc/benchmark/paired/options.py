"""The options of ``tasc compare``."""

from typing import Annotated, ClassVar

from pydantic import Field

from tasc.options.command import CommandOptions, Shell


class CompareOptions(CommandOptions):
    """Options of ``tasc compare``."""

    command = "compare"
    flags: ClassVar = ("json",)

    old: Annotated[str, Shell(argument=True)] = Field(
        description="Folder of tasc bench, or its results.json, from before a change."
    )
    new: Annotated[str, Shell(argument=True)] = Field(
        description="The same from after it, on the same samples."
    )
    tolerance: float = Field(
        0.05,
        ge=0,
        lt=1,
        description="Share of its speed that a method may lose: runs of one program differ, too.",
    )
