"""Several tasks on one model, by name: each with drafts, learnt outputs and a form of its own."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tasc.data.choices import read_choices
from tasc.data.foreign import read_whole, text_of
from tasc.decoding.drafters.ngram.index import FILE
from tasc.errors import InputError
from tasc.options.constraint import Constraint, read_constraint
from tasc.serving.drafts.state import memory_of, teach
from tasc.serving.http.worker import Drafting

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")
_FORMS = ".json", ".lark", ".regex", ".labels"  # of files beside a task's index
_LARGEST = 1 << 20  # bytes of such a file


@dataclass(frozen=True, eq=False)
class Task:
    """What requests for one model name draft with, and the form of their outputs, if any."""

    name: str
    drafting: Drafting
    constraint: Constraint | None = None

    @property
    def learnt(self) -> list[np.ndarray]:
        """Finished outputs that drafts come from, oldest first; call it in the worker's thread."""
        memory = memory_of(self.drafting.make)
        return [] if memory is None else list(memory.outputs)


class Tasks(Mapping[str, Task]):
    """The tasks of a folder, and the model itself, which is a task with the indexes ``plain``.

    The task ``sql`` is the folder of ``tasc index`` ``sql``, the form in ``sql.json`` (a JSON
    Schema), ``sql.lark``, ``sql.regex`` or ``sql.labels`` (a label per line), or both.
    """

    def __init__(
        self,
        model: str,
        make: Callable[[Sequence[Path]], Drafting],
        plain: Sequence[Path],
        folder: Path | None,
    ) -> None:
        """Load all; ``make`` prepares drafts from index folders. Raises InputError."""
        self.model, self.make, self.folder = model, make, folder
        if folder is not None and not folder.is_dir():
            raise InputError(f"tasks: {folder} is not a folder: create it, or name another one")
        self.tasks = {model: Task(model, make(plain))}
        for name in self._names():
            self.put(name)

    def __getitem__(self, name: str) -> Task:
        return self.tasks[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tasks)

    def __len__(self) -> int:
        return len(self.tasks)

    def _names(self) -> list[str]:
        if self.folder is None:
            return []
        indexes = {path.parent.name for path in self.folder.glob(f"*/{FILE}")}
        return sorted(indexes | {p.stem for p in self.folder.iterdir() if p.suffix in _FORMS})

    def put(self, name: str, learnt: Iterable[np.ndarray] = ()) -> None:
        """Load a task, or load it again; it drafts from ``learnt`` outputs. Raises InputError."""
        if name == self.model or not _NAME.fullmatch(name):
            raise InputError(
                f"{name!r:.100} cannot be the name of a task: use letters, digits, '-', '_' and "
                "'.', and not the model's name"
            )
        if self.folder is None or name not in self._names():
            raise InputError(f"there is no task {name!r} in the folder of --tasks: add its files")
        index = self.folder / name
        drafting = self.make([index] if (index / FILE).is_file() else [])
        teach(drafting.make, learnt)
        # A new mapping: other threads go through the old one.
        self.tasks = self.tasks | {name: Task(name, drafting, self._constraint(name))}

    def remove(self, name: str) -> None:
        """Forget a task, and what it learnt; its running requests go on. Raises InputError."""
        if name == self.model or name not in self.tasks:
            raise InputError(f"there is no task {name!r:.100}: see /v1/models")
        self.tasks = {key: task for key, task in self.tasks.items() if key != name}

    def _constraint(self, name: str) -> Constraint | None:
        assert self.folder is not None
        files = {suffix: self.folder / f"{name}{suffix}" for suffix in _FORMS}
        stated = {suffix: str(file) for suffix, file in files.items() if file.is_file()}
        if len(stated) > 1:
            raise InputError(f"task {name!r} has {' and '.join(stated)}: leave one of them")
        if (labels := stated.get(".labels")) is not None:
            return Constraint.of_strings(read_choices(Path(labels)), labels)
        regex = None
        if (file := stated.get(".regex")) is not None:
            regex = text_of(read_whole(Path(file), _LARGEST), file).rstrip("\n")
        return read_constraint(stated.get(".json"), stated.get(".lark"), regex)
