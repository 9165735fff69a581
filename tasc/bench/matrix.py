"""Models × methods: run every cell on every sample, in turn, so that drift hits all alike."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tasc.data.corpus import Corpus
from tasc.data.tokenizer import LoadedTokenizer
from tasc.errors import InputError
from tasc.models.target import Target
from tasc.progress import Progress, silent
from tasc.spec.decode import Generation, generate
from tasc.spec.drafters import Factory, Method, Resources
from tasc.spec.index import load_index


@dataclass(frozen=True)
class Loaded:
    """A model ready to decode: its target, its tokenizer, and the ids that end an output."""

    label: str
    target: Target
    tokenizer: LoadedTokenizer
    end_ids: tuple[int, ...]

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Return the ids (L_i,) int32 of each text, without special tokens around it."""
        encoded = self.tokenizer.encode(texts)
        return np.split(encoded.tokens, encoded.offsets[1:-1])


@dataclass
class Cell:
    """One model with one method, and what it produced: a list of generations a repeat."""

    model: Loaded
    method: Method
    factory: Factory
    runs: list[list[Generation]] = field(default_factory=list)


@dataclass(frozen=True)
class Limits:
    """How much to run: tokens a sample, repeats of the whole set, samples that warm up first."""

    max_new_tokens: int = 256
    repeats: int = 1
    warmup: int = 3


def run(
    models: Sequence[Loaded],
    methods: Sequence[Method],
    corpus: Corpus,
    test: Corpus,
    limits: Limits,
    progress: Progress = silent,
    *,
    indexes: Sequence[str] = (),
) -> list[Cell]:
    """Decode each prompt of ``test`` with every model and method; drafters know ``corpus``.

    ``indexes`` are folders of saved indexes, each optionally ``name=folder``; they stand for the
    corpus where a method counts n-grams.
    """
    if len({m.label for m in methods}) < len(methods):
        raise InputError("a method is given twice: name each --method once")
    cells = []
    for model in models:
        resources = Resources(
            model.encode(corpus.outputs),
            model.end_ids[0],
            indexes=[load_index(Path(i.rpartition("=")[2]), model.tokenizer) for i in indexes],
            target=model.target,
            cache=Path(os.environ.get("TASC_CACHE") or Path.home() / ".cache" / "tasc"),
            progress=progress,
        )
        cells += [Cell(model, m, m.prepare(resources)) for m in methods]
    prompts = {model.label: model.encode(test.prompts) for model in models}
    for i in range(min(limits.warmup, len(test.examples))):
        for cell in cells:
            _decode(cell, prompts[cell.model.label][i], limits)
    total = limits.repeats * len(test.examples)
    for repeat in range(limits.repeats):
        for cell in cells:
            cell.runs.append([])
        for i in range(len(test.examples)):
            for cell in cells:
                cell.runs[-1].append(_decode(cell, prompts[cell.model.label][i], limits))
            progress("decode", repeat * len(test.examples) + i + 1, total)
    return cells


def _decode(cell: Cell, prompt: np.ndarray, limits: Limits) -> Generation:
    return generate(
        cell.model.target,
        cell.factory(),
        prompt,
        max_new_tokens=limits.max_new_tokens,
        end_ids=cell.model.end_ids,
        budget=cell.method.budget,
    )
