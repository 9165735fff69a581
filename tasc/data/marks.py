"""Marks that exclude an answer, or all answers of a row, from the loss."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

# 0 or false excludes an answer: OpenAI, Mistral and ShareGPT; axolotl; ms-swift, XTuner, slime and
# LlamaFactory; Tinker.
_LEARNT = ("weight", "train", "training", "loss", "loss_scale", "loss_weight", "loss_mask")
# Whether 1 or true means that the answer is learnt; torchtune excludes what is masked.
_MARKS = {**dict.fromkeys((*_LEARNT, "trainable"), True), "masked": False}
_DETAIL = "train_detail"  # axolotl's marks of parts of a text
MARKS = frozenset({*_MARKS, _DETAIL})
_PARTS = "parts of weight"  # in an error
_SPOKEN = {"true": 1.0, "false": 0.0}
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_LEARNING = re.compile(r"(un)?(loss|mask|train|learn|weight|ignor|exclu|skip|supervis)")


class MarkError(ValueError):
    """A mark without a clear meaning; the text has the reason and the remedy."""


def is_null(value: object) -> bool:
    """Return whether a value is null, or NaN, which pandas writes in its place."""
    return value is None or value != value


def is_about_learning(name: str) -> bool:
    """Return whether a word of a name is about learning, such as those of ``train_on_prompt``."""
    return any(_LEARNING.match(word.lower()) for word in _WORD.findall(name))


def is_learnt(entry: Mapping[str, Any]) -> bool:
    """Return whether the marks among the keys of an object say that it is learnt.

    It is, if there are none. Raises MarkError if a mark is neither 0 nor 1, if marks contradict
    each other, or if a key whose name is about learning has such a value and is not known.
    """
    return _agreed(_marks(entry), entry)


def answer_is_learnt(entry: Mapping[str, Any], content: object) -> bool:
    """Return whether an answer is learnt by the marks among its keys and in parts of its content.

    Raises the errors of ``is_learnt``, and MarkError if some parts are learnt and some are not.
    """
    marks = _marks(entry)
    if detail := entry.get(_DETAIL):
        marks[_DETAIL] = _detail(detail)
    if isinstance(content, list) and not _parts_are_learnt(content):
        entry, marks = {**entry, _PARTS: 0}, {**marks, _PARTS: False}
    return _agreed(marks, entry)


def _marks(entry: Mapping[str, Any]) -> dict[str, bool]:
    unknown = next((name for name, value in entry.items() if _is_unknown(name, value)), None)
    if unknown is not None:
        raise MarkError(
            f"has {unknown} {entry[unknown]!r:.60}, which may exclude answers and is not known: "
            'write "weight": 0 or 1 instead, or remove the key'
        )
    return {
        name: _mark(name, entry[name]) is learnt
        for name, learnt in _MARKS.items()
        if not is_null(entry.get(name))
    }


def _is_unknown(name: str, value: object) -> bool:
    return name not in MARKS and is_about_learning(str(name)) and _is_flag(value)


def _is_flag(value: object) -> bool:
    if isinstance(value, list):
        return bool(value) and all(map(_is_flag, value))
    return str(value).strip().lower() in {*_SPOKEN, "0", "1", "0.0", "1.0"}


def _agreed(marks: Mapping[str, bool], entry: Mapping[str, Any]) -> bool:
    if len(set(marks.values())) > 1:
        stated = " and ".join(f"{name} {entry[name]!r:.40}" for name in marks)
        raise MarkError(f"has contradictory marks, {stated}: keep one of them")
    return all(marks.values())


def _mark(name: str, value: object) -> bool:
    try:
        number = _SPOKEN.get(str(value).strip().lower())
        number = float(str(value)) if number is None else number
    except ValueError:
        number = -1.0
    if number not in (0.0, 1.0):
        context = 1 - _MARKS.get(name, True)
        raise MarkError(
            f"has {name} {value!r:.60}, but an answer is learnt or not: write {context:d} for "
            f"context only, or {1 - context:d}"
        )
    return number == 1.0


def _detail(parts: object) -> bool:
    listed = parts if isinstance(parts, list) else [parts]
    marks = {
        _mark("train", part.get("train")) if isinstance(part, Mapping) else None for part in listed
    }
    if len(marks) != 1 or None in marks:
        raise MarkError(
            f"has {_DETAIL} for parts of its text, but answers are learnt whole: write "
            '"train": true or false instead'
        )
    return marks == {True}


def _parts_are_learnt(parts: Iterable[Any]) -> bool:
    """Return whether the parts of a text are learnt; MarkError if some are and some are not."""
    learnt = {is_learnt(part) for part in parts if isinstance(part, Mapping)}
    if len(learnt) > 1:
        raise MarkError(
            "has parts that are learnt and parts that are not, but answers are learnt whole: write "
            '"weight": 0 for the whole answer, or no weights'
        )
    return learnt != {False}
