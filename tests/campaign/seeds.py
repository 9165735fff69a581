"""The good inputs that a campaign damages: a task, models, and an artefact of each kind."""

import shutil
from dataclasses import dataclass, fields
from pathlib import Path

from tests.campaign.process import prepare, run
from tests.pico import TEXTS, make_base
from tests.recipes import write

ROWS = 24


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
    recipe: Path  # base, analyze, augment, finetune, bench on ``folder``


def rows(start: int = 0) -> list[dict[str, str]]:
    """Return ROWS samples: prompts, and outputs that share n-grams."""
    pairs = [text.split("\n") for text in TEXTS]
    chosen = [pairs[i % len(pairs)] for i in range(start, start + ROWS)]
    return [{"input": f"{i} {a}", "output": b} for i, (a, b) in enumerate(chosen, start)]


def make(home: Path) -> Seeds:
    """Make all of them below ``home``, by the command line itself."""
    names = {"task": "task.jsonl", "folder": "splits", "recipe": "recipe.yaml"}
    seeds = Seeds(**{f.name: home / names.get(f.name, f.name) for f in fields(Seeds)})
    write(seeds.task, rows())
    make_base(seeds.base)
    for i, split in enumerate(("train", "validation", "test")):
        write(seeds.folder / f"{split}.jsonl", rows(i))
    seeds.tokenizer.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(seeds.base / name, seeds.tokenizer)
    seeds.recipe.write_text(_recipe(seeds), encoding="utf-8")
    tokenizer = (seeds.task, "--tokenizer", seeds.tokenizer)
    finetune = ("finetune", seeds.task, "--model", seeds.base, "--epochs", "1", "--limit", "12")
    for output, command in {
        seeds.index: ("index", *tokenizer),
        seeds.augmented: ("augment", *tokenizer, "--budget", "5"),
        seeds.finetuned: (*finetune, "--augmented", seeds.augmented, "--merge"),
        seeds.head: (*finetune, "--draft-head", "--max-new-tokens", "8"),
    }.items():
        prepare(home / "sandbox")
        ended = run([*map(str, command), "--output", str(output)], home / "sandbox")
        assert ended.code == 0, ended.err
        shutil.rmtree(home / "sandbox")
    return seeds


def _recipe(seeds: Seeds) -> str:
    return f"""\
name: small
description: the whole chain on a few samples
data: {{path: {seeds.folder}}}
seed: 3
steps:
  made: {{command: base, preset: pico, vocabulary: 300, block: 32, epochs: 0.2, limit: 12}}
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
