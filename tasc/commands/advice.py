"""The steps of a recipe that its own analysis advises against."""

from dataclasses import dataclass

from tasc.analysis.options import AnalyzeOptions
from tasc.benchmark.results.analysis import AnalysisResults
from tasc.commands.plan import Plan
from tasc.options.command import StepOptions
from tasc.options.references import parse_label
from tasc.vocab.search.options import AugmentOptions

SUGGESTED = 50  # new tokens, where none is predicted to pay


@dataclass(frozen=True)
class LeftOut:
    """Steps of TASC-ft that are left out, and why."""

    steps: tuple[str, ...]  # the one that adds tokens, and those that need it
    reason: str  # of the analysis
    new_tokens: int  # a number that puts them back

    @property
    def line(self) -> str:
        """The steps left out, the reason, and the line that puts them back."""
        return (
            f"left out: {', '.join(self.steps)}. {self.reason} To run them all the same, write "
            f"`new_tokens: {self.new_tokens}` in the step {self.steps[0]}."
        )


def advised_against(plan: Plan, name: str, analyses: dict[str, AnalysisResults]) -> LeftOut | None:
    """Return the step ``name`` and those that need it, if an analysis advises against them.

    That is a step that adds new tokens by ``new_tokens: auto``, and an earlier analysis of the same
    data and tokenizer by which TASC-ft does not pay. ``analyses`` are the results by step.
    """
    step = plan.steps[name]
    if not isinstance(step, AugmentOptions) or step.wanted != "auto" or step.trim:
        return None
    for other, results in analyses.items():
        analysis = plan.steps[other]
        if isinstance(analysis, AnalyzeOptions) and _same(step, analysis):
            if results.verdict.fine_tune is not False:
                return None
            size = results.recommended_size
            count = (size and size.budget) or SUGGESTED
            return LeftOut(_with_dependents(plan, name), results.verdict.reasons[0], count)
    return None


def without(step: StepOptions, left_out: set[str]) -> StepOptions | None:
    """Return a step without references to the steps in ``left_out``; None if it needs one."""
    fewer = {}
    for field in step.spec.references:
        named = step.named(field)
        others = tuple(text for text in named if parse_label(text)[1] not in left_out)
        if len(others) == len(named):
            continue
        if not others or not isinstance(getattr(step, field), tuple):
            return None
        fewer[field] = others
    return step.model_copy(update=fewer)


def _same(step: AugmentOptions, analysis: AnalyzeOptions) -> bool:
    """Return whether an analysis is of a step's data and tokenizer."""
    mine = step.source, step.split, step.tokenizer, step.export
    tokenizer = analysis.tokenizer or analysis.model
    return mine == (analysis.source, analysis.split, tokenizer, analysis.export)


def _with_dependents(plan: Plan, name: str) -> tuple[str, ...]:
    names = list(plan.steps)
    out = {name}
    for other in names[names.index(name) + 1 :]:
        if without(plan.steps[other], out) is None:
            out.add(other)
    return tuple(other for other in names if other in out)
