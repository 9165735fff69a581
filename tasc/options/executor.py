"""The options of commands whose work falls into independent pieces."""

import re
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from tasc.execution import EXECUTORS, Executor, Workers, executor_help
from tasc.options.command import StepOptions
from tasc.options.fields import Shell

if TYPE_CHECKING:
    ExecutorName = str
else:
    ExecutorName = Literal[tuple(EXECUTORS)]


class ExecutorOptions(StepOptions):
    """Where pieces of work run; the result does not depend on it."""

    incidental: ClassVar[set[str]] = {"executor", "workers", "address"}
    # An address is dialled: no recipe of a stranger may name one.
    by_hand: ClassVar = frozenset({"address"})

    executor: ExecutorName = Field("local", description=f"Where it runs; {executor_help()}.")
    workers: int = Field(
        2, ge=1, le=1024, description="With --executor processes or ray: pieces at a time."
    )
    address: Annotated[str | None, Shell(default="a cluster of this machine")] = Field(
        None, description="With --executor ray: HOST:PORT of a running cluster."
    )

    def start(self, shared: object, *, devices: bool = False) -> AbstractContextManager[Executor]:
        """Start the executor; see ``tasc.execution``."""
        workers = Workers(self.workers, self.address, devices)
        return EXECUTORS[self.executor].start(shared, workers)


class ShardOptions(ExecutorOptions):
    """The same, of commands that a person may also run on a part of the split."""

    by_hand: ClassVar = frozenset({"address", "shard", "merge"})

    shard: Annotated[str | None, Shell(default="the whole split")] = Field(
        None,
        description="I/N: count the I-th of N parts of the split, for --merge.",
    )

    @property
    def part(self) -> tuple[int, int] | None:
        """See StepOptions.part."""
        if self.shard is None:
            return None
        number, of = map(int, self.shard.split("/"))
        return number, of

    @field_validator("shard")
    @classmethod
    def _of_two_numbers(cls, value: str | None) -> str | None:
        if value and not re.fullmatch(r"[0-9]{1,5}/[0-9]{1,5}", value):
            raise ValueError(f"shard: {value!r:.60} is no part I/N, as 1/4")
        return value

    @model_validator(mode="after")
    def _is_part(self) -> Self:
        if self.part and not 1 <= self.part[0] <= self.part[1]:
            raise ValueError(
                f"shard: {self.shard} is none of 1/{self.part[1]}, 2/{self.part[1]}, …"
            )
        return self
