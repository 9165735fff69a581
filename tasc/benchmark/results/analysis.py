"""What ``tasc analyze`` leaves: ``analysis.json``, typed."""

from dataclasses import dataclass
from typing import Any, Literal, Self

from pydantic import TypeAdapter

from tasc.analysis.report import TaskReport
from tasc.benchmark.results.search import Drafting, ServedDrafts
from tasc.vocab.search.budget import Point
from tasc.vocab.search.predict import BudgetPoint

Choice = Literal["TASC-ft", "TASC-spec", "both", "neither", "too little data"]


@dataclass(frozen=True)
class Verdict:
    """The choice and why, one sentence a reason."""

    choice: Choice
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class AnalysisResults(TaskReport):
    """The analysis of a split, and what follows from it."""

    # What ``tasc augment`` reaches at each budget of the grid; empty without a tokenizer
    budgets: tuple[BudgetPoint, ...]
    # What ``tasc augment --new-tokens auto`` adds, None without a tokenizer or n-grams that recur
    recommended_size: Point | None
    # TASC-spec simulated on held-out outputs, None without a tokenizer or outputs
    drafting: Drafting | None
    serving: ServedDrafts | None  # as the engine of --serve would run it, None without one
    verdict: Verdict  # what to use

    @classmethod
    def read(cls, result: dict[str, Any]) -> Self:
        """Return what ``to_dict`` wrote."""
        return TypeAdapter(cls).validate_python(result)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return dict(TypeAdapter(type(self)).dump_python(self, mode="json"))
