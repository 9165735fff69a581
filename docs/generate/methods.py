"""Tables of methods, verifiers and metrics, from the program's own registries."""

import inspect
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from docs.generate import markdown
from tasc.benchmark.metrics import JUDGE, METRICS, bert, find, structured
from tasc.benchmark.metrics.metric import Metric
from tasc.decoding.drafters.table import METHODS, Entry
from tasc.decoding.verify import VERIFIERS
from tasc.execution import EXECUTORS

NEEDS = {
    "": "",
    "grammar": "`--schema`, `--grammar`, `--regex` or `--choices`",
    "model": "the target's own predictions",
    "logits": "the logits of the target while it decodes",
    "draft": "`--draft`, a small model; else n-grams",
    "head": "a trained draft head: `--draft-head`",
    "either": "`--draft-head`, a trained draft head, or else `--draft`, a small model",
    "choices": "`--choices`, the labels of the task",
}


def drafters(_block: str) -> str:
    """Return a table of all methods, then each with its options."""
    overview = markdown.table(
        ["method", "needs", "tree size", "source"],
        [
            [f"[`{name}`](#{name})", NEEDS[e.needs], str(e.budget or 0), e.paper]
            for name, e in METHODS.items()
        ],
    )
    return "\n\n".join([overview, *(_drafter(name, entry) for name, entry in METHODS.items())])


def _drafter(name: str, entry: Entry) -> str:
    kind, preset = entry.options, entry.preset
    lines = [["`budget`", "integer or `auto`", f"`{entry.budget}`", ""]] if entry.budget else []
    for option in fields(kind):
        default = preset.get(option.name, option.default)
        bounds = option.metadata.get("bounds", "")
        lines.append(
            [
                markdown.code(option.name.rstrip("_")),
                markdown.VALUES[type(option.default)],
                markdown.code(_written(default)),
                str(bounds).removeprefix("lie ").removeprefix("be "),
            ]
        )
    if not lines:
        return f"## {name}\n\n{entry.paper}"
    shown = markdown.table(["option", "type", "default", "bounds"], lines)
    return "\n\n".join([f"## {name}", f"{entry.paper}.", inspect.getdoc(kind) or "", shown])


def _written(value: object) -> object:
    """Return a value as ``--method`` takes it."""
    return str(value).lower() if isinstance(value, bool) else value


def verifiers(_block: str) -> str:
    """Return a table of the rules that decide what is accepted."""
    return markdown.table(
        ["rule", "what it is"],
        [[f"`{name}`", _first_sentence(_made(rule))] for name, rule in VERIFIERS.items()],
    )


def _made(rule: Any) -> Any:  # noqa: ANN401
    """Return what a maker makes where it is no class: a function that has the docstring."""
    return rule if inspect.isclass(rule) else rule(None)


def metrics(_block: str) -> str:
    """Return a table of the quality metrics."""
    return markdown.table(
        ["metric", "column", "what it is", "needs"],
        [
            [f"`{name}`", metric.label, metric.summary, ", ".join(_wanted(metric))]
            for name, metric in (
                METRICS | {name: find(name) for name in (structured.USAGE, bert.USAGE, JUDGE)}
            ).items()
        ],
    )


def _wanted(metric: Metric) -> Iterator[str]:
    if metric.needs:
        yield metric.needs
    if metric.package:
        yield f"{metric.package}: `pip install 'tasc-lm[metrics]'`"


def executors(_block: str) -> str:
    """Return a table of where independent pieces of work can run."""
    rows = [[f"`{name}`", entry.label, entry.needs] for name, entry in EXECUTORS.items()]
    return markdown.table(["executor", "where the work runs", "needs"], rows)


def _first_sentence(documented: object) -> str:
    return (inspect.getdoc(documented) or "").partition("\n\n")[0]
