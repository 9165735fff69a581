"""One training in one process, in two, and in two that share the model out: losses and memory.

Losses are those of ``--steps`` steps of ``--model``; what is compared is the largest difference at
any step. Memory is that of a random model of 28 M parameters whose weights all train: the most that
each process held, beside what it held before, which is Python and torch.

    python -m benchmarks.training.processes DATA --model BASE --augmented TOKENS [--json FILE]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from benchmarks.figures import publish, script
from tasc.data.corpus import load
from tasc.data.source import Source
from tasc.files.scratch import scratch
from tasc.training.base import PRESETS, build
from tasc.training.base_tokenizer import train_tokenizer
from tasc.training.folder import save_model
from tasc.training.options import FinetuneOptions
from tasc.training.train import Start, finetune
from tasc.vocab.exports.merges import read_merges

ARMS = {"one": (1, False), "two": (2, False), "two, sharded": (2, True)}
ALL = {"adapter": "none", "learning_rate": 1e-3}
NF4 = {"quantize": "nf4", "train_rows": "new", "learning_rate": 3e-3}
WAYS: dict[str, dict[str, Any]] = {
    "all weights, float32": ALL | {"dtype": "float32"},
    "all weights, bfloat16": ALL | {"bf16": True},
    "adapters on NF4 and new rows, float32": NF4 | {"dtype": "float32"},
    "adapters on NF4 and new rows, bfloat16": NF4 | {"bf16": True},
}
WEIGHED = ALL | {"dtype": "float32", "batch_size": 2, "effective_batch": 8}
STEPS = 8  # where memory is looked at
# glibc raises the size from which freed memory goes back to the system; a fixed one keeps it there.
FIXED = {"MALLOC_MMAP_THRESHOLD_": "262144"}
MEMORY: dict[str, tuple[dict[str, str], int]] = {
    "as it comes": ({}, 0),
    "MALLOC_MMAP_THRESHOLD_": (FIXED, 0),
    "MALLOC_MMAP_THRESHOLD_, checkpoints": (FIXED, 4),
}


def main() -> None:
    """Compare losses, then memory; or be one process of a training."""
    options = parse_options()
    torch.set_num_threads(1)
    if options.task:
        be_one(options.data, **json.loads(options.task))
        return
    task = {"model": options.model, "augmented": options.augmented, "steps": options.steps}
    losses = {way: compare(task | {"given": given}) for way, given in WAYS.items()}
    with tempfile.TemporaryDirectory() as folder:
        make_medium(Path(folder), options.data)
        task = {"model": folder, "augmented": "", "steps": STEPS}
        memory = {
            name: weigh(task | {"given": WEIGHED | {"checkpoint_steps": every}}, malloc)
            for name, (malloc, every) in MEMORY.items()
        }
    publish({"steps": options.steps, "losses": losses, "memory": memory}, options.json)


def compare(task: dict[str, Any]) -> dict[str, Any]:
    """Return what each arm loses, and how far that is from what one process does."""
    found = {arm: start(arm, task, {})[0] for arm in ARMS}
    one = found["one"]["losses"]
    return {
        arm: {
            "first": told["losses"][0],
            "last": told["losses"][-1],
            "difference": max(abs(a - b) for a, b in zip(one, told["losses"], strict=True)),
            "seconds_a_step": told["seconds"] / len(one),
        }
        for arm, told in found.items()
    }


def weigh(task: dict[str, Any], malloc: dict[str, str]) -> dict[str, Any]:
    """Return the megabytes of each process of each arm, and those beyond what it began with."""
    found = {arm: start(arm, task, malloc) for arm in ARMS}
    return {
        arm: {
            "first": each[0]["peak"] - each[0]["before"],
            "other": each[-1]["peak"] - each[-1]["before"],
            "before": each[0]["before"],
        }
        for arm, each in found.items()
    }


def start(arm: str, task: dict[str, Any], malloc: dict[str, str]) -> list[dict[str, Any]]:
    """Run one arm in processes of its own; return what each tells, the first one first."""
    count, fsdp = ARMS[arm]
    with tempfile.TemporaryDirectory() as told:
        launcher = ["torch.distributed.run", "--standalone", f"--nproc-per-node={count}", "-m"]
        module = [*(launcher if count > 1 else []), "benchmarks.training.processes"]
        whole = json.dumps({**task, "fsdp": fsdp, "told": told})
        command = [sys.executable, "-m", *module, *sys.argv[1:], "--task", whole]
        known = os.environ | malloc
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=known)
        return [json.loads(file.read_bytes()) for file in sorted(Path(told).iterdir())]


def be_one(
    data: str,
    *,
    model: str,
    augmented: str,
    steps: int,
    given: dict[str, Any],
    fsdp: bool,
    told: str,
) -> None:
    """Train as one of the processes, and tell what this one lost and held."""
    common = {"batch_size": 8, "effective_batch": 32, "max_length": 160, "checkpoint_steps": 0}
    whole = {**common, **given, "epochs": 1.0, "device": "cpu", "fsdp": fsdp}
    options = FinetuneOptions(source=data, model=model, **whole)
    corpus = load(Source(data), "train", limit=steps * whole["effective_batch"])
    added = read_merges(Path(augmented)) if augmented and options.adapter == "lora" else ()
    begun = Start(model, augmented if added else model, added)
    before = held("VmRSS")
    with scratch() as work:
        report = finetune(begun, corpus, None, options, work=work).report
    figures = {"before": before, "peak": held("VmHWM"), "seconds": report.seconds}
    file = Path(told) / os.environ.get("RANK", "0")
    file.write_text(json.dumps(figures | {"losses": report.losses}))


def held(what: str) -> float:
    """Return the megabytes that this process holds, or held at most: Linux tells."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what)) * 1024 / 1e6


def make_medium(folder: Path, data: str) -> None:
    """Write a model of 28 M random parameters."""
    preset = PRESETS["medium"]
    tokenizer = train_tokenizer(list(load(Source(data), "train").prompts), preset.vocabulary)
    save_model(build(preset, preset.vocabulary, 512, seed=0), tokenizer, folder)


def parse_options() -> argparse.Namespace:
    """Return what was asked for."""
    parser = script(__doc__)
    parser.add_argument("data")
    parser.add_argument("--model", required=True, help="what tasc base wrote")
    parser.add_argument("--augmented", required=True, help="what tasc augment wrote for it")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--task", help=argparse.SUPPRESS)
    options: argparse.Namespace = parser.parse_args()
    return options


if __name__ == "__main__":
    main()
