"""benchmarks/gather.py runs where there is no GPU, and says so where it was asked for one."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytestmark = pytest.mark.slow  # each starts a process that imports torch
ROOT = Path(__file__).parents[2]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.gather", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_it_measures_on_the_cpu():
    done = run("--vocabulary", "900", "--width", "8", "--window", "64", "--repeats", "2")
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert [g["rows"] for g in figures["gather"]] == [64, 64]
    assert all(g["gather_of_copy_bandwidth"] > 0 for g in figures["gather"])
    assert figures["step"]["host_waits"] is None


def test_without_a_device_it_says_so_in_one_line():
    if torch.cuda.is_available():
        pytest.skip("there is an NVIDIA device")
    done = run("--device", "cuda")
    assert done.returncode != 0
    assert done.stderr.count("\n") == 1
    assert "NVIDIA" in done.stderr
