"""What a search over TASC-spec's settings found: ``tuning.json``, and the drafts of an analysis."""

from dataclasses import dataclass, fields

from tasc.benchmark.results.prediction import StepFigures
from tasc.decoding.drafters import DEFAULT_BUDGET
from tasc.decoding.drafters.ngram.tasc_spec import TascSpecOptions
from tasc.report.record import Record, Report


@dataclass(frozen=True)
class Setting(TascSpecOptions):
    """How TASC-spec drafts, and the maximum number of nodes per step."""

    tree_size: int = DEFAULT_BUDGET

    @property
    def method(self) -> str:
        """The setting as ``--method`` takes it: the budget, and what differs from the default."""
        changed = [
            f"{option.name.rstrip('_')}={value:g}"
            for option in fields(TascSpecOptions)
            if (value := getattr(self, option.name)) != option.default
        ]
        return f"tasc-spec:{','.join([*changed, f'budget={self.tree_size}'])}"


class Trial(StepFigures):
    """A setting simulated: its steps and, where T(k) is known, its time and speed-up."""

    setting: Setting
    method: str
    """The setting as ``--method`` takes it."""


class Costs(Record):
    """T(k): seconds of a forward over so many tokens after ``context`` others."""

    sizes: tuple[int, ...]
    seconds: tuple[float, ...]
    context: int


class Search(Record):
    """Every setting that was simulated, and the best of them."""

    samples: int
    """Outputs that were simulated."""
    prompt_tokens: float
    """Mean of their prompts."""
    corpus_outputs: int
    """Outputs that drafts were made from."""
    cost: Costs | None
    """Where a model was timed."""
    default: Trial
    """The setting that the search began with."""
    best: Trial
    trials: tuple[Trial, ...]


class Drafting(Search):
    """The search of an analysis."""

    model: str | None
    """The one that was timed."""


class ServedDrafts(Record):
    """Chains of several lengths, simulated for an engine."""

    engine: str
    speculative_tokens: int
    """The number of draft tokens to set."""
    reason: str
    """Why that number."""
    samples: int
    """Outputs that were simulated."""
    prompt_tokens: float
    """Mean of their prompts."""
    trials: tuple[Trial, ...]
    """One a length, which is the setting's tree size."""


class TunedTask(Record):
    """What was simulated."""

    source: str
    split: str
    """Whose outputs were decoded."""
    corpus_split: str
    """Whose outputs drafts were made from."""


class Tuning(Search, Report):
    """The search of ``tasc tune`` for the most tokens a step."""

    task: TunedTask
