"""Pieces of work whose results are stored as files, from which a killed run resumes."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tasc.execution import Executor, Task
from tasc.files.disk import flush_below
from tasc.files.folders import remove

Files = Mapping[str, bytes]


def keep(
    executor: Executor,
    work: Callable[[Any, Task], Files],
    tasks: Iterable[Task],
    folder: Path,
    *,
    resume: bool,
) -> Iterator[tuple[int, Path]]:
    """Yield the number of each task and the folder with the files of its result.

    Results of an earlier run come first and are not repeated; without ``resume`` they are deleted.
    They are trusted: ``folder`` must belong to the same step. All tasks are consumed.
    """
    if not resume and folder.exists():
        remove(folder)
    folder.mkdir(exist_ok=True)
    for left in folder.glob("*.tmp"):
        remove(left)
    done = {int(result.name) for result in folder.iterdir()}
    yield from ((number, folder / str(number)) for number in sorted(done))
    numbers: list[int] = []

    def missing() -> Iterator[Task]:
        for number, task in enumerate(tasks):
            if number not in done:
                numbers.append(number)
                yield task

    for i, files in executor.run(work, missing()):
        result = folder / str(numbers[i])
        new = folder / f"{result.name}.{os.getpid()}.tmp"
        new.mkdir()
        for name, contents in files.items():
            (new / name).write_bytes(contents)
        flush_below(new)
        new.rename(result)
        yield numbers[i], result
