"""Time per step outside the model's forward: drafting, launching, verifying, committing."""

from collections import Counter
from typing import Any

import numpy as np
import torch

from benchmarks.gpu.setup import Setup, spread, trained
from benchmarks.task import Task
from tasc.decoding.decode import Generation, Request, generate_all
from tasc.decoding.drafters import DEFAULT_BUDGET
from tasc.models.static import StaticTarget, Step
from tasc.models.target import Target

METHODS = ("ar", "tasc-spec")


class Counted(StaticTarget):
    """A static target that counts its steps by shape."""

    def __init__(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401
        """Create a StaticTarget with its ``arguments``, and no steps counted."""
        super().__init__(*arguments, **options)
        self.used: Counter[tuple[int, int]] = Counter()

    def step(self, queries: int, keys: int) -> Step:
        """Count the shape and return its step."""
        self.used[queries, keys] += 1
        return super().step(queries, keys)


def run(setup: Setup) -> dict[str, Any]:
    """Measure static steps (captured on CUDA) and dynamic ones."""
    model = trained(setup)
    found: dict[str, Any] = {"parameters": model.model.num_parameters()}
    static = Counted(model.model, graphs=setup.cuda)
    for name in METHODS:
        found[name] = measure(setup, model, static, name)
        found[f"{name}, dynamic steps"] = by_timeline(model, name)
    return found


def measure(setup: Setup, model: Task, target: Counted, name: str) -> dict[str, Any]:
    """Return the microseconds per step outside the forward.

    The time of the forward is measured with the same shapes in direct succession. The rest of the
    time between the first step and the last is overhead.
    """
    per_step = []
    for repeat in range(-1, 2 if setup.quick else 5):  # the first run captures graphs
        target.used.clear()
        setup.wait()
        done = decode(model, target, name)
        seconds = sum(g.timeline.total - g.timeline.prefill for g in done)
        steps = sum(g.decoding_steps - 1 for g in done)
        alone = sum(n * forward(setup, target, shape) for shape, n in target.used.items())
        if repeat >= 0:
            per_step.append(1e6 * (seconds - alone) / steps)
    shapes = {f"{q}x{k}": n for (q, k), n in target.used.items()}
    return {
        "outside_forward_us_per_step": spread(per_step),
        "forward_us_per_step": 1e6 * alone / steps,
        "steps": steps,
        "steps_by_queries_x_keys": shapes,
        "by_part_us_per_step": parts(done, steps),
    }


def forward(setup: Setup, target: Counted, shape: tuple[int, int]) -> float:
    """Return the seconds per forward of a shape, in a row of forwards."""
    step, many = StaticTarget.step(target, *shape), 2 if setup.quick else 50

    @torch.inference_mode()
    def runs() -> None:
        for _ in range(many):
            step.logits()

    return spread(setup.times([runs], 5))["median"] / many


def by_timeline(model: Task, name: str) -> dict[str, Any]:
    """Return the microseconds per step, by part, of a target without static shapes."""
    target = Target(model.model)
    for _ in range(2):
        done = decode(model, target, name)
    steps = sum(g.decoding_steps - 1 for g in done)
    return {
        "us_per_step": 1e6 * sum(g.timeline.total - g.timeline.prefill for g in done) / steps,
        "by_part_us_per_step": parts(done, steps),
    }


def decode(model: Task, target: Target, name: str) -> list[Generation]:
    """Decode all prompts with one method."""
    factory = model.prepare(name, target)
    requests = [Request(prompt, factory) for prompt in model.prompts]
    return generate_all(
        target, requests, max_new_tokens=48, end_ids=(model.end,), budget=DEFAULT_BUDGET
    )


def parts(done: list[Generation], steps: int) -> dict[str, float]:
    """Return microseconds per step by part; on CUDA verify includes the wait for the forward."""
    names = ("draft", "forward", "verify", "commit")
    total = np.sum([[getattr(g.timeline, n) for n in names] for g in done], axis=0)
    return dict(zip(names, (1e6 * total / steps).tolist(), strict=True))
