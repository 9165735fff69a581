"""The objectives by name: what can be learnt, from what, and what makes it. Imports no torch.

To add a kind of draft head, write ``NAME.py`` here with a function ``learner`` and add a line.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tasc.training.objectives.learner import Learner

MEDUSA_HEADS = 4  # unless the options say otherwise
OUTPUTS, ANSWERS = "outputs of the task", "the target's own answers"
DOCUMENTS = "prompts and outputs of the task"


@dataclass(frozen=True)
class Objective:
    """One objective."""

    label: str  # what it is, as help and docs show it
    # The texts that it learns from; ``ANSWERS`` for a draft head, ``DOCUMENTS`` for a base
    # model, ``OUTPUTS`` for adapters.
    needs: str
    paper: str  # where it is described
    # Makes the module to train, its loss and its evaluation, from a model and the options of
    # the command.
    learner: "Callable[[Any, Any], Learner]"


def _of(module: str) -> "Callable[[Any, Any], Learner]":
    """Return the ``learner`` of a module here, which is imported when it is called."""
    return lambda model, options: import_module(f"{__name__}.{module}").learner(model, options)


OBJECTIVES: dict[str, Objective] = {
    "outputs": Objective("tokens of outputs", OUTPUTS, "Tsur et al., section 4.2", _of("language")),
    "documents": Objective(
        "tokens of prompts and outputs",
        DOCUMENTS,
        "Bengio and Senécal (2008) for large vocabularies",
        _of("sampled"),
    ),
    "eagle": Objective("one layer", ANSWERS, "Li et al., arXiv 2401.15077", _of("eagle")),
    "medusa": Objective(
        "heads side by side", ANSWERS, "Cai et al., arXiv 2401.10774", _of("medusa")
    ),
}


def heads() -> list[str]:
    """Return the names of the objectives of draft heads."""
    return [name for name, entry in OBJECTIVES.items() if entry.needs == ANSWERS]


def told(names: Iterable[str]) -> str:
    """Return what the help says of some objectives."""
    return "; or ".join(f"{name}, {OBJECTIVES[name].label}" for name in names)
