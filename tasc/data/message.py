"""Messages of chats: the names in public formats, marks of learnt answers, plain values."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

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
# 0 or false excludes an answer: OpenAI, Mistral and ShareGPT; axolotl; ms-swift and XTuner; Tinker.
_MARKS = ("weight", "train", "training", "loss", "loss_scale", "trainable")
_PARTS = "parts of weight"  # in an error
_DETAIL = "train_detail"  # axolotl's marks of parts of a text
_SPOKEN = {"true": 1.0, "false": 0.0}
CALLS = ("tool_calls", "function_call")
# Keys that a message without text may have.
_KNOWN = {"role", "name", "id", "tool_call_id", "refusal", "audio", "annotations", _DETAIL}
_KNOWN |= {"reasoning", "reasoning_content", "thinking", *_MARKS}
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
    message has no role or no text, or marks that are neither 0 nor 1.
    """
    unread = {key: value for key, value in item.items() if not _is_null(value)}
    role_key = next((key for key in _ROLE_KEYS if key in unread), "")
    stated = unread.pop(role_key, None)
    if not isinstance(stated, str):
        keys = ", ".join(map(str, item)) or "nothing"
        raise MessageError(f"has no role, only {keys:.100}; {ADVICE}")
    role = _ROLES.get(stated.strip().lower(), stated)
    text_key = next((key for key in _TEXT_KEYS if key in unread), "")
    content = unread.pop(text_key, None)
    learnt = role == ANSWER and _is_learnt(unread, content)
    if content is None:
        _check_textless(role, unread)
    others = {key: value for key, value in unread.items() if key not in (*_MARKS, _DETAIL)}
    text = {} if content is None else {"content": _text(content, text_of)}
    return Said({"role": role, **text, **plain(others)}, learnt)


def plain(value: object) -> Any:  # noqa: ANN401 - JSON values
    """Return a value as JSON values that do not depend on the format of its file.

    Arrow gives all objects of a column the same keys, null where a row lacks one, and makes doubles
    of integers that share a column with fractions. So null keys are left out, as transformers 5.23
    does in messages, and whole doubles become integers. Dates and the like become text.
    """
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items() if not _is_null(v)}
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


def _is_null(value: object) -> bool:
    return value is None or value != value


def _is_learnt(given: Mapping[str, Any], content: object) -> bool:
    marks = {name: _mark(name, given[name]) for name in _MARKS if name in given}
    if detail := given.get(_DETAIL):
        marks[_DETAIL] = _detail(detail)
    if isinstance(content, list) and not _parts_are_learnt(content):
        given, marks = {**given, _PARTS: 0}, {**marks, _PARTS: False}
    if len(set(marks.values())) > 1:
        stated = " and ".join(f"{name} {given[name]!r:.40}" for name in marks)
        raise MessageError(f"has contradictory marks, {stated}: keep one of them")
    return all(marks.values())


def _mark(name: str, value: object) -> bool:
    try:
        number = _SPOKEN.get(str(value).strip().lower())
        number = float(str(value)) if number is None else number
    except ValueError:
        number = -1.0
    if number not in (0.0, 1.0):
        raise MessageError(
            f"has {name} {value!r:.60}, but an answer is learnt or not: write 0 for context only, "
            "or 1"
        )
    return number == 1.0


def _detail(parts: object) -> bool:
    listed = parts if isinstance(parts, list) else [parts]
    marks = {
        _mark("train", part.get("train")) if isinstance(part, Mapping) else None for part in listed
    }
    if len(marks) != 1 or None in marks:
        raise MessageError(
            f"has {_DETAIL} for parts of its text, but answers are learnt whole: write "
            '"train": true or false instead'
        )
    return marks == {True}


def _parts_are_learnt(parts: list[Any]) -> bool:
    """Return whether the parts of a text are learnt; MessageError if some are and some are not."""
    learnt = {
        all(_mark(name, part[name]) for name in _MARKS if not _is_null(part.get(name)))
        for part in parts
        if isinstance(part, Mapping)
    }
    if len(learnt) > 1:
        raise MessageError(
            "has parts that are learnt and parts that are not, but answers are learnt whole: write "
            '"weight": 0 for the whole answer, or no weights'
        )
    return learnt != {False}


def _check_textless(role: str, given: Mapping[str, Any]) -> None:
    """Raise MessageError if a message without text has keys that may hold it."""
    unknown = [key for key in given if key not in _KNOWN]
    if role in _ROLES.values() and unknown and not any(key in given for key in CALLS):
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
