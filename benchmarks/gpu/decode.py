"""Tokens per second of the loops against transformers' generate, at batch 1 and 8."""

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

from transformers import PreTrainedModel

from benchmarks.batch import Outputs, by_transformers, by_us, measure
from benchmarks.gpu.model import Trained, trained
from benchmarks.gpu.setup import Setup
from tasc.decoding.drafters import parse
from tasc.models.static import target_for
from tasc.models.target import Target

METHODS = ("ar", "tasc-spec", "prompt-lookup")
NEW_TOKENS, LOOKUP = 48, 10


def run(setup: Setup) -> dict[str, Any]:
    """Measure bfloat16; every way decodes the same prompts, in turn."""
    model = trained(setup)
    theirs = trained(setup).model  # with transformers' own attention
    target = target_for(model.model)
    return {
        "parameters": model.model.num_parameters(),
        "static_steps_at_batch_1": target.graphs,
        "ways": compare(setup, model, target, theirs, (1, 2 if setup.quick else 8)),
    }


def run_4bit(setup: Setup) -> dict[str, Any]:
    """Measure the same model with bitsandbytes NF4 weights, without graphs and at batch 1."""
    if find_spec("bitsandbytes") is None:
        return {"skipped": "bitsandbytes is not installed"}
    model = trained(setup, quantize=True)
    theirs = trained(setup, quantize=True).model
    return {
        "bytes": sum(p.nbytes for p in model.model.parameters()),
        "ways": compare(setup, model, Target(model.model), theirs, (1,)),
    }


def compare(
    setup: Setup,
    model: Trained,
    target: Target,
    theirs: PreTrainedModel,
    sizes: tuple[int, ...],
) -> list[dict[str, Any]]:
    """Return the figures of benchmarks/batch.py for every way and batch size."""
    limits: dict[str, Any] = {"new_tokens": NEW_TOKENS, "end": model.end}
    cells: dict[str, Callable[[], Outputs]] = {}
    for size in sizes:
        cells[f"transformers, batch {size}"] = partial(
            by_transformers, theirs, model.prompts, size, **limits
        )
        for name in METHODS:
            factory = parse(name).prepare(model.resources(target))
            cells[f"{name}, batch {size}"] = partial(
                by_us, target, factory, model.prompts, size, **limits
            )
    lookup = partial(by_transformers, prompt_lookup_num_tokens=LOOKUP)
    cells["transformers prompt-lookup, batch 1"] = partial(
        lookup, theirs, model.prompts, 1, **limits
    )
    return measure(cells, 1 if setup.quick else 5)
