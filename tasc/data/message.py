"""Messages of chats: the names in public formats, and plain values."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tasc.data.marks import MARKS, answer_is_learnt, is_null

Message = dict[str, Any]  # role, content (missing without text), and other keys for the template
ANSWER, SYSTEM, TOOL = "assistant", "system", "tool"
ADVICE = 'write a list of {"role": "user", "content": "..."}'
_ROLE_KEYS = ("role", "from", "speaker")
_TEXT_KEYS = ("content", "value", "text")
# Other roles are left to the chat template.
_ROLES = {name: name for name in (SYSTEM, "user", ANSWER, TOOL)} | {
    **{"human": "user", "prompter": "user", "observation": TOOL},
    **dict.fromkeys(("gpt", "model", "bot", "chatbot", "ai", "function_call"), ANSWER),
}
CALLS = ("tool_calls", "function_call")
# Keys that a message may have beside its text.
_BESIDE = {"role", "name", "id", "tool_call_id", "refusal", "audio", "annotations"}
_BESIDE |= {"reasoning", "reasoning_content", "thinking"}
FORMAT = frozenset({*_BESIDE, *CALLS, "content"})  # keys of a message that was read
_EXACT = 2**53  # whole numbers below it are the same as integers and as doubles


class MessageError(ValueError):
    """A message that cannot be read; the text has the reason and the remedy."""


@dataclass(frozen=True)
class Said:
    """A message, and whether a model may learn it."""

    message: Message
    learnt: bool


def read_message(item: Mapping[str, Any], text_of: Callable[[object], str]) -> Said:
    """Read a message in any of the known formats; ``text_of`` makes a text of a content.

    The keys of the result are role, content, then the others in their order. Marks of learnt
    answers are removed, because they are not for the chat template. Raises MessageError if the
    message has no role or no text, and MarkError if it is an answer with unclear marks.
    """
    unread = {key: value for key, value in item.items() if not is_null(value)}
    role_key = next((key for key in _ROLE_KEYS if key in unread), "")
    stated = unread.pop(role_key, None)
    if not isinstance(stated, str):
        keys = ", ".join(map(str, item)) or "nothing"
        raise MessageError(f"has no role, only {keys:.100}; {ADVICE}")
    role = _ROLES.get(stated.strip().lower(), stated)
    text_key = next((key for key in _TEXT_KEYS if key in unread), "")
    content = unread.pop(text_key, None)
    learnt = role == ANSWER and answer_is_learnt(unread, content)
    if content is None:
        _check_textless(role, unread)
    others = {key: value for key, value in unread.items() if key not in MARKS}
    text = {} if content is None else {"content": _text(content, text_of)}
    return Said({"role": role, **text, **plain(others)}, learnt)


def plain(value: object) -> Any:  # noqa: ANN401 - JSON values
    """Return a value as JSON values that do not depend on the format of its file.

    Arrow gives all objects of a column the same keys, null where a row lacks one, and makes doubles
    of integers that share a column with fractions. So null keys are left out, as transformers 5.23
    does in messages, and whole doubles become integers. Dates and the like become text.
    """
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items() if not is_null(v)}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
        return int(value)
    return value if value is None or isinstance(value, str | int | float) else str(value)


def as_rows(value: object) -> object:
    """Return a list of objects that is stored as JSON text or as an object of lists, as a list.

    `datasets` stores a ``Sequence`` of objects as an object of lists. Other values do not change.
    """
    if isinstance(value, str) and value.lstrip()[:1] == "[":
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    if not isinstance(value, Mapping):
        return value
    lists = [entries for entries in value.values() if isinstance(entries, list)]
    if len(lists) < len(value) or len({len(entries) for entries in lists}) != 1:
        return value
    return [dict(zip(value, row, strict=True)) for row in zip(*lists, strict=True)]


def _check_textless(role: str, message: Mapping[str, Any]) -> None:
    """Raise MessageError if a message without text has keys that may hold it."""
    unknown = [key for key in message if key not in _BESIDE | MARKS]
    if role in _ROLES.values() and unknown and not any(key in message for key in CALLS):
        keys = ", ".join(map(str, unknown))
        raise MessageError(f"has no content, only {keys:.100}; {ADVICE}")


def _text(content: object, text_of: Callable[[object], str]) -> str:
    """Return a message's text, which may be a list of parts."""
    if not isinstance(content, list):
        return text_of(content)
    texts = (part.get("text") if isinstance(part, Mapping) else part for part in content)
    parts = [text for text in texts if isinstance(text, str)]
    if len(parts) < len(content):
        raise MessageError("has a part that is not text: write text parts only")
    return "".join(parts)
