"""The options of ``tasc report``."""

from typing import Annotated, ClassVar

from pydantic import Field

from tasc.options.command import CommandOptions, Shell


class ReportOptions(CommandOptions):
    """Options of ``tasc report``."""

    command = "report"
    flags: ClassVar = ("output", "force", "json")

    runs: Annotated[tuple[str, ...], Shell(argument=True)] = Field(
        min_length=1,
        description="Folders of tasc bench, or their results.json, as DIR or LABEL=DIR; of one its "
        "own page is made anew.",
    )
