"""Options of commands whose work can be split into independent pieces."""

from contextlib import AbstractContextManager
from dataclasses import dataclass

from pydantic import Field, field_validator

from tasc.errors import InputError
from tasc.execution import EXECUTORS, Executor, Workers, executor_help
from tasc.options.bounds import Bounds
from tasc.options.command import StepOptions
from tasc.options.fields import as_value_error

EXECUTOR_FIELDS = frozenset({"executor"})  # incidental
_WORKERS = Bounds(1, 1024)
_KEYS = ("workers", "address")


@dataclass(frozen=True)
class Place:
    """Where work runs: an executor, its number of workers, and the cluster it connects to."""

    name: str = "local"
    workers: int = 2
    address: str | None = None


def read_place(text: str) -> Place:
    """Read ``NAME`` or ``NAME:key=value,…``, such as ``processes:workers=4``.

    Raises InputError for an unknown executor or key, or a wrong value.
    """
    name, _, rest = text.partition(":")
    if name not in EXECUTORS:
        raise InputError(f"executor: got {name!r:.60}: choose from {', '.join(EXECUTORS)}")
    values: dict[str, str] = {}
    for item in filter(None, rest.split(",")):
        key, _, value = item.partition("=")
        if key not in _KEYS or key in values or not value:
            raise InputError(
                f"executor: got {text!r:.60}: write {name}:workers=NUMBER"
                + (",address=HOST:PORT" if name == "ray" else "")
            )
        values[key] = value
    if values and name == "local":
        raise InputError(f"executor: got {text!r:.60}: local has no workers: use processes")
    if "address" in values and name != "ray":
        raise InputError(f"executor: got {text!r:.60}: {name} has no address: use ray")
    workers = values.get("workers", "2")
    if not workers.isdecimal() or len(workers) > 9 or not _WORKERS.hold(int(workers)):
        raise InputError(f"executor: workers must {_WORKERS}, got {workers:.60}")
    return Place(name, int(workers), values.get("address"))


class ExecutorOptions(StepOptions):
    """Where the pieces of work run. The result does not depend on it."""

    executor: str = Field(
        "local",
        description=f"Where to run the work; {executor_help()}. Workers: processes:workers=4, "
        "ray:workers=64,address=HOST:PORT.",
    )

    @field_validator("executor")
    @classmethod
    def _known(cls, value: str) -> str:
        with as_value_error():
            read_place(value)
        return value

    def start(self, shared: object, *, devices: bool = False) -> AbstractContextManager[Executor]:
        """Start the executor. All workers get ``shared``; with ``devices``, each gets one GPU."""
        place = read_place(self.executor)
        return EXECUTORS[place.name].start(shared, Workers(place.workers, place.address, devices))
