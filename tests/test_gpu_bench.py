"""The benchmark for GPUs says what it lacks, and every part of it runs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytestmark = pytest.mark.slow  # each starts a process that imports torch
ROOT = Path(__file__).parents[1]
PARTS = {"kernels", "verify", "gather", "forward", "overhead", "decode", "4bit"}

# Python runs sitecustomize at its start. There, and in the processes that it starts, these packages
# are not found.
HIDE = """
from importlib.machinery import PathFinder

find, hidden = PathFinder.find_spec, {"peft", "bitsandbytes", "datasets", "typer"}
PathFinder.find_spec = classmethod(
    lambda cls, name, *more: None if name.partition(".")[0] in hidden else find(name, *more)
)
"""


def gpu_bench(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.gpu", *map(str, arguments)]
    environment = os.environ | environment
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


def test_without_a_device_it_is_one_line(data_dir, tmp_path):
    if torch.cuda.is_available():
        pytest.skip("there is a device")
    report = tmp_path / "gpu.json"
    done = gpu_bench("--data-dir", data_dir, "--json", report)
    assert done.returncode == 2
    assert "no NVIDIA device" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not report.exists()


def test_every_part_runs_without_what_only_other_commands_need_and_a_later_run_keeps_it(
    data_dir, tmp_path
):
    (tmp_path / "sitecustomize.py").write_text(HIDE)
    report = tmp_path / "gpu.json"
    common = ["--data-dir", data_dir, "--device", "cpu", "--quick", "--minutes", "0.1"]
    common += ["--json", report, "--work", tmp_path]
    done = gpu_bench(*common, PYTHONPATH=str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    parts = json.loads(report.read_text())["parts"]
    assert set(parts) == PARTS
    assert parts["kernels"]["tests"]["status"] == 0
    assert parts["kernels"]["tests"]["last"].strip("= ").startswith("25 ")  # passed, or skipped
    assert set(parts["verify"]) >= {"bfloat16", "float16", "float32"}
    assert all(parts["verify"][d]["times_one_read"] > 0 for d in ("bfloat16", "float32"))
    assert [g["rows"] for g in parts["gather"]["gather"]] == [128, 8]
    shapes = (parts["forward"][shape]["graphs"]["of_one_token"] for shape in ("0.5B", "7B"))
    assert all(shape["65"] > 0 for shape in shapes)
    assert parts["overhead"]["tasc-spec"]["steps"] < parts["overhead"]["ar"]["steps"]
    assert parts["4bit"]["skipped"] == "bitsandbytes is not installed"
    done = gpu_bench(*common, "--only", "4bit")
    assert done.returncode == 0, done.stdout + done.stderr
    later = json.loads(report.read_text())["parts"]
    assert later | {"4bit": None} == parts | {"4bit": None}
    for part in (parts["decode"], later["4bit"]):
        ways = {way["method"]: way for way in part["ways"]}
        assert {"transformers, batch 1", "ar, batch 1", "tasc-spec, batch 1"} <= set(ways)
        assert all(way["tokens_per_second"] > 0 for way in ways.values())
