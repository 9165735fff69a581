"""``tasc analyze`` as a whole: analysis, knee of its budgets, drafts, and verdict."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tasc.analysis.options import AnalyzeOptions
from tasc.analysis.page import render
from tasc.analysis.report import Analysis
from tasc.analysis.report import analyze as analyze_texts
from tasc.analysis.token_counts import save_counts
from tasc.bench.advise import advise, simulate_drafts
from tasc.bench.tune import GRID, Search
from tasc.bench.verdict import Verdict
from tasc.data.tokenizer import LoadedTokenizer, load_tokenizer
from tasc.recipe.job import Job
from tasc.vocab.budget import Point
from tasc.vocab.knee import knee


@dataclass(frozen=True, eq=False)
class TaskAnalysis:
    """What ``tasc analyze`` found.

    Attributes:
        analysis: of words, tokens and budgets.
        tokenizer: None where only words were looked at.
        knee: the budget to choose, None without merges.
        model: the one that was timed, None where none was.
        drafts: TASC-spec simulated on held-out outputs, None without a tokenizer or outputs.
        verdict: what to use.
    """

    analysis: Analysis
    tokenizer: LoadedTokenizer | None
    knee: Point | None
    model: str | None
    drafts: Search | None
    verdict: Verdict

    def save(self, folder: Path) -> None:
        """Write analysis.html and, with a tokenizer, the token counts."""
        counts = self.analysis.input_counts, self.analysis.output_counts
        if self.tokenizer and counts[0] is not None and counts[1] is not None:
            save_counts(folder, self.tokenizer, counts[0], counts[1])
        (folder / "analysis.html").write_text(render(self.to_dict()), encoding="utf-8")

    def to_dict(self) -> dict[str, Any]:
        """Return the report, as JSON values."""
        best = asdict(self.knee) if self.knee else None
        return self.analysis.report.to_dict() | {
            "knee": best,
            "drafting": self.drafts and {"model": self.model, **self.drafts.to_dict()},
            "verdict": asdict(self.verdict),
        }


def analyze(options: AnalyzeOptions, job: Job) -> TaskAnalysis:
    """Do ``tasc analyze``."""
    cost, name = None, options.tokenizer
    if options.model:
        from tasc.bench.predict import cost_of

        cost, folder = cost_of(options.model, options.dtype, options.device)
        name = name or folder
    tokenizer = load_tokenizer(name) if name else None
    found = analyze_texts(
        job.texts.stream or job.texts.corpus, tokenizer, options, progress=job.progress
    )
    best = drafts = None
    if tokenizer:
        others, grid = job.texts.optional("held_out"), GRID if options.searches else {}
        best = knee(found, tokenizer, options.export, others)
        drafts = simulate_drafts(found, others, tokenizer, grid, cost=cost, progress=job.progress)
    verdict = advise(found.report, drafts)
    return TaskAnalysis(found, tokenizer, best, options.model, drafts, verdict)
