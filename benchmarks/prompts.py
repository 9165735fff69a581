"""Compare the prompt that ``tasc init`` chooses with the bare input and with prompts by hand.

A cell is a model and a task. The model is trained on the same few examples with each prompt, and
decodes the same held-out inputs. ``--lines`` gets a line of JSON after each training, and a later
run continues behind it, so that a run can be stopped at any time.

Usage: python -m benchmarks.prompts --models FOLDER --data-dir FOLDER --lines FILE --json FILE
"""

import gzip
import json
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import numpy as np
import torch
from transformers import PreTrainedModel, Qwen3Config, Qwen3ForCausalLM

import tasc
from benchmarks.figures import publish, script
from benchmarks.head_tasks import training_rows, write_rows
from benchmarks.task import by_us
from tasc.benchmark.metrics import find
from tasc.commands.starter.model import parameters_of
from tasc.commands.starter.prompts import BARE, written
from tasc.commands.starter.trial import choose, output_losses
from tasc.data.source import Source
from tasc.decoding.drafters import Resources, parse
from tasc.models.targets.fastest import target_for
from tasc.tokenizer.loaded import load_tokenizer
from tasc.training import base
from tasc.training.core.batch import encode_examples
from tasc.training.finetuned import FinetuneResult

CHOSEN, DEFAULT = "chosen", "bare"  # by ``tasc init``; the input alone
_SHOWN_TO_INIT = 400  # training examples that ``tasc init`` chooses with
_MASKED = "<*>"
_CHAT = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
_SMOLLM2, _GEMMA, _QWEN3 = "smollm2", "gemma", "qwen3"
_MINUTES = 2.0  # of training the small model of Qwen3's shape

Pair = tuple[str, str]
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Task:
    """Inputs and outputs of a data set, as a user would name them."""

    data: str  # folder of the data set
    kind: str
    columns: Pair  # the names of input and output
    metric: str
    pair: Callable[[Row], Pair]
    by_hand: Pair  # prompts: labels, and an instruction
    new_tokens: int
    longest: int = 240  # characters of an input and its output
    delimiter: str = "; "


@dataclass(frozen=True)
class Cell:
    """A model, a task, and how the model is trained."""

    model: str
    task: str
    examples: int = 64
    epochs: float = 2.0
    training: Mapping[str, Any] = field(default_factory=lambda: {"learning_rate": 1e-3})
    tested: int = 60  # held-out inputs

    @property
    def name(self) -> str:
        return f"{self.model}, {self.task}"


def _masked(row: Row) -> Pair:
    """Return a sentence, and the same with each name masked, as in templates of log lines."""
    words, tags = row["tokens"], row["output"].split()
    pairs = zip(words, tags, strict=True)
    return " ".join(words), " ".join(_MASKED if tag == "PROPN" else word for word, tag in pairs)


def _as_json(row: Row) -> Pair:
    slots = [{"name": name, "value": value} for name, value in row["slots"]]
    return row["input"], json.dumps({"intent": row["intent"], "slots": slots})


TASKS = {
    "labels": Task(
        "medquad",
        "labels",
        ("question", "kind"),
        "exact_match",
        lambda row: (row["input"], row["qtype"]),
        (
            "Question: {input}\nKind of question: ",
            "Name the kind of this medical question.\n\n{input}\n\nKind: ",
        ),
        16,
    ),
    "intents": Task(
        "massive-en",
        "labels",
        ("command", "intent"),
        "exact_match",
        lambda row: (row["input"], row["intent"]),
        (
            "Command: {input}\nIntent: ",
            "Classify the intent of this voice command.\n\n{input}\n\nIntent: ",
        ),
        16,
    ),
    "slots": Task(
        "massive-en",
        "slot filling",
        ("command", "slots"),
        "slot_f1",
        lambda row: (row["input"], row["output"]),
        (
            "Command: {input}\nAnnotation: ",
            "Write the intent and the slots of this voice command.\n\n{input}\n\n",
        ),
        64,
    ),
    "json": Task(
        "massive-en",
        "JSON",
        ("command", "json"),
        "json_f1",
        _as_json,
        (
            "Command: {input}\nJSON: ",
            "Write the intent and the slots of this voice command as JSON.\n\n{input}\n\n",
        ),
        96,
    ),
    "sql": Task(
        "text2sql-domains",
        "SQL",
        ("question", "sql"),
        "sql_exact_match",
        lambda row: (row["input"], row["output"]),
        ("Question: {input}\nSQL: ", "-- {input}\n"),
        128,
    ),
    "queries": Task(
        "wikisql",
        "SQL that copies",
        ("question", "query"),
        "token_accuracy",
        lambda row: (row["input"], row["output"]),
        ("Question: {input}\nSQL: ", "Write SQL for: {input}\n\n"),
        64,
    ),
    "masks": Task(
        "ud-ewt-pos",
        "copying",
        ("sentence", "masked"),
        "token_accuracy",
        _masked,
        (
            "Sentence: {input}\nWithout names: ",
            "Copy this sentence with <*> in the place of each name.\n\n{input}\n\n",
        ),
        48,
        120,
    ),
    "topics": Task(
        "eur-lex",
        "several labels",
        ("title", "topics"),
        "micro_f1",
        lambda row: (row["input"].partition("\n")[0], row["output"]),
        (
            "Title: {input}\nTopics: ",
            "List the topics of this law, separated by semicolons.\n\n{input}\n\n",
        ),
        64,
    ),
}
_SCRATCH: dict[str, Any] = {"adapter": "none", "learning_rate": 1.5e-3}
CELLS = (
    Cell(_QWEN3, "labels", 1000, 3, _SCRATCH, 80),
    Cell(_SMOLLM2, "masks"),
    Cell(_GEMMA, "intents"),
    Cell(_SMOLLM2, "labels"),
    Cell(_QWEN3, "intents", 1000, 3, _SCRATCH, 80),
    Cell(_GEMMA, "queries"),
    Cell(_SMOLLM2, "json"),
    Cell(_QWEN3, "sql", 600, 3, _SCRATCH),
    Cell(_GEMMA, "topics"),
)


class Lines:
    """The lines of a file: one for each finished training, and for each choice of a prompt."""

    def __init__(self, path: Path) -> None:
        self._path = path
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        self._lines: list[dict[str, Any]] = [json.loads(line) for line in text.splitlines()]

    def of(self, cell: Cell, work: str, measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return the figures of a cell's ``work``; measure them if no line has them."""
        sizes = {"examples": cell.examples, "epochs": cell.epochs, "tested": cell.tested}
        key = {"cell": cell.name, "work": work} | sizes
        for line in self._lines:
            if key.items() <= line.items():
                return line
        begin = time.process_time()
        line = key | measure()
        line["processor_seconds"] = round(time.process_time() - begin, 1)
        self._lines.append(line)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        return line


def main() -> None:
    """Measure one cell after the other, and write the finished ones after each."""
    parser = script(__doc__, data=True, threads=True, models=Path, lines=Path)
    parser.add_argument("--only", nargs="*", help="numbers of the cells, from 1")
    options = parser.parse_args()
    lines = Lines(options.lines)
    work = options.lines.parent / "prompts"
    finished: dict[str, Any] = {}
    for number, cell in enumerate(CELLS, start=1):
        if options.only and str(number) not in options.only:
            continue
        model = options.models / cell.model
        if cell.model == _QWEN3:
            model = work / "qwen3"
            _small_model(model, options.data_dir, options.threads)
        finished[cell.name] = measured(cell, model, options.data_dir, work, lines)
        publish({"threads": options.threads, "cells": finished}, options.json, quiet=True)
        sys.stderr.write(f"{cell.name}: {json.dumps(finished[cell.name]['prompts'])}\n")


def measured(cell: Cell, model: Path, data: Path, work: Path, lines: Lines) -> dict[str, Any]:
    """Choose a prompt, train with each prompt, and return the figures of a cell."""
    task = TASKS[cell.task]
    train, test = pairs(data, task, max(_SHOWN_TO_INIT, cell.examples), cell.tested)
    choice = lines.of(cell, "choice", partial(_choice, model, task, train[:_SHOWN_TO_INIT]))
    rivals = dict(_rivals(cell.model, task, choice["template"]))
    prompts = {DEFAULT: BARE, CHOSEN: choice["template"]} | rivals
    figures: dict[str, dict[str, Any]] = {}
    trained: dict[str, dict[str, Any]] = {}
    for name, template in prompts.items():
        if template not in trained:
            path = work / f"{cell.model}-{cell.task}.jsonl"
            rows = [dict(zip(task.columns, pair, strict=True)) for pair in train[: cell.examples]]
            write_rows(path, rows, chat=False)
            step = _step(cell, model, path, template)
            train_it = partial(_trained, step, task, train[: cell.examples], test)
            trained[template] = lines.of(cell, template, train_it)
        figures[name] = {"prompt": template} | {
            name: trained[template][name] for name in ("exact_match", "metric", "nats")
        }
    best = max(figure["metric"] for figure in figures.values())
    return {
        "kind": task.kind,
        "data": task.data,
        "metric": task.metric,
        "examples": cell.examples,
        "epochs": cell.epochs,
        "tested": len(test),
        "chosen": choice["template"],
        "below_best": best - figures[CHOSEN]["metric"],
        "above_default": figures[CHOSEN]["metric"] - figures[DEFAULT]["metric"],
        "by_hand": max(figures[name]["metric"] for name in rivals),
        "tried": choice["tried"],
        "prompts": figures,
    }


def pairs(data: Path, task: Task, count: int, tested: int) -> tuple[list[Pair], list[Pair]]:
    """Return ``count`` short training pairs with different inputs, and ``tested`` other ones."""
    chosen: list[list[Pair]] = []
    seen: set[str] = set()
    for split, most in ("train", count), ("test", tested):
        rows = list(_rows(data / task.data, split))
        random.Random(0).shuffle(rows)
        some: list[Pair] = []
        for row in rows:
            text, output = task.pair(row)
            if text not in seen and len(text) + len(output) <= task.longest and len(some) < most:
                seen.add(text)
                some.append((text, output))
        chosen.append(some)
    return chosen[0], chosen[1]


def _rows(folder: Path, split: str) -> Iterator[Row]:
    path = next(folder.glob(f"{split}.jsonl*"))
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


def _step(cell: Cell, model: Path, rows: Path, template: str) -> tasc.FinetuneOptions:
    """Return the training of a cell on a file of rows, with a prompt."""
    columns = dict(zip(("input_column", "output_column"), TASKS[cell.task].columns, strict=True))
    return tasc.FinetuneOptions(
        source=tasc.Data(path=str(rows), template=template, **columns),
        model=str(model),
        epochs=cell.epochs,
        batch_size=4,
        effective_batch=32 if cell.training is _SCRATCH else 4,
        dtype="float32",
        validation=None,
        quantize="none",
        threads=1,
        merge=True,
        checkpoint_steps=0,
        **cell.training,
    )


def _rivals(model: str, task: Task, chosen: str) -> Iterator[Pair]:
    """Yield the names and templates of prompts by hand, as the model was trained with.

    To train large models less often, they get the kind of prompt that was not chosen.
    """
    labels, instruction = task.by_hand
    chat = _CHAT.format(instruction.rstrip())
    if model == _SMOLLM2:
        yield ("labels", labels) if _CHAT[:12] in chosen else ("chat", chat)
    elif model == _GEMMA:
        yield "instruction", f"<bos>{instruction}"
    else:
        yield "labels", labels
        yield "instruction", instruction


def _choice(model: Path, task: Task, train: Sequence[Pair]) -> dict[str, Any]:
    source = Source("prompts", *task.columns)
    tokenizer = load_tokenizer(str(model))
    chosen = choose(
        *(str(model), parameters_of(str(model)), tokenizer, source, train, None, 0),
        lambda *_: None,
    )
    tried = [{"template": one.template, "nats": one.nats} for one in chosen.tried]
    return {"template": chosen.template, "tried": tried, "outputs": chosen.outputs}


def _trained(
    step: tasc.FinetuneOptions, task: Task, train: Sequence[Pair], test: Sequence[Pair]
) -> dict[str, Any]:
    """Train, and return the quality of held-out outputs and their mean loss in nats."""
    result = cast("FinetuneResult", tasc.finetune(step))  # no draft head
    tokenizer, template = result.tokenizer, step.source.template
    model = result.merged().float().eval()
    inputs, references = zip(*test, strict=True)
    prompts = written(template, inputs)
    held_out = encode_examples(tokenizer, prompts, references, 1024)
    losses = output_losses(model, held_out, bfloat16=False)
    outputs = tokenizer.encode([output for _, output in train]).split()
    target = target_for(model)
    factory = parse("tasc-spec").prepare(Resources(outputs, tokenizer.eos_id, target=target))
    asked = tokenizer.encode(prompts).split()
    decoded = by_us(target, factory, asked, 8, new_tokens=task.new_tokens, end=tokenizer.eos_id)
    texts = [
        tokenizer.tokenizer.decode([token for token in tokens if token != tokenizer.eos_id])
        for tokens in decoded
    ]
    scores = {
        name: find(name).score(texts, references, task.delimiter)
        for name in ("exact_match", task.metric)
    }
    return {
        "exact_match": scores["exact_match"],
        "metric": scores[task.metric],
        "nats": round(float(np.mean(losses)), 3),
        "first": texts[:3],
    }


def _small_model(folder: Path, data: Path, threads: int) -> None:
    """Train a model of Qwen3's shape on texts that are not those of its tasks' test splits."""
    if folder.exists():
        return
    texts = folder.parent / "texts.jsonl"
    rows = list(training_rows(data))
    random.Random(0).shuffle(rows)
    write_rows(texts, rows[:6000], chat=False)
    step = tasc.BaseOptions(
        source=str(texts), preset="tiny", minutes=_MINUTES, threads=threads, validation=None
    )
    with patch.object(base, "build", _build):
        tasc.base(step).save(folder)


def _build(
    preset: base.Preset, vocabulary: int, positions: int, seed: int, *, end: int
) -> PreTrainedModel:
    config = Qwen3Config(
        vocab_size=vocabulary,
        hidden_size=preset.hidden,
        intermediate_size=preset.intermediate,
        num_hidden_layers=preset.layers,
        num_attention_heads=preset.heads,
        num_key_value_heads=preset.key_value_heads,
        head_dim=preset.hidden // preset.heads,
        max_position_embeddings=positions,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=end,
        pad_token_id=end,
    )
    torch.manual_seed(seed)
    return Qwen3ForCausalLM(config)


if __name__ == "__main__":
    main()
