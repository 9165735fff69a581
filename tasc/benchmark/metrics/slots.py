"""Intents and slots of outputs like ``intent: alarm_set, slot fills: {time: five am}``.

A slot is right if its name and its whole value are, like type and span of an entity in seqeval. F1
is over all slots of all outputs.
"""

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from tasc.benchmark.metrics.items import shared
from tasc.benchmark.metrics.metric import right

_INTENT = re.compile(r"intent:\s*([^,{]*)")
_SLOTS = re.compile(r"\{(.*)\}?", re.DOTALL)
_NEXT = re.compile(r",\s*(?=\w+:\s)")  # values may contain commas and colons


def count_intents(outputs: Sequence[str], references: Sequence[str], _delimiter: str) -> np.ndarray:
    """Compare the texts after ``intent:``; an output without an intent is wrong."""
    pairs = zip(map(_intent, outputs), map(_intent, references), strict=True)
    return right([a == b != "" for a, b in pairs])


def _intent(text: str) -> str:
    found = _INTENT.search(text)
    return found[1].strip() if found else ""


def count_slots(outputs: Sequence[str], references: Sequence[str], _delimiter: str) -> np.ndarray:
    """Count the slots (N, 3) in both, in the output, and in the reference."""
    return shared([slots(text) for text in outputs], [slots(text) for text in references])


def slots(text: str) -> Counter[str]:
    """Return the slots between braces, as ``name: value``."""
    found = _SLOTS.search(text)
    parts = _NEXT.split(found[1].removesuffix("}")) if found else []
    return Counter(part.strip() for part in parts if part.strip())
