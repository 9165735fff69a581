"""A user's data as ``tasc init`` finds them: recognised, read, and divided into splits."""

import json
from dataclasses import dataclass
from pathlib import Path

from tasc.commands.starter.holdout import hold_out
from tasc.commands.starter.options import InitOptions
from tasc.data.corpus import Corpus, as_recognised, load, precheck, splits
from tasc.data.local import is_local
from tasc.data.source import BUILTIN, Source
from tasc.data.table import Table
from tasc.errors import InputError
from tasc.options.task import as_task


@dataclass(frozen=True)
class OwnData:
    """A user's data, and the splits that they lack."""

    source: Source
    read_as: str  # how unnamed columns were recognised; empty if they were named
    new_splits: dict[str, list[str]]  # lines of JSON by split; none if the data have them all
    corpus: Corpus | None  # the training examples before the division; None for data on the Hub

    @property
    def name(self) -> str:
        """A file's name without its endings, else the last part of what was given."""
        return name_of(self.source)

    @property
    def held_out(self) -> dict[str, int]:
        """Rows of the new splits, by name."""
        return {name: len(lines) for name, lines in self.new_splits.items()}

    def rows(self) -> dict[str, int]:
        """Return the rows of the splits that the recipe uses; nothing for data on the Hub."""
        if self.new_splits or self.corpus is None:
            return self.held_out
        names = [name for name in ("validation", "test") if name in splits(self.source)]
        others = {name: len(load(self.source, name).examples) for name in names}
        return {"train": len(self.corpus.examples)} | others

    def has_validation(self) -> bool:
        """Return whether the recipe can validate after each epoch."""
        return "validation" in (self.new_splits or splits(self.source))

    def training_pairs(self) -> list[tuple[str, str]]:
        """Return the inputs and outputs of training rows, as texts, without held-out ones."""
        if not self.new_splits:
            examples = self.corpus.examples if self.corpus else ()
            return [(example.input, example.output) for example in examples]
        rows = [json.loads(line) for line in self.new_splits["train"]]
        names = self.source.input_column, self.source.output_column
        table = Table("train", {name: [row[name] for row in rows] for name in names}, str)
        return list(zip(*(table.texts(name) for name in names), strict=True))


def recognised(options: InitOptions) -> tuple[Source, str, list[str]]:
    """Return the data as recognised, how they were, and their splits."""
    source = options.source.source()
    existing = splits(source)
    if "train" not in existing:
        has = ", ".join(existing)
        raise InputError(f"{source.path} has no split train but {has}: give data to learn from")
    for name in existing:
        precheck(source, name)
    task = as_task(options.source.written["path"])
    renamed = [name for name in (task.splits if task else ()) if name not in existing]
    return *as_recognised(source, "train"), [*existing, *renamed]


def divided(options: InitOptions, source: Source, read_as: str, existing: list[str]) -> OwnData:
    """Read the data, and hold out the splits that they lack.

    Raises InputError if too few examples differ, or if a task file names data without a test split.
    """
    new_splits = dict[str, list[str]]()
    if "test" not in existing:
        if options.has_task_file:
            raise InputError(f"{source.path} has no split test: add one beside the others")
        new_splits = hold_out(source, options.seed, existing)
    here = is_local(source.path) or source.path.startswith(BUILTIN)
    return OwnData(source, read_as, new_splits, load(source, "train") if here else None)


def name_of(source: Source) -> str:
    """Name data: a file's name without its endings, else the last part of what was given."""
    path = source.path.removeprefix(BUILTIN)
    return Path(path).name.partition(".")[0] or "data" if is_local(path) else Path(path).name
