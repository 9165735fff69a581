"""Choose how TASC-spec counts, mixes and grows by replaying held-out outputs: no model needed."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

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
    known, prompts, outputs = (
        _encode(tokenizer, texts) for texts in (corpus.outputs, held_out.prompts, held_out.outputs)
    )
    end = tokenizer.eos_id

    @cache
    def index(options: IndexOptions) -> "NgramIndex":
        return build_index(known, end, options)

    trials: dict[TascSpecOptions, float] = {}

    def measure(options: TascSpecOptions) -> float:
        if options not in trials:
            counted = index(IndexOptions(**{name: getattr(options, name) for name in COUNTS}))
            result = replay(
                lambda: TascSpec([counted], end, options), prompts, outputs, end, budget
            )
            trials[options] = result.tokens_per_step
            progress("replay", len(trials), total)
        return trials[options]

    total = 1 + sum(len(values) - 1 for values in GRID.values())
    start = best = TascSpecOptions(min_probability=0.0)
    measure(start)
    for name, values in GRID.items():
        best = max((replace(best, **{name: v}) for v in values), key=measure)
        index.cache_clear()
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


def _encode(tokenizer: LoadedTokenizer, texts: Sequence[str]) -> list[np.ndarray]:
    if not texts:
        raise InputError("tuning needs outputs on both sides: the corpus and the held-out split")
    encoded = tokenizer.encode(texts)
    return np.split(encoded.tokens, encoded.offsets[1:-1])


def _method(options: TascSpecOptions, budget: int) -> str:
    values = {name.rstrip("_"): getattr(options, name) for name in GRID}
    return "tasc-spec:" + ",".join(
        f"{name}={value:g}" for name, value in (values | {"budget": budget}).items()
    )
