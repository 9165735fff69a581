"""The methods by name: DRAFTERS is the table, ``parse`` reads ``name:option=value,…``."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from tasc.decoding.core.protocols import Factory
from tasc.decoding.core.resources import Resources
from tasc.decoding.drafters.table import DEFAULT_BUDGET, DRAFTERS, Entry, needing, source_of
from tasc.errors import InputError
from tasc.options.bounds import MOST_NODES, Bounds

__all__ = [
    "DEFAULT_BUDGET",
    "DRAFTERS",
    "Entry",
    "Factory",
    "Method",
    "Resources",
    "check",
    "default_method",
    "describe",
    "parse",
]

AUTO_BUDGET = 64  # the most that ``budget=auto`` may choose
BUDGETS = Bounds(0, MOST_NODES)


@dataclass(frozen=True)
class Method:
    """A method with its options, ready to be built for a model's vocabulary.

    ``budget`` is the largest number of nodes of a step; ``adaptive``: it varies below that.
    """

    label: str
    name: str
    options: Any
    budget: int
    adaptive: bool = False

    @property
    def learns(self) -> bool:
        """Whether drafters know what those before them decoded."""
        always = (*needing("logits"), *needing("either"))
        return getattr(self.options, "adapt", self.name in always)

    def source(self, resources: Resources | None) -> str:
        """Return what drafts come from where the drafter does not tell: one thing, or "other"."""
        source = source_of(self.name)
        if DRAFTERS[self.name].needs == "either" and resources is not None:
            return "draft head" if resources.draft_head else "draft model"
        neural = resources is None or (resources.draft and resources.draft.model)
        return "corpus" if source == "draft model" and not neural else source

    def prepare(self, resources: Resources) -> Factory:
        """Build what sequences share; the result makes one drafter a sequence."""
        if resources.target is not None:  # else that is what is said to be lacking
            self.check(resources.draft_head is not None, draft=resources.draft is not None)
        return DRAFTERS[self.name].prepare(resources, self.options)

    def check(self, head: bool, *, draft: bool) -> None:
        """Raise InputError where a draft head, or a draft model, is needed and there is none."""
        needs = DRAFTERS[self.name].needs
        if head or needs not in ("head", "either") or (needs == "either" and draft):
            return
        *some, last = (*needing("head"), *needing("either"))
        raise InputError(
            f"method {self.label!r}: {', '.join(some)} and {last} draft with a trained head: make "
            "one with tasc finetune --draft-head and name its folder with --draft-head"
            + ("; or name a small model with --draft" if needs == "either" else "")
        )


def parse(text: str) -> Method:
    """Read a method such as ``ar``, ``tasc-spec:width=1,budget=10`` or ``tasc-spec:budget=auto``.

    Raises:
        InputError: unknown method or option, or a value of the wrong type or out of its bounds.
    """
    name, _, rest = text.partition(":")
    if name not in DRAFTERS:
        raise InputError(f"unknown method {name!r}: choose from {', '.join(DRAFTERS)}")
    entry = DRAFTERS[name]
    drafts, budget, adaptive = entry.budget is not None, entry.budget or 0, False
    known = {f.name.rstrip("_"): f for f in fields(entry.options)}
    given = dict(entry.preset)
    for item in filter(None, rest.split(",")):
        key, _, value = item.partition("=")
        if key == "budget" and drafts:
            adaptive = value == "auto"
            budget = AUTO_BUDGET if adaptive else _number(text, key, value, int)
        elif key in known:
            given[known[key].name] = _number(text, key, value, type(known[key].default))
        else:
            choices = ", ".join([*["budget"] * drafts, *known]) or "none"
            raise InputError(f"method {text!r}: unknown option {key!r}; options: {choices}")
    if not BUDGETS.hold(budget):
        raise InputError(f"method {text!r}: budget must {BUDGETS}, got {budget}")
    try:
        return Method(text, name, entry.options(**given), budget, adaptive)
    except InputError as error:
        raise InputError(f"method {text!r}: {error}") from None


def default_method(*, head: bool) -> str:
    """Return the method that drafts where none is named, with a draft head and without."""
    return "mix" if head else "tasc-spec"


def check(methods: Sequence[Method], *, head: bool, draft: bool) -> None:
    """Refuse methods that cannot be measured side by side, or lack a draft head."""
    if len({method.label for method in methods}) < len(methods):
        raise InputError("a method is given twice: name each --method once")
    for method in methods:
        method.check(head, draft=draft)


def describe() -> str:
    """Return what ``--method`` takes, in a sentence."""
    groups = {
        "": [name for name, entry in DRAFTERS.items() if entry.needs in ("", "model", "logits")],
        "with --draft ": needing("draft"),
        "with --draft-head ": needing("head"),
        "with either ": needing("either"),
    }
    return (
        "; ".join(given + ", ".join(names) for given, names in groups.items())
        + "; with options as in tasc-spec:width=1,budget=8 or :budget=auto; repeatable."
    )


def _number(text: str, key: str, value: str, kind: type) -> Any:  # noqa: ANN401
    if kind is bool:
        if value.lower() not in ("true", "false"):
            raise InputError(f"method {text!r}: {key} must be true or false, got {value!r}")
        return value.lower() == "true"
    try:
        return kind(value)
    except ValueError as error:
        raise InputError(
            f"method {text!r}: {key} must be {kind.__name__}, got {value!r}"
        ) from error
