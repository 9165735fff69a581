"""The good inputs that a campaign damages: a task, models, and an artefact of each kind."""

import json
import subprocess
import sys
from dataclasses import dataclass, fields
from pathlib import Path

from tests.pico import TEXTS, make_base

ROWS = 24
SMALL = ("--limit", "12")


@dataclass(frozen=True)
class Seeds:
    """Where good inputs lie. Runs read them, and must leave them as they are."""

    task: Path  # a JSONL file of ROWS rows with the columns input and output
    folder: Path  # the same rows as train, validation and test
    base: Path  # a model and its tokenizer
    tokenizer: Path
    index: Path  # artefacts of tasc index, augment, finetune --merge and --draft-head
    augmented: Path
    finetuned: Path
    head: Path
    recipe: Path  # analyze, augment, finetune, bench on ``folder``

    @classmethod
    def at(cls, home: Path) -> "Seeds":
        """Return where ``make(home)`` puts them."""
        names = {"task": "task.jsonl", "folder": "splits", "recipe": "recipe.yaml"}
        return cls(**{f.name: home / names.get(f.name, f.name) for f in fields(cls)})


def rows(start: int = 0) -> list[dict[str, str]]:
    """Return ROWS samples: prompts, and outputs that share n-grams."""
    pairs = [text.split("\n") for text in TEXTS]
    chosen = [pairs[i % len(pairs)] for i in range(start, start + ROWS)]
    return [{"input": f"{i} {a}", "output": b} for i, (a, b) in enumerate(chosen, start)]


def make(home: Path) -> Seeds:
    """Make all of them below ``home``, by the command line itself."""
    seeds = Seeds.at(home)
    seeds.folder.mkdir(parents=True)
    _write(seeds.task, rows())
    make_base(seeds.base)
    for i, split in enumerate(("train", "validation", "test")):
        _write(seeds.folder / f"{split}.jsonl", rows(i))
    seeds.tokenizer.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (seeds.tokenizer / name).write_bytes((seeds.base / name).read_bytes())
    seeds.recipe.write_text(_recipe(seeds), encoding="utf-8")
    short = ("--epochs", "1", *SMALL)
    model = ("--model", seeds.base)
    _tasc("index", seeds.task, "--tokenizer", seeds.tokenizer, "--output", seeds.index)
    augment = ("augment", seeds.task, "--tokenizer", seeds.tokenizer, "--budget", "5")
    _tasc(*augment, "--output", seeds.augmented)
    finetune = ("finetune", seeds.task, *model, *short, "--output")
    _tasc(*finetune, seeds.finetuned, "--augmented", seeds.augmented, "--merge")
    _tasc(*finetune, seeds.head, "--draft-head", "--max-new-tokens", "8")
    return seeds


def _write(path: Path, samples: list[dict[str, str]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in samples), encoding="utf-8")


def _recipe(seeds: Seeds) -> str:
    return f"""\
name: small
description: the whole chain on a few samples
data: {{path: {seeds.folder}}}
steps:
  look: {{command: analyze, tokenizer: {seeds.base}, limit: 12}}
  tokens: {{command: augment, tokenizer: {seeds.base}, budget: 5, limit: 12}}
  tuned:
    {{command: finetune, model: {seeds.base}, augmented: tokens, merge: true, epochs: 1, limit: 12}}
  proof:
    command: bench
    models: [{seeds.base}, tuned]
    methods: [ar, tasc-spec:budget=12]  # adaptive drafts depend on the time
    limit: 2
    max_new_tokens: 8
    warmup: 0
"""


def _tasc(*arguments: object) -> None:
    command = [sys.executable, "-m", "tasc_cli.main", *map(str, arguments)]
    subprocess.run(command, check=True, capture_output=True)
