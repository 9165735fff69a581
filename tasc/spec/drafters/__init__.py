"""The methods by name: DRAFTERS is the table, ``parse`` reads ``name:option=value,…``."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from tasc.errors import InputError
from tasc.spec.protocols import Drafter

DEFAULT_BUDGET = 12
AUTO_BUDGET = 64  # the most that ``budget=auto`` may choose


@dataclass(frozen=True)
class Resources:
    """What drafters are built from: the corpus' outputs, each (T_i,) int32, and the end token."""

    outputs: Sequence[np.ndarray]
    end: int


@dataclass(frozen=True)
class NoOptions:
    """For methods without options."""


Factory = Callable[[], Drafter]


def _autoregressive(_resources: Resources, _options: Any) -> Factory:  # noqa: ANN401
    from tasc.spec.drafters.none import Autoregressive

    return Autoregressive


def _tasc_spec(resources: Resources, options: Any) -> Factory:  # noqa: ANN401
    from tasc.spec.drafters.tasc_spec import TascSpec, corpus_index

    index = corpus_index(resources.outputs, resources.end, options)
    return lambda: TascSpec(index, resources.end, options)


def _tasc_spec_options() -> type:
    from tasc.spec.drafters.tasc_spec import TascSpecOptions

    return TascSpecOptions


@dataclass(frozen=True)
class Entry:
    """One method: how to build it, its options, where it is described, and whether it drafts."""

    prepare: Callable[[Resources, Any], Factory]
    options: Callable[[], type]
    paper: str
    drafts: bool = True


DRAFTERS: dict[str, Entry] = {
    "ar": Entry(_autoregressive, lambda: NoOptions, "plain autoregressive decoding", drafts=False),
    "tasc-spec": Entry(_tasc_spec, _tasc_spec_options, "Tsur et al., TASC, section 5.2"),
}


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
    given: dict[str, Any] = {}
    budget, adaptive = DEFAULT_BUDGET if entry.drafts else 0, False
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
    try:
        return kind(value)
    except ValueError as error:
        raise InputError(
            f"method {text!r}: {key} must be {kind.__name__}, got {value!r}"
        ) from error
