"""Chats and instructions: recognising them by their columns, and the turns of a chat."""

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tasc.data.source import Source
from tasc.data.table import Table
from tasc.errors import InputError

Message = dict[str, Any]  # role, content, and other keys for the chat template
_CHATS = ("messages", "conversations")
_PAIR = ("prompt", "completion")
_TOOLS = "tools"
_SYSTEM = "system"  # a column, and a role
_ANSWER = "assistant"
# ShareGPT's names. Other roles are left to the chat template.
_ROLES = {"human": "user", "gpt": _ANSWER, "function_call": _ANSWER, "observation": "tool"}
_MOST_ANSWERS = 200  # of a chat: the time to write its prompts grows with the square
_ADVICE = 'write a list of {"role": "user", "content": "..."}'


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
    has = set(names).issuperset
    if has(["instruction", "output"]) and not source.names("template"):
        if has(["input"]):
            return replace(source, template="{instruction}\n{input}\n"), "instructions with inputs"
        return replace(source, input_column="instruction"), "instructions"
    if has(["input", "output"]):
        return source, ""
    found = next((name for name in _CHATS if has([name])), None)
    if found is None and has(_PAIR):
        if not isinstance(first(_PAIR[0]), list):
            template = source.template if source.names("template") else "{input}"
            source = replace(source, input_column=_PAIR[0], output_column=_PAIR[1])
            return replace(source, template=template), "prompts and completions"
        return _chats(source, *_PAIR, names), "chats"
    return (source, "") if found is None else (_chats(source, found, found, names), "chats")


def _chats(source: Source, before: str, after: str, names: Collection[str]) -> Source:
    free = {*names} - {*source.template_columns()}
    tools, system = (name if name in free else None for name in (_TOOLS, _SYSTEM))
    source = replace(source, input_column=before, output_column=after, chat=True)
    return replace(source, tools_column=tools, system_column=system)


def turns(source: Source, table: Table) -> tuple[list[tuple[int, Turn]], int]:
    """Return the turns with text of a table of chats, each with the number of its row.

    A chat's first message is never a turn. If there are prompt and completion columns, only the
    completion has turns. Also returns the number dropped: turns without text, and rows without
    turns. Raises InputError if a row is not a chat.
    """
    rows = list(_rows(source, table))
    kept = [turn for row in rows for turn in row if turn[1].output.strip()]
    return kept, sum(max(1, len(row)) for row in rows) - len(kept)


def _rows(source: Source, table: Table) -> Iterator[list[tuple[int, Turn]]]:
    columns = dict.fromkeys((source.input_column, source.output_column))
    for row in range(table.length):
        parts = [_Cell(table, name, row).messages() for name in columns]
        if source.system_column:
            parts[0] = _Cell(table, source.system_column, row).before(parts[0])
        messages = [message for part in parts for message in part]
        begin = max(1, len(parts[0]) if len(parts) > 1 else 0)
        tools = _Cell(table, source.tools_column, row).tools() if source.tools_column else None
        answers = [i for i in range(begin, len(messages)) if messages[i]["role"] == _ANSWER]
        if len(answers) > _MOST_ANSWERS:
            raise InputError(
                f"{table.where(row)}: a chat with {len(answers):,} answers, and each is an example "
                f"after all that precedes it: split it into chats of {_MOST_ANSWERS} at most"
            )
        yield [(row, Turn(tuple(messages[:i]), messages[i], tools)) for i in answers]


@dataclass(frozen=True)
class _Cell:
    """A value of a table that holds messages or tools."""

    table: Table
    column: str
    row: int

    def error(self, text: str) -> InputError:
        return InputError(f"{self.table.where(self.row)}: {text}")

    def messages(self) -> list[Message]:
        listed = self.table.columns[self.column][self.row]
        if not isinstance(listed, list) or not all(isinstance(item, Mapping) for item in listed):
            raise self.error(f"column {self.column!r} is not a chat; {_ADVICE}")
        return [self._message(item) for item in listed]

    def before(self, messages: list[Message]) -> list[Message]:
        """Return the messages after this system prompt, unless they begin with one of their own."""
        text = self.table.text(self.column, self.row, self.table.columns[self.column][self.row])
        if not text.strip() or any(message["role"] == _SYSTEM for message in messages[:1]):
            return messages
        return [{"role": _SYSTEM, "content": text}, *messages]

    def _message(self, item: Mapping[str, Any]) -> Message:
        message = {key: value for key, value in item.items() if value is not None}
        if "role" not in message and "from" in message:
            message = {("content" if k == "value" else k): value for k, value in message.items()}
            role = message.pop("from")
            message["role"] = _ROLES.get(role, role) if isinstance(role, str) else role
        if not isinstance(message.get("role"), str):
            keys = ", ".join(map(str, item)) or "nothing"
            raise self.error(
                f"a message in {self.column!r} has no role, only {keys:.100}; {_ADVICE}"
            )
        if "content" in message:
            message["content"] = self._content(message["content"])
        plain: Message = self._plain(message)
        return plain

    def _plain(self, value: object) -> Any:  # noqa: ANN401 - JSON values
        """Return JSON values, with dates and the like as text."""
        try:
            return json.loads(json.dumps(value, ensure_ascii=False, default=str).encode())
        except ValueError:
            raise self.error(
                f"column {self.column!r} holds half of a surrogate pair: fix the escape"
            ) from None

    def _content(self, content: object) -> str:
        """Return a message's text, which may be a list of parts."""
        if not isinstance(content, list):
            return self.table.text(self.column, self.row, content)
        found = (part.get("text") if isinstance(part, Mapping) else part for part in content)
        parts = [part for part in found if isinstance(part, str)]
        if len(parts) < len(content):
            raise self.error(
                f"a message in {self.column!r} has a part that is not text: write text parts only"
            )
        return "".join(parts)

    def tools(self) -> list[Any] | None:
        """Return the tools, which are a list of objects or its JSON; None if there are none."""
        found = self.table.columns[self.column][self.row]
        try:
            found = json.loads(found) if isinstance(found, str) else found
        except (ValueError, RecursionError):
            found = False
        if found is None or (isinstance(found, list) and all(isinstance(t, dict) for t in found)):
            return self._plain(found) or None
        raise self.error(
            f"column {self.column!r} has no tools: write a list of JSON schemas, or null"
        )
