"""Options, clocks of devices and the trained target of all parts."""

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
    """Options of a run. ``quick`` only tries the script."""

    device: torch.device
    data: Path  # folder of massive-en
    work: Path  # folder of trained models
    shape: str  # a preset of tasc.training.base
    minutes: float  # maximum time of training
    quick: bool
    seed: int = 0

    @property
    def cuda(self) -> bool:
        """Whether the device is a GPU."""
        return self.device.type == "cuda"

    def wait(self) -> None:
        """Wait until the device is idle."""
        if self.cuda:
            torch.cuda.synchronize()

    def times(self, runs: list[Callable[[], Any]], repeats: int) -> list[float]:
        """Return the seconds of ``repeats`` calls, which cycle through ``runs``.

        All ``runs`` do the same, each on its own memory, so that caches do not help.
        """
        for run in runs:
            run()
        found = []
        for i in range(repeats):
            self.wait()
            found.append(seconds(self.device.type, runs[i % len(runs)]))
        return found


def clocks() -> str | None:
    """Return driver, current and maximum clocks and power limit as nvidia-smi prints them."""
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
    """Return a target trained on real data, for realistic acceptance.

    The first use trains it. ``options`` go to ``load_model``.
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
