"""Quality of TASC-ft beside its baseline, over seeds, at equal steps and at equal compute.

Every choice of trained rows is one comparison: a baseline, TASC-ft for as many epochs, and TASC-ft
for as many tokens, each with several seeds of one base model. What is finished is not trained
again, so a run that was ended goes on. Models are merged and benched on the whole split at once.
Options that are none of this benchmark go to the trainings with new tokens, as --rank 32;
give them an --output of their own.

    python -m benchmarks.training.quality DATA --base BASE --augmented TOKENS --output RUNS
"""

import argparse
from pathlib import Path
from typing import Any

from benchmarks.figures import publish, script
from benchmarks.training.runs import TRAINING, benched, made

ARMS = ("baseline", "equal steps", "equal compute")
DECODING = ("methods", "delimiter", "batch_size", "max_new_tokens", "repeats")


def main() -> None:
    """Train what is missing, bench all, and print the figures as JSON."""
    parser = script(
        __doc__,
        threads=True,
        base=str,
        augmented=str,
        output=str,
        epochs=3.0,
        rate=3e-3,
        template="{input}\n",
        output_column="output",
        batch_size=32,
        max_new_tokens=256,
        repeats=1,
    )
    parser.add_argument("--methods", nargs="+", default=["ar"])
    parser.add_argument("data")
    parser.add_argument("--rows", nargs="+", default=["new", "used", "all"])
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=ARMS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--train-limit", type=int)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--metrics", nargs="+", default=["exact_match"])
    parser.add_argument("--delimiter", default=", ")
    options, options.finetune = parser.parse_known_args()  # of tasc finetune
    for seed in options.seeds:
        for rows in options.rows:
            for arm in options.arms:
                train(arm, rows, seed, options)
    publish({"comparisons": [compare(rows, options) for rows in options.rows]}, options.json)


def train(arm: str, rows: str, seed: int, options: argparse.Namespace) -> None:
    """Train one model into its folder, unless it is there."""
    call = ["finetune", options.data, "--model", options.base, *TRAINING]
    call += ["--train-rows", rows, "--seed", str(seed), "--learning-rate", str(options.rate)]
    call += ["--threads", str(options.threads), "--template", options.template]
    call += ["--output-column", options.output_column]
    if options.train_limit:
        call += ["--limit", str(options.train_limit)]
    if arm != "baseline":
        call += ["--augmented", options.augmented, *options.finetune]
    if arm == "equal compute":
        call += ["--tokens-of", str(folder("baseline", rows, seed, options))]
    else:
        call += ["--epochs", str(options.epochs)]
    made(folder(arm, rows, seed, options), *call)


def compare(rows: str, options: argparse.Namespace) -> dict[str, Any]:
    """Bench the models of one choice of rows together."""
    models = tuple(
        f"{arm}#{seed}={folder(arm, rows, seed, options)}"
        for arm in options.arms
        for seed in options.seeds
    )
    found = benched(
        {
            "path": options.data,
            "template": options.template,
            "output_column": options.output_column,
        },
        options,
        models,
        "cells",
        "seeds",
        "seeds_pairs",
        "pairs",
        **{name: getattr(options, name) for name in DECODING},
    )
    return {"rows": rows, **found}


def folder(arm: str, rows: str, seed: int, options: argparse.Namespace) -> Path:
    """Return where a model lies."""
    return Path(options.output) / f"{arm.replace(' ', '-')}-{rows}-{seed}"


if __name__ == "__main__":
    main()
