"""Tokens per second relative to transformers' generate, at batch sizes 1 and 8."""

from importlib.util import find_spec
from typing import Any

from transformers import PreTrainedModel

from benchmarks.gpu.setup import Setup, trained
from benchmarks.task import Task, compare
from tasc.models.target import Target
from tasc.models.targets.fastest import target_for

METHODS = ("ar", "tasc-spec", "prompt-lookup")
NEW_TOKENS = 48


def run(setup: Setup) -> dict[str, Any]:
    """Measure bfloat16; all ways decode the same prompts in turn."""
    task = trained(setup)
    theirs = trained(setup).model  # with transformers' own attention
    target = target_for(task.model)
    return {
        "parameters": task.model.num_parameters(),
        "static_steps_at_batch_1": target.graphs,
        "ways": ways(setup, task, target, theirs, (1, 2 if setup.quick else 8)),
    }


def run_4bit(setup: Setup) -> dict[str, Any]:
    """Measure bitsandbytes NF4 weights of the same model, without graphs, at batch size 1."""
    if find_spec("bitsandbytes") is None:
        return {"skipped": "bitsandbytes is not installed"}
    task = trained(setup, quantize="nf4")
    theirs = trained(setup, quantize="nf4").model
    return {
        "bytes": sum(p.nbytes for p in task.model.parameters()),
        "ways": ways(setup, task, Target(task.model), theirs, (1,)),
    }


def ways(
    setup: Setup, task: Task, target: Target, theirs: PreTrainedModel, sizes: tuple[int, ...]
) -> list[dict[str, Any]]:
    """Return the figures by way and batch size."""
    limits = {"new_tokens": NEW_TOKENS, "end": task.end}
    found = task.ways(target, theirs, METHODS, sizes, limits)
    return compare(found, 1 if setup.quick else 5)
