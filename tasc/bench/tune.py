"""Search how TASC-spec should count, mix and grow, by simulations on held-out outputs.

With a cost curve T(k) of the model every setting has a predicted speed-up, and the highest is
searched for; without one the most tokens a step, for which a larger tree is never worse.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from tasc.bench.options import TuneOptions
from tasc.data.corpus import Corpus
from tasc.data.tokenizer import LoadedTokenizer
from tasc.progress import Progress, silent
from tasc.spec.drafters import DEFAULT_BUDGET
from tasc.spec.drafters.ngram.index import build_index
from tasc.spec.drafters.ngram.options import Counts
from tasc.spec.drafters.ngram.tasc_spec import TascSpec, TascSpecOptions
from tasc.spec.drafters.none import Autoregressive
from tasc.spec.simulate import References, simulate
from tasc.spec.steps import StepStats

if TYPE_CHECKING:
    from tasc._native import NgramIndex
    from tasc.models.cost import CostCurve

Grid = Mapping[str, Sequence[Any]]

# Values tried, one option at a time, in this order; the best is kept before the next option.
GRID: Grid = {
    "n_max": (3, 4, 5, 6, 7, 8),
    "lambda_": (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
    "p_min": (1, 2, 5),
    "discount": (0.6, 0.7, 0.8, 0.9),
    "strength": (0.0, 0.5, 1.0, 2.0, 4.0),
    "gain": (0.0, 0.25, 0.5, 1.0),
    "width": (0, 1, 2, 4),
    "tree_size": (4, 8, 12, 16, 24, 32),
}
COUNTS = tuple(option.name for option in fields(Counts))
Options = TypeVar("Options", bound=TascSpecOptions)


@dataclass(frozen=True)
class Setting(TascSpecOptions):
    """How TASC-spec drafts, with at most how many nodes; by default as ``tasc bench`` does."""

    tree_size: int = DEFAULT_BUDGET

    @property
    def method(self) -> str:
        """The setting as ``--method`` takes it: what differs from the default."""
        changed = [
            f"{option.name.rstrip('_').replace('tree_size', 'budget')}={value:g}"
            for option in fields(self)
            if (value := getattr(self, option.name)) != option.default
        ]
        return ":".join(filter(None, ("tasc-spec", ",".join(changed))))


@dataclass(frozen=True)
class Trial:
    """A setting simulated: its steps and, where T(k) is known, its time and speed-up."""

    setting: Setting
    steps: StepStats
    ms_per_sample: float | None = None
    speedup: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the method, its options, and the figures."""
        return {
            "method": self.setting.method,
            **{name: getattr(self.setting, name) for name in GRID},
            **self.steps.to_dict(),
            "ms_per_sample": self.ms_per_sample,
            "speedup": self.speedup,
        }


@dataclass(frozen=True)
class Search:
    """Every setting that was simulated, the first one the default, and the best of them."""

    corpus_outputs: int
    trials: tuple[Trial, ...]
    best: Trial
    cost: "CostCurve | None"

    @property
    def default(self) -> Trial:
        """The setting that the search began with."""
        return self.trials[0]

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "samples": self.best.steps.samples,
            "corpus_outputs": self.corpus_outputs,
            "cost": None if self.cost is None else asdict(self.cost),
            "default": self.default.to_dict(),
            "best": self.best.to_dict(),
            "trials": [trial.to_dict() for trial in self.trials],
        }


@dataclass(frozen=True)
class Tuning:
    """The search for the most tokens a step, and the ``task`` whose outputs it was simulated on."""

    task: dict[str, Any]
    search: Search

    def save(self, folder: Path) -> None:
        """Write nothing: all there is stands in ``to_dict``."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {"task": self.task, **self.search.to_dict()}


def tune(
    corpus: Corpus,
    held_out: Corpus,
    tokenizer: LoadedTokenizer,
    options: TuneOptions,
    progress: Progress = silent,
) -> Tuning:
    """Search for the most tokens a step with drafts of ``options.budget`` nodes."""
    references = References.of(tokenizer, held_out.prompts, held_out.outputs)
    known = tokenizer.encode(corpus.outputs).split()
    grid = {name: values for name, values in GRID.items() if name != "tree_size"}
    start = Setting(tree_size=options.budget)
    task = {
        "source": held_out.source.path,
        "split": held_out.split,
        "corpus_split": corpus.split,
    }
    return Tuning(task, search(known, references, start, grid, progress=progress))


def search(
    known: Sequence[np.ndarray],
    references: References,
    start: Setting,
    grid: Grid,
    *,
    cost: "CostCurve | None" = None,
    progress: Progress = silent,
) -> Search:
    """Simulate settings of TASC-spec on ``references``, from ``start`` along ``grid``.

    ``known`` are the outputs (T_i,) int32 that drafts are made from. ``progress`` is told of every
    setting.
    """
    indexes = _Indexes(known, references.end)
    trials: dict[Setting, Trial] = {}
    total = 1 + sum(len(set(values) - {getattr(start, name)}) for name, values in grid.items())
    plain = 0.0
    if cost is not None:
        undrafted = simulate(Autoregressive, references, 0)
        plain = undrafted.ms_per_sample(references.prompts, cost)

    def score(setting: Setting) -> float:
        if setting not in trials:
            index = indexes.get(setting)
            drafter = lambda: TascSpec([index], references.end, setting)  # noqa: E731
            steps = simulate(drafter, references, setting.tree_size)
            ms = None if cost is None else steps.ms_per_sample(references.prompts, cost)
            trials[setting] = Trial(setting, steps, ms, None if ms is None else plain / ms)
            progress("simulate drafts", len(trials), total)
        found = trials[setting]
        return found.steps.tokens_per_step if found.speedup is None else found.speedup

    best = coordinate_search(start, grid, score)
    return Search(len(known), tuple(trials.values()), trials[best], cost)


def coordinate_search(start: Options, grid: Grid, score: Callable[[Options], float]) -> Options:
    """Try the values of one field after the other; the best so far stays where none is better."""
    best = start
    score(best)
    for name, values in grid.items():
        tried = [replace(best, **{name: value}) for value in values]
        best = max([best, *tried], key=score)
    return best


class _Indexes:
    """Indexes of the same outputs under different options; the last one is kept."""

    def __init__(self, outputs: Sequence[np.ndarray], end: int) -> None:
        self.outputs, self.end = outputs, end
        self._last: tuple[Counts, NgramIndex] | None = None

    def get(self, options: Counts) -> "NgramIndex":
        """Count as ``options`` say, or return what was counted last if that was alike."""
        asked = Counts(**{name: getattr(options, name) for name in COUNTS})
        if self._last is None or self._last[0] != asked:
            self._last = None  # room for the next before it is built
            self._last = asked, build_index(self.outputs, self.end, asked)
        return self._last[1]
