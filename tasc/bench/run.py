"""One bench from options to results: load, run every cell, describe."""

import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from tasc.bench import lossless, matrix, predict, record, reference
from tasc.bench.options import BenchOptions
from tasc.bench.report import render
from tasc.data.corpus import Corpus
from tasc.data.tokenizer import load_tokenizer
from tasc.environment import environment
from tasc.errors import InputError
from tasc.models.load import load_model
from tasc.models.static import target_for
from tasc.places import resolve_model
from tasc.progress import Progress, silent
from tasc.spec.core.resources import DraftSource, end_ids
from tasc.spec.drafters.hetero.source import load_draft

EXAMPLES = 5


@dataclass(frozen=True)
class BenchReport:
    """The ``results`` as they are saved, and a few decoded examples for the page."""

    results: dict[str, Any]
    examples: list[dict[str, Any]]

    def save(self, folder: Path) -> None:
        """Write report.html."""
        page = render(self.results, self.examples)
        (folder / "report.html").write_text(page, encoding="utf-8")

    def to_dict(self) -> dict[str, Any]:
        """Return the results, as JSON values."""
        return self.results


def bench(
    corpus: Corpus, test: Corpus, options: BenchOptions, progress: Progress = silent
) -> BenchReport:
    """Run all cells and describe them."""
    started = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    models = [_load(text, options) for text in options.models]
    if len({m.label for m in models}) < len(models):
        raise InputError("two models have the same name: tell them apart with --model label=path")
    cells = matrix.run(models, corpus, test, options, progress, _draft(options))
    sampling = options.sampling
    prompts = {m.label: m.encode(test.prompts) for m in models}
    matches = None
    if sampling is None or options.verify == "sampled":
        matches = lossless.matches(cells, prompts, sampled=sampling is not None)
    rows = record.records(cells, matches, test.outputs, options.metrics, options.delimiter)
    own = reference.references(cells, prompts, options, progress)
    results = {
        "task": {
            "source": test.source.path,
            "split": test.split,
            "samples": len(test.examples),
            "corpus_split": corpus.split,
            "corpus_outputs": len(corpus.examples),
            "indexes": list(options.indexes),
            "draft_model": options.draft_model,
        },
        "settings": {
            "dtype": str(next(models[0].target.model.parameters()).dtype).removeprefix("torch."),
            "device": str(models[0].target.device),
            "threads": torch.get_num_threads(),
            "repeats": options.repeats,
            "warmup": options.warmup,
            "max_new_tokens": options.max_new_tokens,
            "batch_size": options.batch_size,
            "sampling": sampling and {**asdict(sampling), "verify": options.verify},
            "graphs": models[0].target.graphs,
            "compiled": options.compile,
        },
        "cells": rows,
        "reference": record.reference_records(own),
        "comparisons": record.comparisons(rows),
        "prediction": predict.predict(cells, corpus, test, options, rows),
        "started": started,
        "command_line": shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "environment": environment(),
    }
    return BenchReport(results, _examples(cells, test))


def _load(text: str, options: BenchOptions) -> matrix.Loaded:
    label, path = resolve_model(text)
    tokenizer = load_tokenizer(path)  # first: it finds out soonest that nothing is there
    model = load_model(path, dtype=options.dtype, device=options.device)
    target = target_for(model, graphs=options.graphs, compiled=options.compile)
    return matrix.Loaded(label, target, tokenizer, end_ids(model, tokenizer.eos_id))


def _draft(options: BenchOptions) -> DraftSource | None:
    if options.draft_model is None:
        return None
    _, path = resolve_model(options.draft_model)
    return load_draft(path, options.dtype, options.device)


def _examples(cells: Sequence[matrix.Cell], test: Corpus) -> list[dict[str, Any]]:
    """Decode the first few outputs of each model's first method."""
    first = matrix.firsts(cells)
    return [
        {
            "sample": i,
            "prompt": example.prompt,
            "reference": example.output,
            "outputs": [
                {"model": label, "text": text, "equal": text.strip() == example.output.strip()}
                for label, cell in first.items()
                for text in [cell.model.tokenizer.decode(cell.runs[0][i].tokens.tolist())]
            ],
        }
        for i, example in enumerate(test.examples[:EXAMPLES])
    ]
