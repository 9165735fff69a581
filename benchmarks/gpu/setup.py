"""What all parts share: the options, a clock that knows about devices, and a trained target."""

import statistics
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.gather import seconds
from benchmarks.task import Task
from tasc.commands.steps import run_step
from tasc.training.options import BaseOptions


@dataclass(frozen=True)
class Setup:
    """Where and how much to measure. ``quick`` is a trial of the script, not a measurement."""

    device: torch.device
    data: Path  # folder of massive-en
    work: Path  # folder for what is trained
    shape: str  # a preset of tasc.training.base
    minutes: float  # of training, at most
    quick: bool
    seed: int = 0

    @property
    def cuda(self) -> bool:
        """Whether this is the real thing."""
        return self.device.type == "cuda"

    def wait(self) -> None:
        """Wait until the device has done what it was given."""
        if self.cuda:
            torch.cuda.synchronize()

    def times(self, runs: list[Callable[[], Any]], repeats: int) -> list[float]:
        """Return the seconds of ``repeats`` calls, which take turns through ``runs``.

        Each of ``runs`` does the same on memory of its own, so that caches do not help.
        """
        for run in runs:
            run()
        found = []
        for i in range(repeats):
            self.wait()
            found.append(seconds(self.device.type, runs[i % len(runs)]))
        return found


def clocks() -> str | None:
    """Return driver, clocks (now and at most) and power limit as nvidia-smi names them."""
    asked = "driver_version,clocks.sm,clocks.max.sm,clocks.mem,power.limit"
    command = ["nvidia-smi", f"--query-gpu={asked}", "--format=csv"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def spread(values: list[float]) -> dict[str, float]:
    """Return median, 10th and 90th percentile of ``values``."""
    low, high = np.percentile(values, [10, 90]).tolist()
    return {"median": statistics.median(values), "p10": low, "p90": high}


def trained(setup: Setup, **options: Any) -> Task:  # noqa: ANN401
    """Return a target that has learnt real data, so that acceptance is real.

    It is trained at its first use; ``options`` are those of load_model.
    """
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
