"""Time the decoding loop relative to transformers' generate: same model, same prompts.

Compares autoregressive decoding, and prompt lookup with prompt_lookup_num_tokens of transformers.
The models have the shapes of real ones and random weights. Speed does not depend on weights, but
acceptance does: prompt lookup compares the two loops, not the methods. The ways take turns, so that
drift of the machine affects all alike. Ratios are between neighbouring runs.
Usage: python -m benchmarks.engine [--models 30m 0.5b] [--json FILE]
"""

import argparse
import statistics
from typing import Any

import numpy as np
import torch

from benchmarks.figures import publish, script
from benchmarks.task import THEIR_LOOKUP, Task, compare
from tasc.models.load import device_has_bfloat16
from tasc.models.target import Target
from tasc.training.base import PRESETS, Preset, build

SHAPES = {"30m": Preset(32_000, 384, 1536, 8, 6, 2, 0.0), "0.5b": PRESETS["large"]}
METHODS = {"ar": "transformers", "prompt-lookup": THEIR_LOOKUP}  # and the baseline of each


def main() -> None:
    """Measure every model and print the figures as JSON."""
    parser = script(
        __doc__, threads=True, prompts=2, prompt_tokens=128, new_tokens=64, repeats=5, seed=0
    )
    parser.add_argument("--models", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--dtype", choices=("auto", "float32", "bfloat16"), default="auto")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    results = [measure(name, options) for name in options.models]
    publish({"threads": options.threads, "results": results}, options.json)


def measure(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Run all ways on all prompts in turn, once to warm up and then ``repeats`` times."""
    shape, dtype = SHAPES[name], options.dtype
    if dtype == "auto":
        fast = name != "30m" and device_has_bfloat16(torch.device("cpu"))
        dtype = "bfloat16" if fast else "float32"
    rows, positions = shape.rows or shape.vocabulary, options.prompt_tokens + options.new_tokens
    ours, theirs = (
        build(shape, rows, positions, options.seed).to(getattr(torch, dtype)).eval()
        for _ in range(2)
    )
    rng = np.random.default_rng(options.seed)
    prompts = rng.integers(0, rows, (options.prompts, options.prompt_tokens)).astype(np.int32)
    task = Task(ours, list(prompts), [np.array([1], np.int32)], -1)
    limits = {"new_tokens": options.new_tokens, "end": None}
    ways = compare(task.ways(Target(ours), theirs, list(METHODS), (1,), limits), options.repeats)
    speeds = {way["method"]: way["tokens_per_second_by_repeat"] for way in ways}
    return {
        "model": name,
        "parameters": ours.num_parameters(),
        "dtype": dtype,
        "new_tokens": options.new_tokens,
        "prompt_tokens": options.prompt_tokens,
        "runs_a_way": options.repeats,
        "ways": ways,
        "ratios": [ratio(speeds, *pair) for pair in METHODS.items()],
    }


def ratio(speeds: dict[str, list[float]], way: str, against: str) -> dict[str, Any]:
    """Return the speed of ``way`` relative to ``against``, by neighbouring runs."""
    pairs = zip(speeds[f"{way}, batch 1"], speeds[f"{against}, batch 1"], strict=True)
    ratios = [a / b for a, b in pairs]
    return {
        "of": way,
        "to": against,
        "median": statistics.median(ratios),
        "p10_p90": np.percentile(ratios, [10, 90]).tolist(),
    }


if __name__ == "__main__":
    main()
