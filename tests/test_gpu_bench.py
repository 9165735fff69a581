"""The benchmark for GPUs says what it lacks, and every part of it runs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytestmark = pytest.mark.slow  # each starts a process that imports torch
ROOT = Path(__file__).parents[1]
PARTS = {"kernels", "verify", "overhead", "decode", "4bit"}


def gpu_bench(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.gpu", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_without_a_device_it_is_one_line(data_dir, tmp_path):
    if torch.cuda.is_available():
        pytest.skip("there is a device")
    report = tmp_path / "gpu.json"
    done = gpu_bench("--data-dir", data_dir, "--json", report)
    assert done.returncode == 2
    assert "no NVIDIA device" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not report.exists()


def test_every_part_runs_and_a_later_run_keeps_the_others(data_dir, tmp_path):
    report = tmp_path / "gpu.json"
    common = ["--data-dir", data_dir, "--device", "cpu", "--quick", "--minutes", "0.1"]
    common += ["--json", report, "--work", tmp_path]
    for only in (["verify", "overhead"], ["kernels", "decode", "4bit"]):
        done = gpu_bench(*common, "--only", *only)
        assert done.returncode == 0, done.stdout + done.stderr
    parts = json.loads(report.read_text())["parts"]
    assert set(parts) == PARTS
    assert set(parts["verify"]) >= {"bfloat16", "float16", "float32"}
    assert all(parts["verify"][d]["times_one_read"] > 0 for d in ("bfloat16", "float32"))
    assert parts["overhead"]["tasc-spec"]["steps"] < parts["overhead"]["ar"]["steps"]
    for name in ("decode", "4bit"):
        ways = {way["method"]: way for way in parts[name]["ways"]}
        assert {"transformers, batch 1", "ar, batch 1", "tasc-spec, batch 1"} <= set(ways)
        assert all(way["tokens_per_second"] > 0 for way in ways.values())
