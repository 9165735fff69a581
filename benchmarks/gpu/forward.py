"""T(k): time of a step over k tokens, for shapes of 0.5 and 7 billion random parameters."""

from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from benchmarks.gpu.setup import Setup, spread
from tasc.models.static import StaticTarget
from tasc.models.target import Target
from tasc.training.base import PRESETS, Preset, build

SIZES = (1, 2, 4, 8, 16, 32, 65)
CONTEXT = 128
# The shapes of Qwen2.5-0.5B and Qwen2.5-7B.
SHAPES = {
    "0.5B": PRESETS["large"],
    "7B": Preset(8192, 3584, 18_944, 28, 28, 4, 3e-4, rows=152_064),
}


def run(setup: Setup) -> dict[str, Any]:
    """Measure each shape with steps in CUDA graphs, also with invariant kernels, and without."""
    found: dict[str, Any] = {"context": CONTEXT}
    for name, preset in SHAPES.items():
        model = made(PRESETS["pico"] if setup.quick else preset, setup)
        found[name] = {
            "shape": asdict(preset),
            "parameters": model.num_parameters(),
            "graphs": measure(setup, StaticTarget(model, graphs=setup.cuda)),
            "eager": measure(setup, Target(model)),
        }
        if setup.cuda:
            target = StaticTarget(model)
            target.invariant = True
            found[name]["invariant"] = measure(setup, target)
    return found


def made(preset: Preset, setup: Setup) -> PreTrainedModel:
    """Return a model with random weights in bfloat16, made on the device."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with setup.device:
            return build(preset, preset.rows or preset.vocabulary, 1024, setup.seed).eval()
    finally:
        torch.set_default_dtype(before)


def measure(setup: Setup, target: Target) -> dict[str, Any]:
    """Return the milliseconds of a step by its tokens, and their ratio to one token.

    A step scores a chain and reads the arg-max of its rows back to the host.
    """
    tokens, chain = target.any_tokens(CONTEXT + SIZES[-1]), np.arange(-1, SIZES[-1], dtype=np.int32)
    target.prefill(tokens[:CONTEXT], SIZES[-1])

    def step(size: int) -> None:
        target.score([1], [(tokens[: size - 1], chain[: size - 1])])[0].argmax(-1).cpu()

    times = {
        size: spread(setup.times([partial(step, size)], 2 if setup.quick else 50)) for size in SIZES
    }
    return {
        "milliseconds": {size: {k: v * 1e3 for k, v in t.items()} for size, t in times.items()},
        "of_one_token": {size: t["median"] / times[1]["median"] for size, t in times.items()},
    }
