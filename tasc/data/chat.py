"""Chats and instructions: recognising them by their columns, and the turns of a chat."""

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tasc.data.marks import MarkError, is_about_learning, is_learnt, is_null
from tasc.data.message import (
    ADVICE,
    SYSTEM,
    Message,
    MessageError,
    Said,
    as_rows,
    plain,
    read_message,
)
from tasc.data.source import Source
from tasc.data.table import Table
from tasc.errors import InputError

_CHATS = ("messages", "conversations")
# Columns that are chats if their first value is a list of objects.
_LIKELY = ("conversation", "dialog", "dialogue", "chat")
_PAIR = ("prompt", "completion")
_TOOLS = "tools"
_MOST_ANSWERS = 200  # of a chat: the time to write its prompts grows with the square


@dataclass(frozen=True)
class Turn:
    """A message of the assistant and the messages before it."""

    before: tuple[Message, ...]  # at least one
    answer: Message
    tools: list[Any] | None = None  # JSON schemas of the functions that the assistant may call

    @property
    def input(self) -> str:
        """The text of the messages before the answer, without their roles."""
        return "\n".join(message.get("content", "") for message in self.before)

    @property
    def output(self) -> str:
        return str(self.answer.get("content", ""))


def recognised(
    source: Source, names: Collection[str], first: Callable[[str], object]
) -> tuple[Source, str]:
    """Replace the default columns of ``source`` if the existing columns have a known format.

    ``names`` are the existing columns; ``first`` returns a column's value in the first row. Also
    returns a description of the format, empty for the default columns.
    """
    source, form = _of_format(source, names, first)
    used = {*source.columns()}
    marks = tuple(name for name in names if name not in used and is_about_learning(name))
    return replace(source, mark_columns=marks), form


def _of_format(
    source: Source, names: Collection[str], first: Callable[[str], object]
) -> tuple[Source, str]:
    has = set(names).issuperset
    if has(["instruction", "output"]) and not source.names("template"):
        if has(["input"]):
            return replace(source, template="{instruction}\n{input}\n"), "instructions with inputs"
        return replace(source, input_column="instruction"), "instructions"
    if has(["input", "output"]):
        return source, ""
    column = next((name for name in _CHATS if has([name])), None)
    if column is None and has(_PAIR):
        if not isinstance(first(_PAIR[0]), list):
            template = source.template if source.names("template") else "{input}"
            source = replace(source, input_column=_PAIR[0], output_column=_PAIR[1])
            return replace(source, template=template), "prompts and completions"
        return _chats(source, *_PAIR, names), "chats"
    column = column or next(
        (name for name in _LIKELY if has([name]) and _is_chat(first(name))), None
    )
    return (source, "") if column is None else (_chats(source, column, column, names), "chats")


def _is_chat(value: object) -> bool:
    listed = as_rows(value)
    return isinstance(listed, list) and bool(listed) and isinstance(listed[0], Mapping)


def _chats(source: Source, before: str, after: str, names: Collection[str]) -> Source:
    free = {*names} - {*source.template_columns()}
    tools, system = (name if name in free else None for name in (_TOOLS, SYSTEM))
    source = replace(source, input_column=before, output_column=after, chat=True)
    return replace(source, tools_column=tools, system_column=system)


def turns(source: Source, table: Table) -> tuple[list[tuple[int, Turn]], int]:
    """Return the turns with text of a table of chats, each with the number of its row.

    A chat's first message is never a turn, nor is an answer that its marks or those of its row
    exclude, such as ``"weight": 0``. If there are prompt and completion columns, only the
    completion has turns. Also returns the number dropped: turns without text, and rows without
    turns. Raises InputError if a row is not a chat.
    """
    rows = list(_rows(source, table))
    with_text = [turn for row in rows for turn in row if turn[1].output.strip()]
    return with_text, sum(max(1, len(row)) for row in rows) - len(with_text)


def _rows(source: Source, table: Table) -> Iterator[list[tuple[int, Turn]]]:
    columns = dict.fromkeys((source.input_column, source.output_column))
    for row in range(table.length):
        parts = [_Cell(table, name, row).messages() for name in columns]
        if source.system_column:
            parts[0] = _Cell(table, source.system_column, row).before(parts[0])
        said = [one for part in parts for one in part]
        begin = max(1, len(parts[0]) if len(parts) > 1 else 0)
        tools = _Cell(table, source.tools_column, row).tools() if source.tools_column else None
        learnt = _row_is_learnt(source, table, row)
        answers = [i for i in range(begin, len(said)) if said[i].learnt and learnt]
        if len(answers) > _MOST_ANSWERS:
            raise InputError(
                f"{table.where(row)}: a chat with {len(answers):,} answers, and each is an example "
                f"after all that precedes it: split it into chats of {_MOST_ANSWERS} at most"
            )
        messages = [one.message for one in said]
        yield [(row, Turn(tuple(messages[:i]), messages[i], tools)) for i in answers]


def _row_is_learnt(source: Source, table: Table, row: int) -> bool:
    marks = {name: table.columns[name][row] for name in source.mark_columns}
    try:
        return is_learnt({k: v for k, v in marks.items() if not is_null(v) and v != ""})
    except MarkError as error:
        raise InputError(
            f"{table.where(row)}: the row {error}; rename a column of another meaning"
        ) from None


@dataclass(frozen=True)
class _Cell:
    """A value of a table that holds messages or tools."""

    table: Table
    column: str
    row: int

    def error(self, text: str) -> InputError:
        return InputError(f"{self.table.where(self.row)}: {text}")

    def messages(self) -> list[Said]:
        listed = as_rows(self.table.columns[self.column][self.row])
        if not isinstance(listed, list) or not all(isinstance(item, Mapping) for item in listed):
            raise self.error(f"column {self.column!r} is not a chat; {ADVICE}")
        return [self._message(item) for item in listed]

    def before(self, said: list[Said]) -> list[Said]:
        """Return the messages after this system prompt, unless they begin with one of their own."""
        text = self._text(self.table.columns[self.column][self.row])
        if not text.strip() or any(one.message["role"] == SYSTEM for one in said[:1]):
            return said
        return [Said({"role": SYSTEM, "content": text}, learnt=False), *said]

    def _message(self, item: Mapping[str, Any]) -> Said:
        try:
            said = read_message(item, self._text)
        except (MarkError, MessageError) as error:
            raise self.error(f"a message in {self.column!r} {error}") from None
        except RecursionError:
            raise self.error(f"column {self.column!r} is nested too deeply: flatten it") from None
        self._check_unicode(said.message)
        return said

    def _text(self, value: object) -> str:
        return self.table.text(self.column, self.row, value)

    def _check_unicode(self, value: object) -> None:
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except ValueError:
            raise self.error(
                f"column {self.column!r} holds half of a surrogate pair: fix the escape"
            ) from None

    def tools(self) -> list[Any] | None:
        """Return the tools, which are a list of objects or its JSON; None if there are none.

        JSON text keeps null keys and fractions of zero, which objects in a file lose.
        """
        value = self.table.columns[self.column][self.row]
        try:
            if isinstance(value, str):
                value = json.loads(value) if value.strip() else None
            elif value is not None:
                value = plain(value) if value == value else None  # pandas writes null as NaN
        except (ValueError, RecursionError):
            value = False
        if value is None or (isinstance(value, list) and all(isinstance(t, dict) for t in value)):
            self._check_unicode(value)
            return value or None
        raise self.error(
            f"column {self.column!r} has no tools: write a list of JSON schemas, or null"
        )
