"""Intents and slots of outputs like ``intent: alarm_set, slot fills: {time: five am}``.

A slot is right where its name and its whole value are, as an entity of seqeval is where its type
and its span are; F1 is over all slots of all outputs.
"""

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from tasc.benchmark.metrics.items import shared
from tasc.benchmark.metrics.metric import right

_INTENT = re.compile(r"intent:\s*([^,{]*)")
_SLOTS = re.compile(r"\{(.*)\}?", re.DOTALL)
_NEXT = re.compile(r",\s*(?=\w+:\s)")  # values may hold commas and colons: a name begins a slot


def count_intents(outputs: Sequence[str], references: Sequence[str], _delimiter: str) -> np.ndarray:
    """Compare what follows ``intent:``; without it a text has no intent, which is wrong."""
    pairs = zip(map(_intent, outputs), map(_intent, references), strict=True)
    return right([a == b != "" for a, b in pairs])


def _intent(text: str) -> str:
    found = _INTENT.search(text)
    return found[1].strip() if found else ""


def count_slots(outputs: Sequence[str], references: Sequence[str], _delimiter: str) -> np.ndarray:
    """Count (N, 3) slots in both, in the output, in the reference."""
    return shared([slots(text) for text in outputs], [slots(text) for text in references])


def slots(text: str) -> Counter[str]:
    """Return the slots between braces, as ``name: value``."""
    found = _SLOTS.search(text)
    parts = _NEXT.split(found[1].removesuffix("}")) if found else []
    return Counter(part.strip() for part in parts if part.strip())
