"""tasc finetune under launchers: started for real, killed, resumed; and their configurations."""

import json
import socket
import subprocess
import sys
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


# The command line; the second process is killed two steps after the first checkpoint.
KILLED = """
import multiprocessing, os, signal
from tasc.training.loop import Run
from tasc_cli.main import main
step = Run._step
def last(run, number):
    if number == 7:
        if os.environ.get("RANK") == "1":  # torchrun's
            os.kill(os.getpid(), signal.SIGKILL)
        for second in multiprocessing.active_children():
            second.kill()
    return step(run, number)
if __name__ == "__main__":
    Run._step = last
    main()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("launcher", "more"), [([], ["--processes", "2"]), (TORCHRUN, [])], ids=["started", "launched"]
)
def test_a_process_that_is_killed_costs_no_loss(task, launched, output, launcher, more):
    (output.parent / "killed.py").write_text(KILLED)
    killed = [*launcher, str(output.parent / "killed.py"), *TASC[2:], *more]
    process = start(task, killed, ["--output", str(output)])
    _, err = process.communicate()
    assert process.returncode, err
    assert not output.exists()
    assert any(output.parent.rglob("state.json")), err
    assert losses(task, output, [*launcher, *TASC, *more], ["--resume"]) == launched


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
