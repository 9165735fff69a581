"""Options of commands whose work can be split into independent pieces."""

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from tasc.execution import EXECUTORS, Executor, Workers, executor_help
from tasc.options.command import StepOptions
from tasc.options.fields import Shell

if TYPE_CHECKING:
    ExecutorName = str
else:
    ExecutorName = Literal[tuple(EXECUTORS)]

EXECUTOR_FIELDS = frozenset({"executor", "workers", "address"})  # incidental
ADDRESS = frozenset({"address"})  # by hand: tasc connects to it


class ExecutorOptions(StepOptions):
    """Where the pieces of work run. The result does not depend on it."""

    executor: ExecutorName = Field(
        "local", description=f"Where to run the work; {executor_help()}."
    )
    workers: int = Field(
        2,
        ge=1,
        le=1024,
        description="Number of worker processes, with --executor processes or ray.",
    )
    address: Annotated[str | None, Shell(default="a new cluster on this machine")] = Field(
        None, description="HOST:PORT of a running cluster, with --executor ray."
    )

    def start(self, shared: object, *, devices: bool = False) -> AbstractContextManager[Executor]:
        """Start the executor. All workers get ``shared``; with ``devices``, each gets one GPU."""
        workers = Workers(self.workers, self.address, devices)
        return EXECUTORS[self.executor].start(shared, workers)
