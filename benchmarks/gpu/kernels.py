"""Tests that need a device, alone and under compute-sanitizer."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.gpu.setup import Setup

ROOT = Path(__file__).parents[2]
SANITIZERS = ("memcheck", "racecheck", "initcheck")


def run(setup: Setup) -> dict[str, Any]:
    """Run the tests; on CUDA also under each sanitizer, except the largest vocabulary."""
    files = [str(p) for p in (ROOT / "tests").rglob("test_*.py") if "mark.gpu" in p.read_text()]
    pytest = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", *files]
    found: dict[str, Any] = {"tests": call(pytest)}
    tool = shutil.which("compute-sanitizer")
    if tool is None:
        found["compute-sanitizer"] = "not installed"
    elif not setup.cuda:
        found["compute-sanitizer"] = "needs a device"
    else:
        small = [*pytest, "-k", "not 151936"]
        for name in SANITIZERS:
            command = [tool, "--tool", name, "--error-exitcode", "9", *small]
            found[f"compute-sanitizer {name}"] = call(command, seconds=150)
    return found


def call(command: list[str], seconds: float = 300) -> dict[str, Any]:
    """Return the exit status of a command and the last line that it prints."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds)
    except subprocess.TimeoutExpired:
        return {"status": None, "last": f"did not end within {seconds:.0f} s"}
    lines = (done.stdout + done.stderr).strip().splitlines()
    return {"status": done.returncode, "last": lines[-1] if lines else ""}
