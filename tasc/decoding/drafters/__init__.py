"""The methods by name: DRAFTERS is the table, and ``parse`` reads ``name:option=value,…``."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from tasc.decoding.core.protocols import Factory as Factory
from tasc.decoding.core.resources import Resources as Resources
from tasc.decoding.drafters.constrained import Constrained
from tasc.decoding.drafters.table import ADAPTIVE as ADAPTIVE
from tasc.decoding.drafters.table import DEFAULT_BUDGET as DEFAULT_BUDGET
from tasc.decoding.drafters.table import DRAFTERS as DRAFTERS
from tasc.decoding.drafters.table import METHODS as METHODS
from tasc.decoding.drafters.table import Entry as Entry
from tasc.decoding.drafters.table import needing
from tasc.errors import InputError
from tasc.options.bounds import MOST_NODES, Bounds

if TYPE_CHECKING:
    from tasc.decoding.core.grammar import Grammar

BUDGETS = Bounds(0, MOST_NODES)


@dataclass(frozen=True)
class Method:
    """A method with its options, ready to be built for a model's vocabulary.

    ``budget`` is the maximum number of nodes per step; ``adaptive`` chooses a number up to it.
    """

    label: str
    name: str
    options: Any
    budget: int
    adaptive: bool = False

    @property
    def entry(self) -> Entry:
        return METHODS[self.name]

    @property
    def chooses(self) -> bool:
        """Whether it chooses among labels, so that its outputs differ from plain decoding."""
        return self.entry.needs == "choices"

    @property
    def learns(self) -> bool:
        """Whether drafters learn from earlier sequences."""
        always = self.entry.needs in ("logits", "either")
        return getattr(self.options, "adapt", always)

    def source(self, resources: Resources | None) -> str:
        """Return the source of drafts for a drafter that does not report it, or "other"."""
        needs = self.entry.needs
        if self.name in ("prompt-lookup", "ngram-trie"):
            return "prompt"
        if needs == "head" or (needs == "either" and resources and resources.draft_head):
            return "draft head"
        if needs == "draft" and resources and not (resources.draft and resources.draft.model):
            return "corpus"
        return "draft model" if needs == "draft" or (needs == "either" and resources) else "other"

    def prepare(self, resources: Resources) -> Factory:
        """Build the parts shared by all sequences; the result makes one drafter per sequence."""
        if resources.target is not None:  # else the error is about the missing target
            self.check(resources.draft_head is not None, draft=resources.draft is not None)
        entry, grammar = self.entry, resources.grammar
        if entry.needs == "grammar" and grammar is None:
            raise InputError(f"method {self.label!r} needs a grammar: give schema or grammar")
        return self.constrained(entry.prepare(resources, self.options), grammar)

    def constrained(self, make: Factory, grammar: "Grammar | None") -> Factory:
        """Return a factory whose drafts satisfy ``grammar``, if there is one."""
        if grammar is None or self.entry.budget is None:
            return make
        more = self.entry.needs in ("", "model", "logits")
        return lambda: Constrained(make(), grammar, more=more)

    def check(self, head: bool, *, draft: bool) -> None:
        """Raise InputError if a needed draft head, or draft model, is missing."""
        needs = self.entry.needs
        if head or needs not in ("head", "either") or (needs == "either" and draft):
            return
        *some, last = (*needing("head"), *needing("either"))
        raise InputError(
            f"method {self.label!r}: {', '.join(some)} and {last} draft with a trained head: make "
            "one with tasc finetune --draft-head and pass its folder with --draft-head"
            + ("; or pass a small model with --draft" if needs == "either" else "")
        )


def parse(text: str) -> Method:
    """Parse a method such as ``ar``, ``tasc-spec:width=1,budget=10`` or ``tasc-spec:budget=auto``.

    Raises InputError for an unknown method or option, and for a value of the wrong type or out of
    bounds.
    """
    name, _, rest = text.partition(":")
    if name not in METHODS:
        raise InputError(f"unknown method {name!r}: choose from {', '.join(METHODS)}")
    entry = METHODS[name]
    drafts, budget = entry.budget is not None, entry.budget or 0
    adaptive = budget == ADAPTIVE
    option_fields = {f.name.rstrip("_"): f for f in fields(entry.options)}
    values = dict(entry.preset)
    for item in filter(None, rest.split(",")):
        key, _, value = item.partition("=")
        if key == "budget" and drafts:
            adaptive = value == "auto"
            budget = ADAPTIVE if adaptive else _number(text, key, value, int)
        elif key in option_fields:
            values[option_fields[key].name] = _number(
                text, key, value, type(option_fields[key].default)
            )
        else:
            choices = ", ".join([*["budget"] * drafts, *option_fields]) or "none"
            raise InputError(f"method {text!r}: unknown option {key!r}; options: {choices}")
    if not BUDGETS.hold(budget):
        raise InputError(f"method {text!r}: budget must {BUDGETS}, got {budget}")
    try:
        return Method(text, name, entry.options(**values), budget, adaptive)
    except InputError as error:
        raise InputError(f"method {text!r}: {error}") from None


def default_method(*, head: bool) -> str:
    """Return the default drafting method, with or without a draft head."""
    return "mix" if head else "tasc-spec"


def check(methods: Sequence[Method], *, head: bool, draft: bool, choices: bool = False) -> None:
    """Raise InputError for a method given twice, or one that lacks what it needs."""
    if len({method.label for method in methods}) < len(methods):
        raise InputError("a method is given twice: pass each --method once")
    for method in methods:
        method.check(head, draft=draft)
        if method.chooses and not choices:
            raise InputError(
                f"method {method.label!r} needs labels: pass a file or a column with --choices"
            )


def describe() -> str:
    """Return the help text of ``--method``."""
    groups = {
        "": [name for name, entry in DRAFTERS.items() if entry.needs in ("", "model", "logits")],
        "with --schema, --grammar or --regex ": needing("grammar"),
        "with --draft ": needing("draft"),
        "with --draft-head ": needing("head"),
        "with either ": needing("either"),
        "with --choices ": needing("choices"),
    }
    return (
        "; ".join(condition + ", ".join(names) for condition, names in groups.items())
        + "; with options as in tasc-spec:width=1,budget=8. budget is the maximum number of nodes "
        "per step; auto, the default of tasc-spec and mix, chooses it by measured times. "
        "Repeatable."
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
