"""Options, clocks, processes and JSON output of the benchmarks."""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.layout import layout
from tasc.environment import environment

_Result = TypeVar("_Result")


class _ProcessorTime(argparse.Action):
    """Measure all times in CPU seconds of this process, which other processes do not stretch."""

    def __call__(self, *_: Any) -> None:  # noqa: ANN401 - what argparse gives
        time.perf_counter = time.process_time


def script(
    about: str | None,
    *,
    data: bool = False,
    threads: bool = False,
    **values: Any,  # noqa: ANN401
) -> Any:  # noqa: ANN401
    """Return a parser with ``--json`` and, if set, ``--data-dir`` and ``--threads``.

    Each of ``values`` adds an option, with its default, or with its type if it is required.
    """
    parser = argparse.ArgumentParser(description=about)
    help_ = "measure CPU seconds: for one thread on a loaded machine"
    parser.add_argument("--processor-time", action=_ProcessorTime, nargs=0, help=help_)
    parser.add_argument("--json", type=Path, help="file that also gets the figures")
    if data:
        known = os.environ.get("TASC_DATA")
        help_ = "folder of data sets; default: TASC_DATA"
        parser.add_argument("--data-dir", type=Path, default=known, required=not known, help=help_)
    for name, value in (values | {"threads": 1} if threads else values).items():
        kind, default = (value, None) if isinstance(value, type) else (type(value), value)
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, type=kind, default=default, required=default is None)
    return parser


def task_script(about: str | None, **values: Any) -> Any:  # noqa: ANN401
    """Return a ``script`` parser for decoding a data set's prompts with a model."""
    parser = script(about, model=str, repeats=5, dtype="float32", **values)
    parser.add_argument("--data-dir", type=Path, required=True, help="folder of one data set")
    return parser


def command_line() -> list[str]:
    """Return the arguments of this program, paths shortened to their names."""
    return [Path(part).name if "/" in part else part for part in sys.argv]


def publish(figures: dict[str, Any], file: Path | None, *, quiet: bool = False) -> None:
    """Print ``figures`` unless ``quiet``, and write them to ``file`` if it is given."""
    known = {"command": command_line(), "environment": environment()}
    text = layout(known | figures)
    if file:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    if not quiet:
        print(text, end="")  # noqa: T201 - a script


@contextmanager
def clocked() -> Iterator[dict[str, float]]:
    """Yield a dict that has the wall-clock and CPU seconds of the block after its end."""
    found: dict[str, float] = {}
    begin, used = time.perf_counter(), time.process_time()
    yield found
    found["seconds"] = time.perf_counter() - begin
    found["processor_seconds"] = time.process_time() - used


def timed(work: Callable[[], _Result]) -> tuple[float, _Result]:
    """Return the seconds of a call of ``work``, and its result."""
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def run_alone(module: str, *arguments: str) -> dict[str, Any]:
    """Run this command line with more ``arguments`` in a new process; return the JSON it prints.

    A process of its own gives its own peak memory.
    """
    command = [sys.executable, "-m", module, *sys.argv[1:], *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def peak_bytes() -> int:
    """Return the largest resident set of this process."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on macOS
    # On Linux ru_maxrss starts at the memory of the parent process.
    fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
    return 1024 * int(fields["VmHWM"].split()[0])
