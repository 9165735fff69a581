"""One bench from options to results: load, run every cell, describe."""

import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from tasc.bench import lossless, matrix, predict, quality, record, reference
from tasc.data.corpus import Corpus
from tasc.data.tokenizer import load_tokenizer
from tasc.environment import environment
from tasc.errors import InputError
from tasc.models.load import Device, Dtype, load_model
from tasc.models.static import Graphs, target_for
from tasc.places import resolve_model
from tasc.progress import Progress, silent
from tasc.spec.drafters import parse
from tasc.spec.drafters.hetero.source import DraftSource, load_draft

EXAMPLES = 5


@dataclass(frozen=True)
class BenchOptions:
    """What to run and how. ``models`` are folders or Hub ids, each optionally ``label=path``.

    ``indexes`` are folders that tasc index wrote; without any, the corpus is counted here.
    ``draft_heads`` and ``token_counts`` are as in ``Resources``.
    ``draft_model`` is a folder or Hub id for methods with a vocabulary of their own.
    """

    models: tuple[str, ...]
    methods: tuple[str, ...]
    metrics: tuple[str, ...]
    delimiter: str
    dtype: Dtype
    device: Device
    limits: matrix.Limits
    indexes: tuple[str, ...] = ()
    graphs: Graphs = "auto"
    compiled: bool = False
    draft_heads: Sequence[Path] = ()
    token_counts: Path | None = None
    draft_model: str | None = None


def bench(
    corpus: Corpus, test: Corpus, options: BenchOptions, progress: Progress = silent
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Run all cells; return the results as they are saved, and a few examples for the report."""
    quality.check_metrics(options.metrics)
    methods = [parse(text) for text in options.methods]
    started = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    models = [_load(text, options) for text in options.models]
    if len({m.label for m in models}) < len(models):
        raise InputError("two models have the same name: tell them apart with --model label=path")
    cells = matrix.run(
        models,
        methods,
        corpus,
        test,
        options.limits,
        progress,
        indexes=options.indexes,
        draft_heads=options.draft_heads,
        token_counts=options.token_counts,
        draft=_draft(options),
    )
    sampling = options.limits.sampling
    prompts = {m.label: m.encode(test.prompts) for m in models}
    matches = None
    if sampling is None or options.limits.verify == "sampled":
        matches = lossless.matches(cells, prompts, sampled=sampling is not None)
    rows = record.records(cells, matches, test.outputs, options.metrics, options.delimiter)
    own = reference.references(cells, prompts, options.limits, progress)
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
            "repeats": options.limits.repeats,
            "warmup": options.limits.warmup,
            "max_new_tokens": options.limits.max_new_tokens,
            "batch_size": options.limits.batch_size,
            "sampling": sampling and {**asdict(sampling), "verify": options.limits.verify},
            "graphs": models[0].target.graphs,
            "compiled": options.compiled,
        },
        "cells": rows,
        "reference": record.reference_records(own),
        "comparisons": record.comparisons(rows),
        "prediction": predict.predict(cells, corpus, test, options.limits, rows),
        "started": started,
        "command_line": shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "environment": environment(),
    }
    return results, _examples(cells, test)


def _load(text: str, options: BenchOptions) -> matrix.Loaded:
    label, path = resolve_model(text)
    tokenizer = load_tokenizer(path)  # first: it finds out soonest that nothing is there
    model = load_model(path, dtype=options.dtype, device=options.device)
    target = target_for(model, graphs=options.graphs, compiled=options.compiled)
    configured = getattr(model.generation_config, "eos_token_id", None)
    listed = configured if isinstance(configured, list) else [configured]
    ends = dict.fromkeys([tokenizer.eos_id, *(i for i in listed if i is not None)])
    return matrix.Loaded(label, target, tokenizer, tuple(ends))


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
