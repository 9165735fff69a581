"""Simulated settings of TASC-spec: ``tuning.json``, and the drafts of an analysis."""

from dataclasses import dataclass, fields

from tasc.benchmark.results.prediction import StepFigures
from tasc.decoding.drafters import DEFAULT_BUDGET
from tasc.decoding.drafters.ngram.tasc_spec import TascSpecOptions
from tasc.report.record import Record, Report


@dataclass(frozen=True)
class Setting(TascSpecOptions):
    """Options of TASC-spec with its maximum number of draft nodes; 0 drafts adaptively."""

    tree_size: int = DEFAULT_BUDGET

    @property
    def method(self) -> str:
        """The budget and the options that differ from the defaults, as ``--method`` takes them."""
        changed = [
            f"{option.name.rstrip('_')}={value:g}"
            for option in fields(TascSpecOptions)
            if (value := getattr(self, option.name)) != option.default
        ]
        budget = f"budget={self.tree_size or 'auto'}"
        return f"tasc-spec:{','.join([*changed, budget])}"


class Trial(StepFigures):
    """A simulated setting: its steps and, if T(k) is known, its time and speed-up."""

    setting: Setting
    method: str
    """The setting, as ``--method`` takes it."""


class Costs(Record):
    """T(k): the seconds of a forward over k tokens after ``context`` others."""

    sizes: tuple[int, ...]
    seconds: tuple[float, ...]
    context: int


class Simulated(Record):
    """Simulated settings."""

    samples: int
    """Number of simulated outputs."""
    prompt_tokens: float
    """Mean length of their prompts."""
    trials: tuple[Trial, ...]


class PredictedMethod(StepFigures):
    """A method of drafting, simulated with or without a constraint."""

    name: str


class Search(Simulated):
    """A search for the best setting."""

    corpus_outputs: int
    """Number of outputs to draft from."""
    cost: Costs | None
    """None if no model was timed."""
    default: Trial
    """The setting at the start of the search."""
    best: Trial


class Drafting(Search):
    """The search of an analysis."""

    model: str | None
    """The model that was timed."""


class Structured(Record):
    """Drafts under a constraint, simulated on the held-out outputs that satisfy it."""

    samples: int
    constraint: str
    valid: float
    """Share of the held-out outputs that satisfy the constraint."""
    determined: float
    """Share of their tokens that the constraint determines, the end token included."""
    decisions: float
    """Mean number of tokens per output that it leaves open: no draft can save more."""
    methods: tuple[PredictedMethod, ...]
    """The constraint alone, n-grams alone, both, and both with the recommended new tokens."""
    misfits: tuple[str, ...] = ()
    """Why other held-out outputs do not satisfy it, each with their number."""


class ServedDrafts(Simulated):
    """Chains of several lengths, simulated for an engine."""

    engine: str
    speculative_tokens: int
    """Recommended number of draft tokens, which is the setting's tree size."""
    reason: str


class Tuning(Search, Report):
    """``tuning.json``: the search for the fewest steps."""

    source: str
    split: str
    """Split of the simulated outputs."""
    corpus_split: str
    """Split of the outputs to draft from."""
