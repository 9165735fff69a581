"""Losses of the same training in one process and in two.

Trains ``--model`` for ``--steps`` steps and reports the largest difference of a step's loss.

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
from tasc.training.options import FinetuneOptions
from tasc.training.train import Start, finetune
from tasc.vocab.exports.merges import read_merges

ARMS = {"one": 1, "two": 2}
ALL = {"adapter": "none", "learning_rate": 1e-3}
NF4 = {"quantize": "nf4", "train_rows": "new", "learning_rate": 3e-3}
WAYS: dict[str, dict[str, Any]] = {
    "all weights, float32": ALL | {"dtype": "float32"},
    "all weights, bfloat16": ALL | {"bf16": True},
    "adapters on NF4 and new rows, float32": NF4 | {"dtype": "float32"},
    "adapters on NF4 and new rows, bfloat16": NF4 | {"bf16": True},
}


def main() -> None:
    """Compare the losses, or be one process of a training."""
    options = parse_options()
    torch.set_num_threads(1)
    if options.task:
        be_one(options.data, **json.loads(options.task))
        return
    task = {"model": options.model, "augmented": options.augmented, "steps": options.steps}
    losses = {way: compare(task | {"given": given}) for way, given in WAYS.items()}
    publish({"steps": options.steps, "losses": losses}, options.json)


def compare(task: dict[str, Any]) -> dict[str, Any]:
    """Return what each arm loses, and how far that is from what one process does."""
    found = {arm: start(arm, task) for arm in ARMS}
    one = found["one"]["losses"]
    return {
        arm: {
            "first": figures["losses"][0],
            "last": figures["losses"][-1],
            "difference": max(abs(a - b) for a, b in zip(one, figures["losses"], strict=True)),
            "seconds_a_step": figures["seconds"] / len(one),
        }
        for arm, figures in found.items()
    }


def start(arm: str, task: dict[str, Any]) -> dict[str, Any]:
    """Run one arm in processes of its own; return the figures of the first one."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "figures.json"
        launcher = ["torch.distributed.run", "--standalone", f"--nproc-per-node={ARMS[arm]}", "-m"]
        module = [*(launcher if ARMS[arm] > 1 else []), "benchmarks.training.processes"]
        whole = json.dumps({**task, "file": str(file)})
        command = [sys.executable, "-m", *module, *sys.argv[1:], "--task", whole]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        figures: dict[str, Any] = json.loads(file.read_bytes())
        return figures


def be_one(
    data: str, *, model: str, augmented: str, steps: int, given: dict[str, Any], file: str
) -> None:
    """Train as one of the processes; the first one writes its figures to ``file``."""
    common = {"batch_size": 8, "effective_batch": 32, "max_length": 160, "checkpoint_steps": 0}
    whole = {**common, **given, "epochs": 1.0, "device": "cpu"}
    options = FinetuneOptions(source=data, model=model, **whole)
    corpus = load(Source(data), "train", limit=steps * whole["effective_batch"])
    added = read_merges(Path(augmented)) if augmented and options.adapter == "lora" else ()
    begun = Start(model, augmented if added else model, added)
    with scratch() as work:
        report = finetune(begun, corpus, None, options, work=work).report
    if os.environ.get("RANK", "0") == "0":
        figures = {"seconds": report.seconds, "losses": report.losses}
        Path(file).write_text(json.dumps(figures))


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
