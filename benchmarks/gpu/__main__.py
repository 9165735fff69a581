"""Check and time everything that needs an NVIDIA device, in parts, and write one JSON file.

The file keeps the parts that have run: continue an interrupted run with ``--only``. Without a
device the script exits with status 2. ``--device cpu --quick`` tries every part on tiny shapes; its
figures are meaningless.
Usage: python -m benchmarks.gpu --data-dir DATA [--only verify overhead] [--shape large]
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks import gather
from benchmarks.gpu import decode, forward, kernels, overhead, verify
from benchmarks.gpu.setup import Setup, clocks
from benchmarks.layout import layout
from tasc.backend import cuda
from tasc.environment import environment
from tasc.errors import TascError
from tasc.training.base import PRESETS


def gather_rows(setup: Setup) -> dict[str, Any]:
    """Measure MicroSpec's gather for the LM head of an 8B model with Qwen2's vocabulary."""
    tiny = ("--vocabulary=3000", "--width=64", "--window=128", "--step-rows=8", "--repeats=2")
    shape = tiny if setup.quick else ()
    return gather.measure(gather.parse_options(["--device", setup.device.type, *shape]))


PARTS: dict[str, Callable[[Setup], dict[str, Any]]] = {
    "kernels": kernels.run,
    "verify": verify.run,
    "gather": gather_rows,
    "forward": forward.run,
    "overhead": overhead.run,
    "decode": decode.run,
    "4bit": decode.run_4bit,
}


def main() -> int:
    """Run the chosen parts; return 2 if they cannot run and 1 if one failed."""
    options = parse_options()
    problem = unable(options)
    if problem:
        print(f"gpu-bench: {problem}", file=sys.stderr)  # noqa: T201 - a script
        return 2
    setup = Setup(
        device=torch.device("cuda:0" if options.device == "cuda" else "cpu"),
        data=options.data_dir / "massive-en",
        work=options.work,
        shape=options.shape or ("pico" if options.quick else "large"),
        minutes=options.minutes,
        quick=options.quick,
    )
    figures = begun(options.json, describe(setup))
    failed = False
    for name in options.only or PARTS:
        start = time.perf_counter()
        try:
            found = PARTS[name](setup)
        except (TascError, RuntimeError) as error:  # the other parts still run
            found, failed = {"failed": f"{type(error).__name__}: {error}"}, True
        failed = failed or any(
            isinstance(v, dict) and v.get("status", 0) != 0 for v in found.values()
        )
        figures["parts"][name] = {
            "took_seconds": time.perf_counter() - start,
            "environment": environment(),
            "clocks": clocks(),
            **found,
        }
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(layout(figures), encoding="utf-8")
        print(name, json.dumps(found, indent=2), flush=True)  # noqa: T201
    return int(failed)


def parse_options() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--data-dir", type=Path, required=True, help="folder of data sets")
    parser.add_argument("--only", nargs="+", choices=PARTS, help="parts to run [default: all]")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--quick", action="store_true", help="tiny shapes, to try the script")
    parser.add_argument("--shape", choices=PRESETS, help="shape of the target [default: large]")
    parser.add_argument("--minutes", type=float, default=3, help="maximum minutes of training")
    parser.add_argument("--work", type=Path, default=Path("build/gpu-bench"))
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/gpu.json"))
    return parser.parse_args()


def unable(options: argparse.Namespace) -> str:
    """Return the reason why nothing can be measured here, or an empty string."""
    if not (options.data_dir / "massive-en").is_dir():
        return f"no massive-en in {options.data_dir}: give the folder of data sets with --data-dir"
    if options.device == "cpu":
        return "" if options.quick else "--device cpu measures nothing: add --quick to try it out"
    if not torch.cuda.is_available():
        return (
            f"no NVIDIA device found by torch {torch.__version__}: run it on a machine with one; "
            "--device cpu --quick tries the script out"
        )
    state = cuda.state()
    return "" if state == "built" else f"the CUDA kernels are {state}"


def describe(setup: Setup) -> dict[str, Any]:
    """Return the conditions of the figures."""
    device = torch.cuda.get_device_name(setup.device) if setup.cuda else "cpu"
    return {
        "device": device,
        "cuda": torch.version.cuda,
        "shape": setup.shape,
        "quick": setup.quick,
    }


def begun(path: Path, described: dict[str, Any]) -> dict[str, Any]:
    """Return the figures to add to, without parts of another device or shape."""
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
        parts = held.pop("parts")
    except (OSError, ValueError, KeyError, AttributeError):
        held, parts = None, {}
    return {**described, "parts": parts if held == described else {}}


if __name__ == "__main__":
    sys.exit(main())
