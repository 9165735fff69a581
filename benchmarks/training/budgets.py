"""Speed and quality by the number of new tokens, and whether H_2 predicts the speed.

Figure 3 and appendix E of Tsur et al.: models of one task that differ in the budget M only, decoded
side by side; Kendall's tau between the Rényi-2 entropy of the outputs' tokens and the run time, and
how often a rise of one comes with a fall of the other. The baseline trains for so many epochs,
every other model for as many tokens as it. What is finished is not trained again.

    python -m benchmarks.training.budgets --task DATA --preset tiny small --output RUNS
"""

import argparse
from pathlib import Path
from typing import Any

from benchmarks.figures import publish, script
from benchmarks.training.runs import TRAINING, benched, made


def main() -> None:
    """Train what is missing, bench every task and size, and print the figures as JSON."""
    parser = script(
        __doc__,
        threads=True,
        output=str,
        base_epochs=4.0,
        epochs=3.0,
        max_new_tokens=256,
        repeats=1,
    )
    parser.add_argument("--task", nargs="+", required=True, help="DATA or DATA=TEMPLATE")
    parser.add_argument("--preset", nargs="+", default=["small"])
    parser.add_argument(
        "--budgets", type=int, nargs="+", default=[50, 100, 150, 300, 500, 750, 1000]
    )
    parser.add_argument("--train-limit", type=int, default=1_000_000, help="examples at most")
    parser.add_argument("--limit", type=int, help="test samples")
    parser.add_argument("--methods", nargs="+", default=["ar"])
    parser.add_argument("--metrics", nargs="+", default=["exact_match"])
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[1])
    options = parser.parse_args()
    found = [
        configuration(Path(data), template or "{input}\n", preset, options)
        for data, _, template in (task.partition("=") for task in options.task)
        for preset in options.preset
    ]
    publish({"configurations": found, "agreement": agreement(found)}, options.json)


def configuration(
    data: Path, template: str, preset: str, options: argparse.Namespace
) -> dict[str, Any]:
    """Return the figures of one task and one size of model, by batch size."""
    folder = Path(options.output) / f"{data.name}-{preset}"
    source = [str(data), "--template", template, "--limit", str(options.train_limit)]
    threads = ["--threads", str(options.threads)]
    epochs = ["--epochs", str(options.base_epochs)]
    base = made(folder / "base", "base", *source, "--resume", "--preset", preset, *epochs, *threads)
    call = ["finetune", *source, "--model", str(base), *TRAINING, *threads]
    plain = made(folder / "0", *call, "--epochs", str(options.epochs))
    models = [f"0={plain}"]
    for budget in options.budgets:
        given = ["--tokenizer", str(base), "--budget", str(budget)]
        tokens = made(folder / f"tokens-{budget}", "augment", *source, *given)
        given = ["--augmented", str(tokens), "--tokens-of", str(plain)]
        models.append(f"{budget}={made(folder / str(budget), *call, *given)}")
    texts = {"path": str(data), "template": template}
    more = {name: getattr(options, name) for name in ("methods", "max_new_tokens", "repeats")}
    kept = "cells", "pairs", "prediction"
    return {
        "task": data.name,
        "preset": preset,
        "batches": {
            str(size): benched(texts, options, models, *kept, batch_size=size, **more)
            for size in options.batch_sizes
        },
    }


def agreement(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Return by batch size the worst tau, and how many of all rises of H_2 came with a fall."""
    sizes = found[0]["batches"]
    by_size = {}
    for size in sizes:
        told = [one["batches"][size]["prediction"]["entropy"] for one in found]
        falls = sum(round(one["directional_rate"] * one["rises"]) for one in told if one["rises"])
        rises = sum(one["rises"] for one in told)
        by_size[size] = {
            "worst_tau": max(one["tau"] for one in told),
            "falls": falls,
            "rises": rises,
            "directional_rate": falls / rises,
        }
    return by_size


if __name__ == "__main__":
    main()
