"""The methods by name: DRAFTERS is the table, ``parse`` reads ``name:option=value,…``."""

from dataclasses import dataclass, fields
from typing import Any

from tasc.errors import InputError
from tasc.spec.drafters.table import DEFAULT_BUDGET, DRAFTERS, Entry, Factory, Resources

__all__ = ["DEFAULT_BUDGET", "DRAFTERS", "Entry", "Factory", "Method", "Resources", "parse"]

AUTO_BUDGET = 64  # the most that ``budget=auto`` may choose
LARGEST = 10**9  # kernels count in 32 bits


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
        InputError: unknown method or option, or a value of the wrong type.
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
    if budget < 0:
        raise InputError(f"method {text!r}: budget must be 0 or more, got {budget}")
    return Method(text, name, options(**given), budget, adaptive)


def _number(text: str, key: str, value: str, kind: type) -> Any:  # noqa: ANN401
    if kind is bool:
        if value.lower() not in ("true", "false"):
            raise InputError(f"method {text!r}: {key} must be true or false, got {value!r}")
        return value.lower() == "true"
    try:
        number = kind(value)
    except ValueError as error:
        raise InputError(
            f"method {text!r}: {key} must be {kind.__name__}, got {value!r}"
        ) from error
    if kind is int and abs(number) > LARGEST:
        raise InputError(f"method {text!r}: {key} must be at most {LARGEST:,}, got {value}")
    return number
