"""``python -m tests.anywhere``: run the quick tests as if on other CPUs, and print a table.

A cell is a run of pytest with instruction sets, threads, a seed and an order of its own. The cells
cover each level of each factor, not all combinations. What the CPU lacks is printed as skipped.
"""

import argparse
import os
import platform
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests import runs

LOGS = Path("build/anywhere")
ROW = "{:<15} {:>6} {:>6} {:>7}  {}"


@dataclass(frozen=True)
class Libraries:
    """The instruction sets of oneDNN and of MKL, which multiply matrices for torch."""

    onednn: str  # ONEDNN_MAX_CPU_ISA: the best that is used
    mkl: str = "AUTO"  # MKL_CBWR: AUTO is the best for this CPU


@dataclass(frozen=True)
class Cell:
    """One run of the tests."""

    torch: str  # ATEN_CPU_CAPABILITY
    kernels: str  # TASC_CPU_CAPABILITY
    libraries: Libraries
    threads: int
    seed: int  # of the models that the tests train, and of the order of the tests

    def environment(self) -> dict[str, str]:
        return {
            "ATEN_CPU_CAPABILITY": self.torch,
            "TASC_CPU_CAPABILITY": self.kernels,
            "ONEDNN_MAX_CPU_ISA": self.libraries.onednn,
            "MKL_CBWR": self.libraries.mkl,
            "OMP_NUM_THREADS": str(self.threads),
            "OMP_WAIT_POLICY": "PASSIVE",  # or waiting threads spin, and take the workers' cores
            "TASC_TEST_SEED": str(self.seed),
            "TASC_TEST_ORDER": str(self.seed),
        }


OLD, NEWER, NEWEST = Libraries("SSE41", "COMPATIBLE"), Libraries("AVX2"), Libraries("DEFAULT")
# Those without AVX-512 have every level of the other factors.
CELLS = {
    "oldest": Cell("default", "portable", OLD, threads=1, seed=1),
    "old-torch": Cell("default", "avx2", NEWER, threads=2, seed=2),
    "avx2": Cell("avx2", "avx2", NEWEST, threads=1, seed=3),
    "old-kernels": Cell("avx2", "portable", NEWEST, threads=2, seed=1),
    "old-libraries": Cell("avx2", "avx2", OLD, threads=1, seed=2),
    "avx512": Cell("avx512", "avx512", NEWEST, threads=1, seed=3),
    "avx512-torch": Cell("avx512", "avx2", NEWER, threads=2, seed=1),
    "avx512-kernels": Cell("avx2", "avx512", OLD, threads=1, seed=2),
}


def main() -> int:
    """Run the cells that were asked for; return 1 if a test failed."""
    given = _arguments()
    LOGS.mkdir(parents=True, exist_ok=True)
    _say(ROW.format("cell", "passed", "failed", "skipped", "settings and failed tests"))
    good = True
    for name in given.only or CELLS:
        settings = CELLS[name].environment()
        shown = " ".join(f"{key}={value}" for key, value in settings.items())
        lacking = _lacking(CELLS[name])
        if lacking:
            _say(ROW.format(name, "-", "-", "-", f"skipped: this CPU lacks {lacking}. {shown}"))
            continue
        log = LOGS / f"{name}.log"
        outcome = runs.run(sys.executable, given.pytest, given.workers, log, settings)
        _say(ROW.format(name, outcome.passed, len(outcome.failed), outcome.skipped, shown))
        for test in outcome.failed:
            _say(ROW.format("", "", "", "", test))
        good = good and not outcome.failed
    return int(not good)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.anywhere", description=__doc__)
    parser.add_argument("--only", action="append", choices=CELLS, help="a cell; may be repeated")
    parser.add_argument("--workers", type=int, default=2, help="processes of pytest")
    parser.add_argument("pytest", nargs="*", default=["tests"], help="folders, files, or tests")
    return parser.parse_args()


def _lacking(cell: Cell) -> str:
    """Return the instructions that the cell needs and this CPU does not have, or nothing."""
    import torch

    levels = ["DEFAULT", "AVX2", "AVX512"]
    best = torch.backends.cpu.get_cpu_capability()
    if best not in levels:  # no x86
        best = "DEFAULT"
    if levels.index(cell.torch.upper()) > levels.index(best):
        return f"{cell.torch} for torch ({platform.machine()})"
    command = [sys.executable, "-c", "import tasc.backend"]
    asked = os.environ | {"TASC_CPU_CAPABILITY": cell.kernels}
    loads = subprocess.run(command, env=asked, capture_output=True, check=False).returncode == 0
    return "" if loads else f"{cell.kernels} for the kernels ({platform.machine()})"


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - a script


if __name__ == "__main__":
    sys.exit(main())
