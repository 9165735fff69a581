"""A split of a task: inputs, expected outputs and prompts, from any source."""

import hashlib
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from tasc.data import builtin, hub, local
from tasc.data.source import BUILTIN, Source
from tasc.data.table import Table
from tasc.errors import InputError

Words = tuple[str, ...]


@dataclass(frozen=True)
class Example:
    """One row: the input, the expected output, and the prompt made of the row.

    A list-valued column is joined by one blank.
    """

    input: str
    output: str
    prompt: str


@dataclass(frozen=True)
class Corpus:
    """The rows of one split.

    Attributes:
        source: where they came from.
        split: the split's name.
        examples: the rows, in the order of the source, none with an empty output.
        fingerprint: sha256 of their contents (hexadecimal).
        dropped: rows left out because their output is empty.
        listed_inputs: words of the inputs when that column holds lists, else None.
        listed_outputs: likewise for the outputs.
    """

    source: Source
    split: str
    examples: tuple[Example, ...]
    fingerprint: str
    dropped: int = 0
    listed_inputs: tuple[Words, ...] | None = None
    listed_outputs: tuple[Words, ...] | None = None

    def words(self, side: Literal["input", "output"]) -> Iterator[Sequence[str]]:
        """Yield the words of each input or output: the list's own, else split at whitespace."""
        listed = self.listed_inputs if side == "input" else self.listed_outputs
        if listed is not None:
            yield from listed
            return
        for example in self.examples:
            yield (example.input if side == "input" else example.output).split()

    @property
    def input_words(self) -> list[list[str]]:
        """Words of each input; not kept, for they take far more memory than the text."""
        return [list(words) for words in self.words("input")]

    @property
    def output_words(self) -> list[list[str]]:
        """Words of each output; not kept either."""
        return [list(words) for words in self.words("output")]

    @cached_property
    def outputs(self) -> list[str]:
        """The expected outputs."""
        return [example.output for example in self.examples]

    @cached_property
    def prompts(self) -> list[str]:
        """The prompts."""
        return [example.prompt for example in self.examples]


def splits(source: Source) -> list[str]:
    """Return the names of the splits that exist; a single file is the split "train"."""
    if source.path.startswith(BUILTIN):
        return list(builtin.SPLITS)
    if local.is_local(source.path):
        return list(local.find_splits(source.path))
    return hub.find_splits(source)


def load(source: Source, split: str, *, limit: int | None = None, seed: int = 0) -> Corpus:
    """Load one split.

    Args:
        source: where the data is.
        split: a split that exists; "valid", "val" and "dev" mean "validation".
        limit: at most so many rows: a random sample without replacement, in the original order.
        seed: of that sample.

    Raises:
        InputError: the source, split or column does not exist, a file is malformed (named with
            the line), the split is empty, or all outputs are.
        UnavailableError: the source is on the Hub, which cannot be reached.
    """
    if limit is not None and limit < 1:
        raise InputError(f"the limit must be 1 or more, saw {limit}")
    table = _read(source, split)
    if not table.length:
        raise InputError(f"{source.path}: the split {table.split!r} is empty; choose another split")
    words = {name: table.words(name) for name in source.columns()}
    texts = {name: table.texts(name) for name in source.columns()}
    kept = [place for place, text in enumerate(texts[source.output_column]) if text.strip()]
    if not kept:
        raise InputError(
            f"{source.path}: all {table.length} outputs of the split {table.split!r} are empty "
            f"(column {source.output_column!r}); choose another output column"
        )
    dropped = table.length - len(kept)
    if limit is not None and limit < len(kept):
        kept = sorted(random.Random(seed).sample(kept, limit))
    examples = tuple(
        _example(source, {name: texts[name][place] for name in texts}) for place in kept
    )
    listed = [
        None if lists is None else tuple(lists[place] for place in kept)
        for lists in (words[source.input_column], words[source.output_column])
    ]
    return Corpus(
        source=source,
        split=table.split,
        examples=examples,
        fingerprint=_fingerprint(examples, listed),
        dropped=dropped,
        listed_inputs=listed[0],
        listed_outputs=listed[1],
    )


def _read(source: Source, split: str) -> Table:
    if source.path.startswith(BUILTIN):
        return builtin.read(source, split)
    if local.is_local(source.path):
        return local.read(source, split)
    return hub.read(source, split)


def _example(source: Source, row: dict[str, str]) -> Example:
    text = row[source.input_column]
    return Example(text, row[source.output_column], source.prompt(text, row))


def _fingerprint(examples: Sequence[Example], listed: Sequence[tuple[Words, ...] | None]) -> str:
    digest = hashlib.sha256()
    for example in examples:
        row = [example.input, example.output, example.prompt]
        digest.update(json.dumps(row, ensure_ascii=False).encode() + b"\n")
    for lists in listed:
        digest.update(json.dumps(lists).encode() if lists is not None else b"-")
    return digest.hexdigest()
