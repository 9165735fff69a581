"""Judges that a test makes, and what they judge."""

import re

import tasc
from tasc.benchmark.judge.results import JudgeResults

ROWS = [{"input": f"number {i}", "output": f"expected {i}"} for i in range(12)]
SECTION = re.compile(r"\[Agent [A-Z]'s Answer Begin\]\n(.*?)\n\[Agent [A-Z]'s Answer End\]", re.S)


def answers(messages) -> list[str]:
    """Return what is to be judged, in the order shown."""
    return SECTION.findall(messages[0]["content"])


def prefers(word, best=4, others=2):
    """Return a judge that gives ``best`` to an answer with ``word`` in it."""
    return lambda messages: " ".join(
        str(best if word in answer else others) for answer in answers(messages)
    )


def judged(bench, url, **options) -> JudgeResults:
    given = {"only": ("one", "two"), "timeout": 5.0, "results": str(bench), "endpoint": url}
    return tasc.judge(tasc.JudgeOptions(**given | options))
