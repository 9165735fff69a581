"""The methods by name: DRAFTERS is the table, ``parse`` reads ``name:option=value,…``."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from tasc.bounds import MOST_NODES, Bounds
from tasc.errors import InputError
from tasc.spec.drafters.table import DEFAULT_BUDGET, DRAFTERS, NO_HEAD, Entry, Factory, Resources

__all__ = [
    "DEFAULT_BUDGET",
    "DRAFTERS",
    "NO_HEAD",
    "Entry",
    "Factory",
    "Method",
    "Resources",
    "check",
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

    def prepare(self, resources: Resources) -> Factory:
        """Build what sequences share; the result makes one drafter a sequence."""
        return DRAFTERS[self.name].prepare(resources, self.options)


def parse(text: str) -> Method:
    """Read a method such as ``ar``, ``tasc-spec:width=1,budget=10`` or ``tasc-spec:budget=auto``.

    Raises:
        InputError: unknown method or option, or a value of the wrong type or out of its bounds.
    """
    name, _, rest = text.partition(":")
    if name not in DRAFTERS:
        raise InputError(f"unknown method {name!r}: choose from {', '.join(DRAFTERS)}")
    entry = DRAFTERS[name]
    options = entry.options()
    known = {f.name.rstrip("_"): f for f in fields(options)}
    given: dict[str, Any] = dict(entry.preset())
    budget, adaptive = entry.budget if entry.drafts else 0, False
    for item in filter(None, rest.split(",")):
        key, _, value = item.partition("=")
        if key == "budget" and entry.drafts:
            adaptive = value == "auto"
            budget = AUTO_BUDGET if adaptive else _number(text, key, value, int)
        elif key in known:
            given[known[key].name] = _number(text, key, value, type(known[key].default))
        else:
            choices = ", ".join(["budget", *known] if entry.drafts else known) or "none"
            raise InputError(f"method {text!r}: unknown option {key!r}; options: {choices}")
    if not BUDGETS.hold(budget):
        raise InputError(f"method {text!r}: budget must {BUDGETS}, got {budget}")
    try:
        return Method(text, name, options(**given), budget, adaptive)
    except InputError as error:
        raise InputError(f"method {text!r}: {error}") from None


def check(methods: Sequence[Method], batch_size: int) -> None:
    """Refuse methods that cannot be measured side by side, ``batch_size`` sequences at a time."""
    if len({method.label for method in methods}) < len(methods):
        raise InputError("a method is given twice: name each --method once")
    adaptive = [method.label for method in methods if method.adaptive]
    if adaptive and batch_size > 1:
        raise InputError(
            f"method {adaptive[0]!r}: budget=auto sizes the drafts of one sequence at a time; "
            "give a number with --batch-size"
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
