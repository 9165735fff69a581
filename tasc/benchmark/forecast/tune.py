"""Search for the best setting of TASC-spec, by simulations on held-out outputs.

With T(k) of the model, the best setting has the highest predicted speed-up. Without it, the best
one takes the fewest steps, for which a larger tree is never worse.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from tasc._native import NgramIndex
from tasc.benchmark.options import TuneOptions
from tasc.benchmark.results.prediction import speedup_interval
from tasc.benchmark.results.search import Costs, Search, Setting, Trial, Tuning
from tasc.data.corpus import Corpus
from tasc.decoding.core.resources import Resources
from tasc.decoding.drafters import ADAPTIVE
from tasc.decoding.drafters.ngram.index import build_index
from tasc.decoding.drafters.ngram.options import Counts
from tasc.decoding.drafters.ngram.tasc_spec import prepare
from tasc.decoding.drafters.none import Autoregressive
from tasc.decoding.policy import Policy
from tasc.decoding.simulate import References, simulate
from tasc.decoding.steps import StepStats
from tasc.execution import Executor, Local, in_order
from tasc.models.cost_model import CostModel
from tasc.progress import Progress, silent
from tasc.tokenizer.loaded import LoadedTokenizer

Grid = Mapping[str, Sequence[Any]]

# Values to try, one option at a time: the best value stays for the options after it.
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


def tune(
    corpus: Corpus,
    held_out: Corpus,
    tokenizer: LoadedTokenizer,
    options: TuneOptions,
    progress: Progress = silent,
) -> Tuning:
    """Search for the fewest steps with drafts of ``options.tree_size`` nodes."""
    references = References.of(tokenizer, held_out.prompts, held_out.outputs)
    corpus_outputs = tokenizer.encode(corpus.outputs).split()
    grid = {name: values for name, values in GRID.items() if name != "tree_size"}
    start = Setting(tree_size=options.tree_size)
    simulations = Simulations(corpus_outputs, references)
    with options.start(simulations) as executor:
        result = search(simulations, start, grid, executor=executor, progress=progress)
    texts = {"source": held_out.source.path, "split": held_out.split, "corpus_split": corpus.split}
    return Tuning(**texts, **dict(result))


@dataclass(eq=False)
class Simulations:
    """Simulates settings of TASC-spec. It keeps the index of the last one."""

    known: Sequence[np.ndarray]  # outputs to draft from, (T_i,) int32 each
    references: References  # outputs to decode
    cost: CostModel | None = None  # for adaptive drafting and speed-ups
    _last: tuple[Counts, NgramIndex] | None = field(default=None, init=False)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the index: each process builds its own."""
        return self.__dict__ | {"_last": None}

    def run(self, setting: Setting) -> StepStats:
        resources = Resources((), self.references.end, indexes=[self._index(setting)])
        make = prepare(resources, setting)
        if setting.tree_size:
            return simulate(make, self.references, setting.tree_size)
        assert self.cost is not None, "adaptive drafting needs the cost of forwards"
        return simulate(make, self.references, ADAPTIVE, Policy(self.cost, learns=False))

    def _index(self, options: Counts) -> NgramIndex:
        counts = Counts(**{part.name: getattr(options, part.name) for part in fields(Counts)})
        if self._last is None or self._last[0] != counts:
            self._last = None  # frees its memory before the next one is built
            self._last = counts, build_index(self.known, self.references.end, counts)
        return self._last[1]


def search(
    simulations: Simulations,
    start: Setting,
    grid: Grid,
    *,
    executor: Executor | None = None,
    progress: Progress = silent,
) -> Search:
    """Simulate settings of TASC-spec, from ``start`` along ``grid``.

    ``executor`` was started with ``simulations``; without one, they run in this process.
    """
    runs = executor or Local(simulations)
    references = simulations.references
    cost = simulations.cost
    trials: dict[Setting, Trial] = {}
    total = 1 + sum(len(set(values) - {getattr(start, name)}) for name, values in grid.items())
    plain = simulate(Autoregressive, references, 0)

    def scores(settings: Sequence[Setting]) -> list[float]:
        new = [setting for setting in dict.fromkeys(settings) if setting not in trials]
        for setting, steps in zip(new, in_order(runs.run(Simulations.run, new)), strict=True):
            predicted = figures(steps, plain, references.unread, cost)
            trials[setting] = Trial(setting=setting, method=setting.method, **predicted)
            progress("simulate drafts", len(trials), total)
        done = [trials[setting] for setting in settings]
        return [-t.steps_per_output if t.speedup is None else t.speedup for t in done]

    best = coordinate_search(start, grid, scores)
    return Search(
        samples=len(references.prompts),
        prompt_tokens=float(np.mean([len(prompt) for prompt in references.prompts])),
        corpus_outputs=len(simulations.known),
        cost=cost and Costs(sizes=cost.sizes, seconds=cost.seconds, context=cost.context),
        default=trials[start],
        best=trials[best],
        trials=tuple(trials.values()),
    )


def figures(
    steps: StepStats, plain: StepStats, prompts: Sequence[np.ndarray], cost: CostModel | None
) -> dict[str, Any]:
    """Return the fields of ``StepFigures``; with T(k), also the speed-up over ``plain``."""
    if cost is None:
        return steps.to_dict()
    ms = steps.ms_per_sample(prompts, cost)
    speedup = plain.ms_per_sample(prompts, cost) / ms
    by_turn = (stats.ms_by_turn(prompts, cost) for stats in (plain, steps))
    interval = speedup_interval(speedup, *by_turn)
    times = {"ms_per_sample": ms, "speedup": speedup, "speedup_interval": interval}
    return steps.to_dict() | times


def coordinate_search(
    start: Setting, grid: Grid, scores: Callable[[Sequence[Setting]], Sequence[float]]
) -> Setting:
    """Try the values of one field after the other; a value must be better to replace the best."""
    best = start
    scores([best])
    for name, values in grid.items():
        tried = [best, *(replace(best, **{name: value}) for value in values)]
        best = tried[int(np.argmax(scores(tried)))]
    return best
