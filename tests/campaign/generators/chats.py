"""Chats of many formats with loss weights and tools, some damaged, in files of each kind."""

import json
import random
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from tasc.data import marks
from tests.campaign.mutate import ODD, dumps, mutate_json
from tests.campaign.seeds import Seeds
from tests.data.random_chats import FORMATS, TEMPLATE, chats

MARK_NAMES = (*sorted(marks.MARKS), "mask", "no_loss", "ignore", "train_on_turn")
MARKS: tuple[Any, ...] = (*(0, 1, 0.0, 1.0, None, True, False, "0", "1", 0.5, -1, "much"), *ODD)
_NAMES = {"role": ("role", "from", "speaker"), "content": ("content", "value", "text", "body")}
_COLUMNS = ("messages", "messages", "conversations", "dialog", "chat")
_UNHELD = (ValueError, OverflowError, TypeError, AttributeError, RecursionError)
_ADDED = ("", "<think>\n", "<think></think>", "{{ strftime_now('%d %b %Y') }}")


def build(rng: random.Random, seeds: Seeds, sandbox: Path) -> list[object]:
    """Write a model whose tokenizer has a template, and chats; return a command that reads both."""
    folder = sandbox / "model"
    shutil.copytree(seeds.base, folder)
    config = folder / "tokenizer_config.json"
    start = "<|im_start|>assistant\n"
    template = TEMPLATE.replace(start + "{% endif %}", start + rng.choice(_ADDED) + "{% endif %}")
    stated = json.loads(config.read_text()) | {"chat_template": template}
    config.write_text(json.dumps(stated))
    rows = [_row(rng, row) for row in chats(rng.choice((1, 3, 40)), rng.randrange(10**6))]
    data = _written(rng, rows, sandbox)
    few = ("--epochs", "1", "--limit", "6", "--max-length", "128")
    return rng.choice(
        [
            ["analyze", data, "--tokenizer", folder],
            ["augment", data, "--tokenizer", folder, "--new-tokens", "auto"],
            ["index", data, "--tokenizer", folder],
            ["finetune", data, "--model", folder, *few],
        ]
    )


def _row(rng: random.Random, row: dict[str, Any]) -> dict[str, Any]:
    """Return a chat with other names, other marks, or a damage."""
    names = {key: rng.choice(names) for key, names in _NAMES.items()}
    if rng.random() < 0.7:
        names = {key: key for key in _NAMES}
    messages = [{names.get(k, k): v for k, v in message.items()} for message in row["messages"]]
    if rng.random() < 0.2:
        rng.choice(messages)[rng.choice(MARK_NAMES)] = rng.choice(MARKS)
    made = {k: v for k, v in row.items() if k != "messages"}
    if rng.random() < 0.1:
        made[rng.choice(MARK_NAMES)] = rng.choice(MARKS)
    made |= {rng.choice(_COLUMNS) if rng.random() < 0.05 else "messages": messages}
    damaged: dict[str, Any] = mutate_json(rng, made) if rng.random() < 0.05 else made
    return damaged


def _written(rng: random.Random, rows: list[dict[str, Any]], sandbox: Path) -> Path:
    name = rng.choice([name for name in FORMATS if name != "typed.parquet"])
    # Arrow cannot hold every row.
    with suppress(pa.ArrowException, *_UNHELD):
        FORMATS[name](rows, sandbox / name)
        return sandbox / name
    lines = sandbox / "lines.jsonl"
    lines.write_text("".join(dumps(row) + "\n" for row in rows), encoding="utf-8")
    return lines
