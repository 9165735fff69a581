"""A target that has learnt real data, so that acceptance is real; trained at its first use."""

from typing import Any

from benchmarks.gpu.setup import Setup
from benchmarks.task import Task
from tasc.commands.steps import run_step
from tasc.training.options import BaseOptions


def trained(setup: Setup, **options: Any) -> Task:  # noqa: ANN401
    """Train the model, or find it trained; ``options`` are those of load_model."""
    shape = BaseOptions(
        source=str(setup.data),
        limit=400 if setup.quick else None,
        preset=setup.shape,
        minutes=setup.minutes,
        epochs=12,
        validation=None,
        checkpoint_steps=0,
        device=setup.device.type,
        seed=setup.seed,
    )
    folder = setup.work / f"{setup.shape}-{setup.minutes:g}"
    run_step(shape, folder, reuse=True)
    options = {"dtype": "bfloat16", "device": setup.device.type} | options
    return Task.load(str(folder), setup.data, 2 if setup.quick else 32, **options)
