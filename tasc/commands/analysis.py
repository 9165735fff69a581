"""``tasc analyze`` as a whole: analysis, recommended_size of its budgets, drafts, and verdict."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasc.analysis.options import AnalyzeOptions
from tasc.analysis.report import Analysis
from tasc.analysis.report import analyze as analyze_texts
from tasc.analysis.token_counts import save_counts
from tasc.benchmark.advise import advise, simulate_drafts
from tasc.benchmark.results.analysis import AnalysisResults
from tasc.benchmark.results.search import Drafting, ServedDrafts, Setting
from tasc.benchmark.served import served_drafts
from tasc.benchmark.tune import GRID
from tasc.commands.analysis_page import render
from tasc.commands.context import StepContext
from tasc.tokenizer.loaded import LoadedTokenizer, load_tokenizer
from tasc.vocab.search.budget import recommended_size


@dataclass(frozen=True, eq=False)
class TaskAnalysis:
    """What ``tasc analyze`` found.

    Attributes:
        results: for readers.
        analysis: of words, tokens and budgets.
        tokenizer: None where only words were looked at.
    """

    results: AnalysisResults
    analysis: Analysis
    tokenizer: LoadedTokenizer | None

    def save(self, folder: Path) -> None:
        """Write analysis.html and, with a tokenizer, the token counts."""
        counts = self.analysis.input_counts, self.analysis.output_counts
        if self.tokenizer and counts[0] is not None and counts[1] is not None:
            save_counts(folder, self.tokenizer, counts[0], counts[1])
        (folder / "analysis.html").write_text(render(self.results), encoding="utf-8")

    def to_dict(self) -> dict[str, Any]:
        """Return the results, as JSON values."""
        return self.results.to_dict()


def analyze(options: AnalyzeOptions, context: StepContext) -> TaskAnalysis:
    """Do ``tasc analyze``."""
    cost, name = None, options.tokenizer
    if options.model:
        from tasc.benchmark.predict import cost_of

        cost, folder = cost_of(options.model, options.dtype, options.device)
        name = name or folder
    tokenizer = load_tokenizer(name) if name else None
    found = analyze_texts(
        context.texts.stream or context.texts.corpus, tokenizer, options, progress=context.progress
    )
    best = drafts = None
    served: ServedDrafts | None = None
    if tokenizer:
        others, grid = context.texts.optional("held_out"), GRID if options.searches else {}
        best = recommended_size(found, tokenizer, options.export, others)
        drafts = simulate_drafts(
            found, others, tokenizer, grid, cost=cost, progress=context.progress
        )
        if options.serve:
            chains = simulate_drafts(
                found,
                others,
                tokenizer,
                {"tree_size": options.chains},
                start=Setting(width=1, tree_size=options.chains[0]),
                cost=cost,
                progress=context.progress,
            )
            served = served_drafts(options.serve, chains) if chains else None
    verdict = advise(found.report, drafts, best)
    drafting = None if drafts is None else Drafting(model=options.model, **dict(drafts))
    results = AnalysisResults(
        **vars(found.report),
        recommended_size=best,
        drafting=drafting,
        serving=served,
        verdict=verdict,
    )
    return TaskAnalysis(results, found, tokenizer)
