"""What the rows that train cost: memory and time of some steps of 8 examples, by ``--train-rows``.

A model of random weights in the shape of Qwen2.5-0.5B, 151,936 rows of which are tied to its LM
head. Adapters train beside them. Each choice has a process of its own; "without" says what that
takes before it trains, the model's weights among it.

    python -m benchmarks.training.memory DATA --tokenizer FOLDER --output FOLDER [--json FILE]
"""

import json
from argparse import Namespace
from pathlib import Path
from typing import Any

import torch

import tasc
from benchmarks.figures import peak_bytes, publish, run_alone, script
from benchmarks.training.runs import made
from tasc.models.load import load_model
from tasc.tokenizer.loaded import load_tokenizer
from tasc.training.base import PRESETS, build
from tasc.training.folder import save_model

ROWS = ("new", "used", "all")
ADAM = 2  # numbers that AdamW keeps of each that it trains


def main() -> None:
    """Train with each choice and print what it took as JSON."""
    parser = script(__doc__, threads=True, tokenizer=str, output=str, preset="large", budget=250)
    parser.add_argument("data")
    parser.add_argument("--tokens", type=int, default=1000, help="train on so many")
    parser.add_argument("--rows", choices=("without", *ROWS), help="this choice alone")
    options = parser.parse_args()
    if options.rows:
        print(json.dumps(trained(options)))  # noqa: T201 - read by the process that called
        return
    prepared(options)
    found = {rows: run_alone(__spec__.name, "--rows", rows) for rows in ("without", *ROWS)}
    publish(found, options.json)


def prepared(options: Namespace) -> tuple[Path, Path]:
    """Return a model and the new tokens, which are made where they are missing."""
    base, tokens = (Path(options.output) / name for name in ("base", "tokens"))
    if not base.exists():
        tokenizer, preset = load_tokenizer(options.tokenizer), PRESETS[options.preset]
        rows = max(len(tokenizer.vocabulary()), preset.rows)
        save_model(build(preset, rows, 512, seed=0, end=tokenizer.eos_id), tokenizer, base)
    call = [options.data, "--tokenizer", str(base), "--budget", str(options.budget)]
    return base, made(tokens, "augment", *call)


def trained(options: Namespace) -> dict[str, Any]:
    """Train as long as is asked, or load alone, and describe it."""
    torch.set_num_threads(options.threads)
    base, tokens = prepared(options)
    if options.rows == "without":
        load_model(str(base))
        return {"peak_bytes": peak_bytes()}
    given = tasc.FinetuneOptions(
        source={"path": options.data},
        model=str(base),
        augmented=str(tokens),
        train_rows=options.rows,
        quantize="none",
        validation=None,
        batch_size=8,
        effective_batch=8,
        tokens=options.tokens,
        threads=options.threads,
    )
    report = tasc.finetune(given).report
    numbers = report.trainable_parameters
    return {
        "trained": numbers,
        "optimiser_bytes": 4 * ADAM * numbers,
        "steps": report.steps,
        "seconds_a_step": report.seconds / report.steps,
        "peak_bytes": peak_bytes(),
    }


if __name__ == "__main__":
    main()
