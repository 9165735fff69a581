"""Calls of tools in the text of an output, where they have a form that many models write."""

import json
import re
import uuid
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

_OPENING = ("<tool_call>", "[TOOL_CALLS]", "<|python_tag|>")
_TAGGED = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.S)


@dataclass(frozen=True)
class Call:
    """A call of the tool ``name`` with ``arguments``, a JSON object as text."""

    name: str
    arguments: str

    def body(self, index: int | None = None) -> dict[str, Any]:
        """Return the call in the form of the API; pieces of a stream have an ``index``."""
        numbered = {} if index is None else {"index": index}
        function = {"name": self.name, "arguments": self.arguments}
        name = f"call_{uuid.uuid4().hex[:24]}"
        return numbered | {"id": name, "type": "function", "function": function}


def calls_in(text: str, names: Collection[str]) -> tuple[str, list[Call]]:
    """Return the text before the calls of tools with ``names``, and the calls.

    Calls are JSON objects with a name and arguments or parameters, or lists of them: each between
    ``<tool_call>`` and ``</tool_call>`` (Hermes, Qwen, SmolLM2), after ``[TOOL_CALLS]`` (Mistral),
    after ``<|python_tag|>``, or the whole text (Llama 3). Where a part is not understood, all is
    text.
    """
    before, written = text, list[str]()
    begin = min((at for mark in _OPENING if (at := text.find(mark)) >= 0), default=-1)
    if begin >= 0 and text.startswith(_OPENING[0], begin):
        before, rest = text[:begin], text[begin:]
        written = _TAGGED.findall(rest) if not _TAGGED.sub("", rest).strip() else []
    elif begin >= 0:
        mark = next(mark for mark in _OPENING if text.startswith(mark, begin))
        before, written = text[:begin], [text[begin + len(mark) :]]
    elif text.lstrip()[:1] in ("{", "["):
        before, written = "", [text]
    calls = list[Call]()
    for part in written:
        found = _calls(part, names)
        if not found:
            return text, []
        calls += found
    return (before.rstrip(), calls) if calls else (text, [])


def _calls(part: str, names: Collection[str]) -> list[Call]:
    """Return the calls in a JSON text; none if it is anything else."""
    try:
        value = json.loads(part)
    except (ValueError, RecursionError):
        return []
    calls = list[Call]()
    for one in value if isinstance(value, list) else [value]:
        name = one.get("name") if isinstance(one, dict) else None
        arguments = one.get("arguments", one.get("parameters")) if isinstance(name, str) else None
        if name not in names or not isinstance(arguments, dict):
            return []
        calls.append(Call(str(name), json.dumps(arguments, ensure_ascii=False)))
    return calls


class CallStream:
    """The text of an output in pieces, without what may be a call of a tool."""

    def __init__(self, names: Collection[str]) -> None:
        self.names, self.text, self.sent = names, "", 0

    def add(self, piece: str) -> str:
        """Return the text that is no call whatever comes next."""
        self.text += piece
        end = self._certain()
        self.sent, sent = max(end, self.sent), self.sent
        return self.text[sent : self.sent]

    def end(self) -> tuple[str, list[Call]]:
        """Return the rest of the text, and the calls."""
        before, calls = calls_in(self.text, self.names)
        return before[self.sent :], calls

    def _certain(self) -> int:
        text = self.text
        if text.lstrip()[:1] in ("{", "["):
            return 0
        ends = [at for mark in _OPENING if (at := text.find(mark)) >= 0]
        for mark in _OPENING:
            for size in range(1, len(mark)):
                if text.endswith(mark[:size]):
                    ends.append(len(text) - size)
        return len(text[: min(ends, default=len(text))].rstrip())
