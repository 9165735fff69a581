"""Metrics of texts: whole, by words, as SQL queries, and as an intent with slots.

Intents and slots are in outputs like ``intent: alarm_set, slot fills: {time: five am}``. A slot is
right if its name and its whole value are, like type and span of an entity in seqeval.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from tasc.benchmark.metrics.items import shared
from tasc.benchmark.metrics.metric import counts_of

_INTENT = re.compile(r"intent:\s*([^,{]*)")
_SLOTS = re.compile(r"\{(.*)\}?", re.DOTALL)
_NEXT_SLOT = re.compile(r",\s*(?=\w+:\s)")  # values may contain commas and colons
_QUOTED = re.compile(r"('(?:[^']|'')*'|\"[^\"]*\")")


def count_equal(
    form: Callable[[str], str], outputs: Sequence[str], references: Sequence[str], _delimiter: str
) -> np.ndarray:
    """Compare the forms of outputs and references: (N, 2)."""
    return counts_of([form(a) == form(b) for a, b in zip(outputs, references, strict=True)])


def count_words(outputs: Sequence[str], references: Sequence[str], _delimiter: str) -> np.ndarray:
    """Count (N, 2): words equal to the reference at their position, and the reference's words."""
    pairs = [(a.split(), b.split()) for a, b in zip(outputs, references, strict=True)]
    return np.array(
        [(sum(x == y for x, y in zip(a, b, strict=False)), len(b)) for a, b in pairs], float
    )


def count_rouge_l(outputs: Sequence[str], references: Sequence[str], _delimiter: str) -> np.ndarray:
    """Return the F-measure of each output, and 1: (N, 2).

    ROUGE-L of Lin (2004), as computed by the package rouge-score, without stemming. Words are of
    any alphabet; the package's own tokenizer knows a to z and digits only.
    """
    from rouge_score.rouge_scorer import RougeScorer
    from rouge_score.tokenizers import Tokenizer

    class Words(Tokenizer):  # type: ignore[misc]
        def tokenize(self, text: str) -> list[str]:
            return re.findall(r"[^\W_]+", text.lower())

    scorer = RougeScorer(["rougeL"], tokenizer=Words())
    pairs = zip(references, outputs, strict=True)
    return counts_of([scorer.score(b, a)["rougeL"].fmeasure for b, a in pairs])


def normalised_sql(query: str) -> str:
    """Lower-case unquoted text, collapse spaces, and drop a final semicolon.

    Spaces around commas, parentheses and comparisons are dropped.
    """
    parts = _QUOTED.split(query.strip().rstrip(";").strip())
    parts[::2] = [re.sub(r"\s+", " ", text.lower()) for text in parts[::2]]
    parts[::2] = [re.sub(r"\s*(<=|>=|<>|!=|[(),=<>])\s*", r"\1", text) for text in parts[::2]]
    return "".join(parts)


def count_intents(outputs: Sequence[str], references: Sequence[str], _delimiter: str) -> np.ndarray:
    """Compare the texts after ``intent:`` (N, 2); an output without an intent is wrong."""
    pairs = zip(map(_INTENT.search, outputs), map(_INTENT.search, references), strict=True)
    return counts_of([bool(a and b and a[1].strip() == b[1].strip() != "") for a, b in pairs])


def count_slots(outputs: Sequence[str], references: Sequence[str], _delimiter: str) -> np.ndarray:
    """Count the slots (N, 3) in both, in the output, and in the reference."""
    return shared([slots(text) for text in outputs], [slots(text) for text in references])


def slots(text: str) -> Counter[str]:
    """Return the slots between braces, as ``name: value``."""
    braces = _SLOTS.search(text.strip())
    parts = _NEXT_SLOT.split(braces[1].removesuffix("}")) if braces else []
    return Counter(part.strip() for part in parts if part.strip())
