"""A corpus of a few intents and two new tokens for it."""

import json
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np

from tasc.data.corpus import Corpus, Example
from tasc.data.source import Source
from tasc.training.core.batch import Examples
from tests import pico
from tests.options import FinetuneOptions

OBJECTS = ("lights", "radio", "heating", "alarm", "kettle")
PLACES = ("kitchen", "hall", "garage", "attic")
OPTIONS = FinetuneOptions(
    epochs=2.0,
    learning_rate=2e-3,
    batch_size=4,
    effective_batch=8,
    quantize="none",
    dtype="float32",
    device="cpu",
    checkpoint_steps=2,
)


@dataclass(frozen=True)
class Row:
    new_id: int
    base_ids: tuple[int, ...]


ROWS = (Row(320, (5, 6)), Row(321, (7, 8, 9)))


def corpus(copies: int = 1, first: int = 0) -> Corpus:
    """Commands and the slots they hold, one example for each object and position."""
    pairs = list(product(OBJECTS, PLACES))[first:] * copies
    examples = tuple(
        Example(
            f"turn on the {thing} in the {position}",
            f"intent: {thing}_on, slot fills: {{position: {position}}}",
            f"turn on the {thing} in the {position}\n",
        )
        for thing, position in pairs
    )
    return Corpus(Source("made up"), "train", examples, f"{copies} {first}")


def rows(data: Examples) -> list[tuple[np.ndarray, np.ndarray]]:
    """The tokens of each example, and which of them are targets."""
    cuts = data.offsets[1:-1]
    return list(zip(np.split(data.tokens, cuts), np.split(data.targets, cuts), strict=True))


def phrases(base: Path, folder: Path) -> Path:
    """The base's tokenizer with two whole phrases before its pattern, as `pretoken` exports it."""
    content = json.loads((base / "tokenizer.json").read_text())
    vocabulary = content["model"]["vocab"]
    vocabulary |= {"intent:Ġalarm": 320, ",ĠslotĠfills:": 321}
    content["model"]["ignore_merges"] = True
    split = content["pre_tokenizer"]["pretokenizers"][0]
    split["pattern"] = {"Regex": r"intent: alarm|, slot fills:|" + pico.PATTERN}
    (folder / "tokenizer.json").write_text(json.dumps(content))
    (folder / "tokenizer_config.json").write_bytes((base / "tokenizer_config.json").read_bytes())
    return folder
