"""How TASC-spec should draft on a task, before anything is trained: a small grid of replays.

Held-out outputs are replayed through the n-grams of the others. With a cost curve T(k) of the model
every setting has a predicted speed-up; without one, only its steps are known, and a larger draft is
never worse.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from tasc.bench.predict import Steps, prediction
from tasc.bench.tune import Counted, climb, encode, spelled
from tasc.data.corpus import Corpus
from tasc.data.tokenizer import LoadedTokenizer
from tasc.errors import InputError
from tasc.models.cost import CostCurve, cost_curve
from tasc.models.load import Device, Dtype, load_model
from tasc.models.static import target_for
from tasc.places import resolve_model
from tasc.progress import Progress, silent
from tasc.spec.drafters.none import Autoregressive
from tasc.spec.drafters.tasc_spec import TascSpec, TascSpecOptions
from tasc.spec.replay import Replay, replay

# Values tried, one option at a time, in this order; the best is kept before the next option.
GRID: dict[str, tuple[Any, ...]] = {
    "n_max": (3, 4, 6),
    "lambda_": (0.4, 0.6, 0.8),
    "p_min": (1, 2, 5),
    "width": (0, 1, 2),
    "budget": (4, 8, 12, 16, 24, 32),
}
MOST_SAMPLES = 200  # held-out outputs that every setting replays
LONGEST = 256  # tokens of an output, as in a bench
_HELD_OUT_EVERY = 10  # where there is no other split
_FEWEST = 20  # outputs to hold some out


@dataclass(frozen=True)
class Setting(TascSpecOptions):
    """How TASC-spec drafts, and at most how many nodes a step."""

    budget: int = 12


def foretell(
    corpus: Corpus,
    held_out: Corpus | None,
    tokenizer: LoadedTokenizer,
    cost: CostCurve | None,
    grid: dict[str, tuple[Any, ...]] = GRID,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Search ``grid`` by coordinates, from the default setting, for the most speed-up.

    Args:
        corpus: the outputs that drafts are made from.
        held_out: what is replayed, at most MOST_SAMPLES of it; None holds every tenth of the corpus
            out.
        tokenizer: the model's.
        cost: T(k) of the model; without it the fewest steps are looked for.
        grid: values of each field of Setting.
        progress: told of every setting.

    Returns:
        "rows": each setting as ``tasc bench --method`` takes it, with its Steps or Prediction and
        the "speedup" over decoding without drafts (None without ``cost``); "best": the row to use.
    """
    corpus, held_out = _sides(corpus, held_out)
    known, prompts, outputs = encode(tokenizer, corpus.outputs, held_out.prompts, held_out.outputs)
    outputs = [output[: LONGEST - 1] for output in outputs]
    end = tokenizer.eos_id
    counted = Counted(known, end)
    plain = _priced(replay(Autoregressive, prompts, outputs, end, 0, prefilled=True), prompts, cost)
    rows: dict[Setting, dict[str, Any]] = {}
    total = 1 + sum(len(values) - 1 for values in grid.values())

    def row(setting: Setting) -> dict[str, Any]:
        index = counted.index(setting)
        lived = replay(
            lambda: TascSpec([index], end, setting),
            prompts,
            outputs,
            end,
            setting.budget,
            prefilled=True,
        )
        values = {name: getattr(setting, name) for name in grid}
        found = _priced(lived, prompts, cost)
        speedup = plain["ms_per_sample"] / found["ms_per_sample"] if cost else None
        return {"method": spelled(values), **values, **found, "speedup": speedup}

    def score(setting: Setting) -> float:
        if setting not in rows:
            rows[setting] = row(setting)
            progress("replays of drafts", len(rows), total)
        found = rows[setting]
        return float(found["speedup"] if cost else -found["steps_per_output"])

    best = climb(Setting(), grid, score)
    return {
        "samples": len(outputs),
        "held_out": held_out.split,
        "corpus_outputs": len(known),
        "cost": None if cost is None else asdict(cost),
        "plain": plain,
        "rows": list(rows.values()),
        "best": rows[best],
    }


def cost_of(model: str, dtype: Dtype, device: Device) -> tuple[CostCurve, str]:
    """Measure T(k) of a model here; also return the folder that holds the model."""
    _, folder = resolve_model(model)
    target = target_for(load_model(folder, dtype=dtype, device=device))
    return cost_curve(target, fresh=True), folder


def _sides(corpus: Corpus, held_out: Corpus | None) -> tuple[Corpus, Corpus]:
    """What is known, and what is replayed: at most MOST_SAMPLES, spread over the split."""
    if held_out is None:
        if len(corpus.examples) < _FEWEST:
            raise InputError(
                f"replays need {_FEWEST} outputs or a validation split, saw "
                f"{len(corpus.examples)}: leave out --model and --grid"
            )
        places = np.random.default_rng(0).permutation(len(corpus.examples))
        held_out = _part(corpus, places[::_HELD_OUT_EVERY])
        corpus = _part(corpus, np.delete(places, slice(None, None, _HELD_OUT_EVERY)))
    count = len(held_out.examples)
    spread = np.linspace(0, count - 1, min(count, MOST_SAMPLES)).astype(np.int64)
    return corpus, _part(held_out, spread)


def _part(corpus: Corpus, places: Sequence[int] | np.ndarray) -> Corpus:
    return replace(corpus, examples=tuple(corpus.examples[int(i)] for i in places))


def _priced(lived: Replay, prompts: Sequence[np.ndarray], cost: CostCurve | None) -> dict[str, Any]:
    if cost is None:
        return {**asdict(Steps.of(lived, len(prompts))), "ms_per_sample": None}
    return asdict(prediction(lived, prompts, cost))
