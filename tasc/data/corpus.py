"""Splits in memory, from any source: inputs, expected outputs and prompts."""

import hashlib
import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property

from tasc.data import builtin, hub, local
from tasc.data.chat import Turn, recognised, turns
from tasc.data.division import Origin
from tasc.data.source import BUILTIN, Source
from tasc.data.table import Table
from tasc.errors import InputError

Words = tuple[str, ...]
ROWS = 1024  # yielded at a time


@dataclass(frozen=True)
class Example:
    """An input, its expected output and its prompt. Lists are joined by spaces.

    ``turn`` is set until a chat template writes the prompt; until then, the prompt is the text of
    the messages without their roles.
    """

    input: str
    output: str
    prompt: str
    turn: Turn | None = None
    own_output: str | None = None  # before a chat template wrote it; None if none did
    row: Origin | None = None  # the row that it is from, if that has more than input and output

    @property
    def id(self) -> str:
        """First 16 digits of the SHA-256 of input and output, whatever writes the prompt."""
        return hashlib.sha256(f"{self.input}\0{self._unwritten}".encode()).hexdigest()[:16]

    @property
    def origin(self) -> Origin:
        """The row that the example is from."""
        return self.row or Origin(self.input, self._unwritten)

    @property
    def _unwritten(self) -> str:
        """The output as the data have it."""
        return self.output if self.own_output is None else self.own_output


@dataclass(frozen=True)
class Rows:
    """Consecutive rows of a split, without those that have an empty output."""

    inputs: Sequence[str]
    outputs: Sequence[str]
    prompt: Callable[[int], str]  # returns the prompt of row i
    origins: Sequence[Origin]  # of each row; equal for the answers of a chat
    # The words of the inputs if that column holds lists, else None.
    input_words: Sequence[Words] | None = None
    output_words: Sequence[Words] | None = None  # likewise for the outputs
    dropped: int = 0  # number of rows with an empty output
    turns: Sequence[Turn] = ()  # of a chat whose prompts a chat template has to write

    @classmethod
    def of(cls, source: Source, table: Table) -> "Rows":
        """Return the rows of a table; each answer of a chat is a row."""
        return cls._chats(source, table) if source.chat else cls._texts(source, table)

    def part(self, rows: slice, dropped: int = 0) -> "Rows":
        first = rows.indices(len(self.outputs))[0]
        words = [None if w is None else w[rows] for w in (self.input_words, self.output_words)]
        return Rows(
            self.inputs[rows],
            self.outputs[rows],
            lambda i: self.prompt(first + i),
            self.origins[rows],
            words[0],
            words[1],
            dropped,
            self.turns[rows],
        )

    def with_prompts(self) -> "Rows":
        """Return the rows with all prompts made, so that they can be pickled."""
        prompts = [self.prompt(i) for i in range(len(self.outputs))]
        return replace(self, prompt=prompts.__getitem__)

    @classmethod
    def _chats(cls, source: Source, table: Table) -> "Rows":
        texts = cache(table.texts)
        answers, dropped = turns(source, table)
        template = source.template_columns()

        def prompt(i: int) -> str:
            row, turn = answers[i]
            return source.prompt(turn.input, {name: texts(name)[row] for name in template})

        turns_only = [turn for _, turn in answers]
        texts_of = [turn.input for turn in turns_only], [turn.output for turn in turns_only]
        unwritten = () if source.names("template") else turns_only
        origins = _origins_of_chats(answers)
        shared = [origins[row] for row, _ in answers]
        return cls(*texts_of, prompt, shared, dropped=dropped, turns=unwritten)

    @classmethod
    def _texts(cls, source: Source, table: Table) -> "Rows":
        texts = cache(table.texts)
        names = source.input_column, source.output_column
        rows = [position for position, text in enumerate(texts(names[1])) if text.strip()]

        def prompt(row: int) -> str:
            columns = {name: texts(name)[rows[row]] for name in source.columns()}
            return source.prompt(columns[names[0]], columns)

        inputs, outputs = ([texts(name)[i] for i in rows] for name in names)
        listed = [_at(table.words(name), rows) for name in names]
        left_out = table.length - len(rows)
        origin_of = _origins_of_texts(source, texts)
        origins = [origin_of[row] for row in rows]
        return cls(inputs, outputs, prompt, origins, listed[0], listed[1], left_out)


def origins_of(source: Source, table: Table) -> dict[int, Origin]:
    """Return the origin of each row that has an output, by its number.

    The input of a chat is the text before its last answer. Other rows have the input column and the
    columns of the template as their input.
    """
    if source.chat:
        return _origins_of_chats(turns(source, table)[0])
    return _origins_of_texts(source, table.texts)


def _origins_of_chats(answers: Sequence[tuple[int, Turn]]) -> dict[int, Origin]:
    return {row: Origin(turn.input, turn.output) for row, turn in answers}


def _origins_of_texts(source: Source, texts: Callable[[str], list[str]]) -> dict[int, Origin]:
    names = dict.fromkeys((source.input_column, *source.template_columns()))
    inputs = zip(*map(texts, names), strict=True)
    rows = zip(inputs, texts(source.output_column), strict=True)
    return {
        row: Origin("\0".join(columns), output)
        for row, (columns, output) in enumerate(rows)
        if output.strip()
    }


def _at(lists: Sequence[Words] | None, rows: Sequence[int]) -> tuple[Words, ...] | None:
    return None if lists is None else tuple(lists[i] for i in rows)


@dataclass(frozen=True)
class Corpus:
    """The rows of one split."""

    source: Source
    split: str  # the split's name
    examples: tuple[Example, ...]  # in the order of the source, none with an empty output
    fingerprint: str  # sha256 of their contents (hexadecimal)
    dropped: int = 0  # number of rows with an empty output
    listed_inputs: tuple[Words, ...] | None = None  # as in ``Rows``, ``input_words``
    listed_outputs: tuple[Words, ...] | None = None
    recognised: str = ""  # how the columns were recognised; empty if the user named them
    end: str | None = None  # the token that ends an output, if a chat template writes one

    def rows(self) -> Iterator["Rows"]:
        whole = Rows(
            [example.input for example in self.examples],
            self.outputs,
            [example.prompt for example in self.examples].__getitem__,
            [example.origin for example in self.examples],
            self.listed_inputs,
            self.listed_outputs,
            turns=[example.turn for example in self.examples if example.turn],
        )
        for start in range(0, len(self.examples), ROWS):
            yield whole.part(slice(start, start + ROWS), 0 if start else self.dropped)

    @cached_property
    def outputs(self) -> list[str]:
        return [example.output for example in self.examples]

    @cached_property
    def prompts(self) -> list[str]:
        """The prompts; InputError for chats before a chat template has written them."""
        if self.is_chat:
            raise InputError(
                f"{self.source.path} holds chats, and the tokenizer has no chat template: choose a "
                "tokenizer with one, or pass --template '{input}\\n'"
            )
        return [example.prompt for example in self.examples]

    @property
    def is_chat(self) -> bool:
        """Whether a chat template has yet to write the prompts."""
        return any(example.turn for example in self.examples[:1])


def splits(source: Source) -> list[str]:
    """Return the names of the splits; a single file is the split "train"."""
    if source.path.startswith(BUILTIN):
        return list(builtin.SPLITS)
    if local.is_local(source.path):
        return list(local.find_splits(source.path))
    return hub.find_splits(source)


def load(source: Source, split: str, *, limit: int | None = None, seed: int = 0) -> Corpus:
    """Load one split.

    Args:
        source: the data source.
        split: name of the split; "valid", "val" and "dev" mean "validation".
        limit: maximum number of rows; fewer are sampled by ``seed``, and keep their order.

    Raises:
        InputError: the source, split or column does not exist, a file is malformed, or the split
            or all its outputs are empty.
        UnavailableError: the source is on the Hub, which cannot be reached.
    """
    if limit is not None and limit < 1:
        raise InputError(f"limit is {limit}: pass 1 or more")
    source, how = as_recognised(source, split)
    table = read_table(source, split)
    rows = Rows.of(source, table)
    refuse_empty(source, table.split, len(rows.outputs), rows.dropped)
    numbers = list(range(len(rows.outputs)))
    if limit is not None and limit < len(numbers):
        numbers = sorted(random.Random(seed).sample(numbers, limit))
    chat_turns = rows.turns or (None,) * len(rows.outputs)
    examples = tuple(_example(rows, i, chat_turns[i]) for i in numbers)
    listed = [_at(lists, numbers) for lists in (rows.input_words, rows.output_words)]
    return Corpus(
        source=source,
        split=table.split,
        examples=examples,
        fingerprint=_fingerprint(examples, listed),
        dropped=rows.dropped,
        listed_inputs=listed[0],
        listed_outputs=listed[1],
        recognised=how,
    )


def _example(rows: Rows, i: int, turn: Turn | None) -> Example:
    plain = rows.origins[i] == (rows.inputs[i], rows.outputs[i])
    row = None if plain else rows.origins[i]
    return Example(rows.inputs[i], rows.outputs[i], rows.prompt(i), turn, row=row)


def refuse_empty(source: Source, split: str, samples: int, dropped: int) -> None:
    """Raise InputError if a split has no ``samples``, because it is empty or they were dropped."""
    if samples:
        return
    if dropped and source.chat:
        raise InputError(
            f"{source.path}: the split {split!r} has no message with text of the role assistant "
            f"(column {source.output_column!r}) that is learnt: name the roles user and assistant, "
            "and give answers no weight or 1"
        )
    if not dropped:
        raise InputError(f"{source.path}: the split {split!r} is empty: add rows or choose another")
    raise InputError(
        f"{source.path}: all {dropped} outputs of the split {split!r} are empty (column "
        f"{source.output_column!r}): choose another split or output column"
    )


def as_recognised(source: Source, split: str) -> tuple[Source, str]:
    """Return the source with the columns of its format, and the format; see ``tasc.data.chat``."""
    if source.path.startswith(BUILTIN) or source.names("input_column", "output_column"):
        return source.with_input(), ""
    peek = local.peek if local.is_local(source.path) else hub.peek
    recognised_source, how = recognised(source, *peek(source, split))
    return recognised_source.with_input(), how


def precheck(source: Source, split: str) -> None:
    """Raise the InputError of ``load`` for a built-in task, file, split or column that is missing.

    Datasets on the Hub are not checked.
    """
    if source.path.startswith(BUILTIN):
        builtin.check(source, split)
    elif local.is_local(source.path):
        split = local.split_files(source.path, split)[1]
        if not next(local.tables(as_recognised(source, split)[0], split, 1), None):
            refuse_empty(source, split, 0, 0)


def read_table(source: Source, split: str) -> Table:
    """Read the columns of a split that ``source`` uses; raises the errors of ``load``."""
    if source.path.startswith(BUILTIN):
        return builtin.read(source, split)
    read = local.read if local.is_local(source.path) else hub.read
    return read(source, split)


def _fingerprint(examples: Sequence[Example], listed: Sequence[tuple[Words, ...] | None]) -> str:
    digest = hashlib.sha256()
    for example in examples:
        row: list[object] = [example.input, example.output, example.prompt]
        row += [asdict(example.turn)] if example.turn else []
        digest.update(json.dumps(row, ensure_ascii=False).encode() + b"\n")
    for lists in listed:
        digest.update(json.dumps(lists).encode() if lists is not None else b"-")
    return digest.hexdigest()
