"""Quality and speed by how many epochs the same model trains, with new tokens and without.

Table 7 of Tsur et al. (TASC). Epochs are those of each one's own tokens, so TASC-ft reads fewer of
them. What is finished is not trained again.

    python -m benchmarks.training.epochs DATA --base BASE --augmented TOKENS --output RUNS
"""

from pathlib import Path

from benchmarks.figures import publish, script
from benchmarks.training.runs import TRAINING, benched, made


def main() -> None:
    """Train what is missing, bench all models together, and print the figures as JSON."""
    parser = script(
        __doc__,
        threads=True,
        base=str,
        augmented=str,
        output=str,
        template="{input}\n",
        batch_size=8,
        max_new_tokens=256,
        repeats=1,
        delimiter=", ",
    )
    parser.add_argument("data")
    parser.add_argument("--epochs", type=int, nargs="+", default=[1, 3, 5, 10])
    parser.add_argument("--train-limit", type=int, default=1_000_000, help="examples at most")
    parser.add_argument("--limit", type=int, help="test samples")
    parser.add_argument("--metrics", nargs="+", default=["exact_match"])
    options = parser.parse_args()
    source = [options.data, "--template", options.template, "--limit", str(options.train_limit)]
    call = ["finetune", *source, "--model", options.base, *TRAINING]
    call += ["--threads", str(options.threads)]
    arms = {"baseline": [], "tasc-ft": ["--augmented", options.augmented]}
    models = []
    for epochs in options.epochs:
        for arm, given in arms.items():
            name = f"{arm} {epochs}"
            folder = Path(options.output) / name.replace(" ", "-")
            models.append(f"{name}={made(folder, *call, *given, '--epochs', str(epochs))}")
    texts = {"path": options.data, "template": options.template}
    same = ("max_new_tokens", "repeats", "batch_size", "delimiter")
    more = {name: getattr(options, name) for name in same}
    found = benched(texts, options, models, "cells", "pairs", methods=("ar",), **more)
    publish(found, options.json)


if __name__ == "__main__":
    main()
