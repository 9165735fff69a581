"""What benchmarks share: options, clocks, processes of their own, and how figures are told."""

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

from tasc.environment import command_line, environment

_Result = TypeVar("_Result")


class _ProcessorTime(argparse.Action):
    """Takes all times of this process alone: what else runs on the machine does not count."""

    def __call__(self, *_: Any) -> None:  # noqa: ANN401 - what argparse gives
        time.perf_counter = time.process_time


def script(
    about: str | None,
    *,
    data: bool = False,
    threads: bool = False,
    **values: Any,  # noqa: ANN401
) -> Any:  # noqa: ANN401
    """Return a parser with ``--json`` and, where asked, ``--data-dir`` and ``--threads``.

    Each of ``values`` is an option, too: with its default, or with its type where it must be given.
    """
    parser = argparse.ArgumentParser(description=about)
    help_ = "times are seconds of the processor: for one thread on a busy machine"
    parser.add_argument("--processor-time", action=_ProcessorTime, nargs=0, help=help_)
    parser.add_argument("--json", type=Path, help="write the figures here, too")
    if data:
        known = os.environ.get("TASC_DATA")
        help_ = "the folder of data sets; default: TASC_DATA"
        parser.add_argument("--data-dir", type=Path, default=known, required=not known, help=help_)
    for name, value in (values | {"threads": 1} if threads else values).items():
        kind, default = (value, None) if isinstance(value, type) else (type(value), value)
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, type=kind, default=default, required=default is None)
    return parser


def task_script(about: str | None, **values: Any) -> Any:  # noqa: ANN401
    """Return a parser of what decodes prompts of a data set with a model; see ``script``."""
    parser = script(about, model=str, repeats=5, dtype="float32", **values)
    parser.add_argument("--data-dir", type=Path, required=True, help="a data set's folder")
    return parser


def publish(figures: dict[str, Any], file: Path | None, *, quiet: bool = False) -> None:
    """Print ``figures`` unless ``quiet``, and write them where the user asked."""
    known = {"command": command_line(), "environment": environment()}
    text = json.dumps(known | figures, indent=2)
    if file:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n", encoding="utf-8")
    if not quiet:
        print(text)  # noqa: T201 - a script


@contextmanager
def clocked() -> Iterator[dict[str, float]]:
    """Yield what holds, after the block, the seconds it took and those of the processor."""
    found: dict[str, float] = {}
    begin, used = time.perf_counter(), time.process_time()
    yield found
    found["seconds"] = time.perf_counter() - begin
    found["processor_seconds"] = time.process_time() - used


def timed(work: Callable[[], _Result]) -> tuple[float, _Result]:
    """Return the seconds that ``work`` takes, and what it returns."""
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def run_alone(module: str, *arguments: str) -> dict[str, Any]:
    """Run a benchmark as it was called, with ``arguments`` behind, in a process of its own.

    So that peak memory is its own; it prints JSON.
    """
    command = [sys.executable, "-m", module, *sys.argv[1:], *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def peak_bytes() -> int:
    """The largest resident set of this process."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on macOS
    # Linux' ru_maxrss begins with the memory of the process that started this one.
    fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
    return 1024 * int(fields["VmHWM"].split()[0])
