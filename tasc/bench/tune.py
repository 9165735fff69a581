"""Choose how TASC-spec counts, mixes and grows by replaying held-out outputs: no model needed."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from tasc.data.corpus import Corpus
from tasc.data.tokenizer import LoadedTokenizer
from tasc.errors import InputError
from tasc.progress import Progress, silent
from tasc.spec.drafters.tasc_spec import TascSpec, TascSpecOptions
from tasc.spec.index import IndexOptions, build_index
from tasc.spec.replay import replay

if TYPE_CHECKING:
    from tasc._native import NgramIndex

# Values tried, one option at a time, in this order; the best is kept before the next option.
GRID: dict[str, tuple[Any, ...]] = {
    "n_max": (3, 4, 5, 6, 7, 8),
    "lambda_": (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
    "p_min": (1, 2, 5),
    "discount": (0.6, 0.7, 0.8, 0.9),
    "strength": (0.0, 0.5, 1.0, 2.0, 4.0),
    "gain": (0.0, 0.25, 0.5, 1.0),
    "width": (0, 1, 2, 4),
}
Options = TypeVar("Options", bound=TascSpecOptions)
COUNTS = ("n_max", "p_min", "discount", "strength", "mark")


def tune(
    corpus: Corpus,
    held_out: Corpus,
    tokenizer: LoadedTokenizer,
    budget: int,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Search GRID by coordinates for the most tokens per step at ``budget`` nodes.

    Returns the chosen method as ``--method`` takes it, and every trial.
    """
    known, prompts, outputs = encode(tokenizer, corpus.outputs, held_out.prompts, held_out.outputs)
    end = tokenizer.eos_id
    counts = Counted(known, end)
    trials: dict[TascSpecOptions, float] = {}

    def measure(options: TascSpecOptions) -> float:
        if options not in trials:
            index = counts.index(options)
            result = replay(lambda: TascSpec([index], end, options), prompts, outputs, end, budget)
            trials[options] = result.tokens_per_step
            progress("replay", len(trials), total)
        return trials[options]

    total = 1 + sum(len(values) - 1 for values in GRID.values())
    start = TascSpecOptions(min_probability=0.0)
    best = climb(start, GRID, measure)
    return {
        "task": {
            "source": held_out.source.path,
            "split": held_out.split,
            "samples": len(outputs),
            "corpus_split": corpus.split,
            "corpus_outputs": len(known),
        },
        "budget": budget,
        "method": _method(best, budget),
        "tokens_per_step": trials[best],
        "default": {"method": _method(start, budget), "tokens_per_step": trials[start]},
        "trials": [
            {"method": _method(options, budget), "tokens_per_step": reached}
            for options, reached in trials.items()
        ],
    }


class Counted:
    """Indexes of the same outputs under different options; the last one is kept."""

    def __init__(self, outputs: Sequence[np.ndarray], end: int) -> None:
        """``outputs`` (T_i,) int32 each, followed by ``end``."""
        self.outputs, self.end = outputs, end
        self._held: tuple[IndexOptions, NgramIndex] | None = None

    def index(self, options: IndexOptions) -> "NgramIndex":
        """Count as ``options`` say, or return what was counted last if that was alike."""
        asked = IndexOptions(**{name: getattr(options, name) for name in COUNTS})
        if self._held is None or self._held[0] != asked:
            self._held = None  # room for the next before it is built
            self._held = asked, build_index(self.outputs, self.end, asked)
        return self._held[1]


def climb(
    start: Options, grid: dict[str, tuple[Any, ...]], score: Callable[[Options], float]
) -> Options:
    """Search by coordinates: try the values of a field, keep the best, go on with the next."""
    best = start
    score(best)
    for name, values in grid.items():
        best = max((replace(best, **{name: value}) for value in values), key=score)
    return best


def encode(tokenizer: LoadedTokenizer, *sides: Sequence[str]) -> Iterator[list[np.ndarray]]:
    """Yield the tokens (T_i,) int32 of each side's texts; a side without any is refused."""
    for texts in sides:
        if not texts:
            raise InputError(
                "nothing to tune on: give outputs on both sides, corpus and held-out split"
            )
        encoded = tokenizer.encode(texts)
        yield np.split(encoded.tokens, encoded.offsets[1:-1])


def spelled(values: dict[str, Any]) -> str:
    """Spell options of TASC-spec as ``--method`` takes them."""
    return "tasc-spec:" + ",".join(
        f"{name.rstrip('_')}={value:g}" for name, value in values.items()
    )


def _method(options: TascSpecOptions, budget: int) -> str:
    return spelled({name: getattr(options, name) for name in GRID} | {"budget": budget})
