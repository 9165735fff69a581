"""``analysis.json`` of ``tasc analyze``, typed."""

from dataclasses import dataclass
from typing import Literal

from tasc.analysis.report import TaskReport
from tasc.benchmark.results.search import Drafting, ServedDrafts, Structured
from tasc.report.record import Report
from tasc.vocab.search.budget import Point
from tasc.vocab.search.predict import BudgetPoint
from tasc.vocab.trim import TrimPoint

Choice = Literal["TASC-ft", "TASC-spec", "both", "neither", "too little data"]


@dataclass(frozen=True)
class Verdict:
    """The recommended method, with one sentence per reason."""

    choice: Choice
    reasons: tuple[str, ...]
    # Whether TASC-ft pays; None if there is too little data, or no tokenizer to measure it with
    fine_tune: bool | None = None


class AnalysisResults(TaskReport, Report):
    """The analysis of a split, with predictions and the verdict."""

    # Predictions for the sizes of --new-tokens; empty without a tokenizer
    budgets: tuple[BudgetPoint, ...]
    # The size that --new-tokens auto adds; None without a tokenizer or without recurring n-grams
    recommended_size: Point | None
    # Predictions for a smaller vocabulary; empty without a model
    trim: tuple[TrimPoint, ...]
    # TASC-spec simulated on held-out outputs; None without a tokenizer or held-out outputs
    drafting: Drafting | None
    structured: Structured | None = None  # drafts under the constraint of the options
    serving: ServedDrafts | None  # chains simulated for the engine of --serve
    verdict: Verdict
