"""tasc finetune under launchers: started for real, killed, resumed; and their configurations."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from accelerate.commands.config.config_args import load_config_from_file
from accelerate.utils import DistributedType
from transformers import AutoModelForCausalLM

from tests import pico
from tests.recipes import write
from tests.training.samples import OBJECTS

CONFIGS = Path(__file__).parents[2] / "recipes" / "accelerate"
TASC = ["-m", "tasc_cli.main", "finetune", "task.jsonl", "--model", "base", "--device", "cpu"]
TASC += ["--batch-size", "2", "--effective-batch", "4", "--dtype", "float32", "--adapter", "none"]
TASC += ["--epochs", "10", "--checkpoint-steps", "5", "--json"]  # 50 steps
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    folder: Path = tmp_path_factory.mktemp("task")
    write(folder / "task.jsonl", [{"input": f"the {o}", "output": f"{o} on"} for o in OBJECTS * 4])
    pico.make_base(folder / "base")
    return folder


@pytest.fixture(scope="module")
def alone(task):
    return losses(task, task / "alone", TASC)


@pytest.fixture(scope="module")
def launched(task):
    return losses(task, task / "launched", TORCHRUN, TASC)


@pytest.fixture
def output(tmp_path):
    return tmp_path / "output"


def accelerate(config: str, *options: str) -> list[str]:
    file = str(CONFIGS / f"{config}.yaml")
    return ["-m", "accelerate.commands.launch", "--config_file", file, *options]


def start(task: Path, *words: Sequence[str]) -> subprocess.Popen[str]:
    command = [sys.executable, *(word for part in words for word in part)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=task, text=True, stdout=pipe, stderr=pipe)


def losses(task: Path, output: Path, *words: Sequence[str]) -> list[float]:
    """Return the losses of a training into ``output``, whose model is a plain one."""
    process = start(task, *words, ["--output", str(output)])
    out, err = process.communicate()
    assert process.returncode == 0, err
    found = json.loads(out)  # the result and nothing else
    assert json.loads((output / "training.json").read_text()) == found
    AutoModelForCausalLM.from_pretrained(output / "model")
    assert not list(output.parent.glob(".*"))
    return found["losses"]


@pytest.mark.slow
def test_torchrun_starts_the_processes(alone, launched):
    assert launched == pytest.approx(alone, abs=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "launcher",
    [accelerate("one-node", "--num_processes", "2"), accelerate("one-gpu")],
    ids=["one-node", "one-gpu"],
)
def test_accelerate_starts_the_processes(task, alone, output, launcher):
    assert losses(task, output, launcher, TASC) == pytest.approx(alone, abs=1e-3)


@pytest.mark.slow
def test_two_machines_meet(task, alone, output):
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    given = ["--num_processes", "2", "--main_process_port", str(port), "--machine_rank"]
    command = [*TASC, "--output", str(output)]
    both = [start(task, accelerate("several-nodes", *given, rank), command) for rank in "01"]
    told = [process.communicate() for process in both]
    assert [process.returncode for process in both] == [0, 0], told
    assert json.loads(told[0][0])["losses"] == pytest.approx(alone, abs=1e-3)
    assert told[1][0] == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("launcher", "more", "file", "words"),  # of the second process alone
    [
        ([], ["--processes", "2"], "cmdline", b"spawn_main"),
        (TORCHRUN, [], "environ", b"\0RANK=1\0"),
    ],
    ids=["started", "launched"],
)
def test_a_process_that_is_killed_costs_no_loss(
    task, launched, output, launcher, more, file, words
):
    command = [*launcher, *TASC, *more]
    process = start(task, command, ["--output", str(output)])
    deadline = time.monotonic() + 300
    while not any("state.json" in files for *_, files in os.walk(output.parent / ".output.work")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    (second,) = (c for c in children if words in Path(f"/proc/{c}/{file}").read_bytes())
    os.kill(int(second), signal.SIGKILL)
    process.communicate()
    assert process.returncode
    assert not output.exists()
    assert losses(task, output, command, ["--resume"]) == launched


def test_accelerate_reads_the_configurations():
    found = {path.stem: load_config_from_file(str(path)) for path in CONFIGS.iterdir()}
    assert {name: (c.distributed_type, c.num_machines) for name, c in found.items()} == {
        "one-gpu": (DistributedType.NO, 1),
        "one-node": (DistributedType.MULTI_GPU, 1),
        "several-nodes": (DistributedType.MULTI_GPU, 2),
    }
    for config in found.values():
        assert config.num_processes % config.num_machines == 0
        assert config.mixed_precision == "no"
