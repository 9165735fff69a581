"""MicroSpec's gather against a plain copy, and a look for waits of the host in a step."""

from typing import Any

from benchmarks import gather
from benchmarks.gpu.setup import Setup

TINY = ("--vocabulary=3000", "--width=64", "--window=128", "--step-rows=8", "--repeats=2")


def run(setup: Setup) -> dict[str, Any]:
    """Measure the LM head of an 8B model with Qwen2's vocabulary."""
    shape = TINY if setup.quick else ()
    return gather.measure(gather.parse_options(["--device", setup.device.type, *shape]))
