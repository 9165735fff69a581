"""What ``tasc analyze`` leaves: ``analysis.json``, typed."""

from dataclasses import dataclass
from typing import Literal

from tasc.analysis.report import TaskReport
from tasc.benchmark.results.search import Drafting, ServedDrafts
from tasc.report.record import Report
from tasc.vocab.search.budget import Point
from tasc.vocab.search.predict import BudgetPoint

Choice = Literal["TASC-ft", "TASC-spec", "both", "neither", "too little data"]


@dataclass(frozen=True)
class Verdict:
    """The choice and why, one sentence a reason."""

    choice: Choice
    reasons: tuple[str, ...]


class AnalysisResults(TaskReport, Report):
    """The analysis of a split, and what follows from it."""

    # What ``tasc augment`` reaches at each budget of the grid; empty without a tokenizer
    budgets: tuple[BudgetPoint, ...]
    # What ``tasc augment --new-tokens auto`` adds, None without a tokenizer or n-grams that recur
    recommended_size: Point | None
    # TASC-spec simulated on held-out outputs, None without a tokenizer or outputs
    drafting: Drafting | None
    serving: ServedDrafts | None  # as the engine of --serve would run it, None without one
    verdict: Verdict  # what to use
