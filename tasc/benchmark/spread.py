"""The cells of a bench, loaded here, and slices of its samples decoded wherever an executor runs.

A slice is decoded by one worker with all models and methods, so every ratio of two times is one of
times that were taken on one machine.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import torch
from pydantic import TypeAdapter

from tasc.benchmark import matrix
from tasc.benchmark.options import BenchOptions
from tasc.data.corpus import Corpus
from tasc.decoding.core.generation import Generation
from tasc.decoding.drafters.hetero.source import load_draft
from tasc.decoding.loaded import Loaded, load_ready
from tasc.errors import InputError
from tasc.execution.kept import Files, keep
from tasc.models.load import decoding_dtype
from tasc.options.references import resolve_model
from tasc.progress import Progress, silent

_FILE = "generations.json"
_RUNS = TypeAdapter(list[list[list[Generation]]])  # by cell and repeat


@dataclass(frozen=True, eq=False)
class Bench:
    """The models, methods and samples of a bench; a worker loads the models itself, once."""

    corpus: Corpus
    test: Corpus
    options: BenchOptions
    threads: int

    @cached_property
    def cells(self) -> list[matrix.Cell]:
        """Every cell, which has not run yet, as a worker loads it."""
        torch.set_num_threads(self.threads)
        return self.load()

    def load(self, progress: Progress = silent) -> list[matrix.Cell]:
        options, draft = self.options, None
        if options.draft_model is not None:
            path, dtype = resolve_model(options.draft_model)[1], options.dtype
            draft = load_draft(path, decoding_dtype(dtype, options.device), options.device)
        progress("loading the models", 0, 0)
        models = load_models(options, self.test.end)
        return matrix.prepare(models, self.corpus, self.test, options, progress, draft)


def decode_elsewhere(
    cells: Sequence[matrix.Cell], bench: Bench, work: Path, *, resume: bool, progress: Progress
) -> None:
    """Have the slices decoded by an executor, and add them to the runs of ``cells``, in order.

    ``work`` keeps slices until all are done; those there count if ``resume``.
    """
    options = bench.options
    parts = matrix.cut(slice(0, len(bench.test.examples)), options.slice)
    done: dict[int, Path] = {}
    with options.start(bench, devices=options.device != "cpu") as executor:
        ranges = ((part.start, part.stop) for part in parts)
        for number, folder in keep(executor, _decode, ranges, work / "slices", resume=resume):
            done[number] = folder
            progress("decode slices", len(done), len(parts))
    for cell in cells:
        cell.runs = [[] for _ in range(options.repeats)]
    for number in sorted(done):
        runs_of = _RUNS.validate_json((done[number] / _FILE).read_bytes())
        for cell, runs in zip(cells, runs_of, strict=True):
            for run, generations in zip(cell.runs, runs, strict=True):
                run += generations


def load_models(options: BenchOptions, end: str | None) -> list[Loaded]:
    """Load every model; ``end`` is the token that ends the outputs of a chat."""
    models = []
    for text in options.models:
        model = load_ready(
            text,
            options.dtype,
            options.device,
            end=end,
            graphs=options.graphs,
            kernels=options.kernels,
            compiled=options.compile,
        )
        models.append(model)
    if len({model.label for model in models}) < len(models):
        raise InputError("two models have the same name: tell them apart with --model label=path")
    return models


def _decode(bench: Bench, part: tuple[int, int]) -> Files:
    """Decode a slice, as a worker does; return the generations of each cell and repeat."""
    cells = [replace(cell, runs=[]) for cell in bench.cells]
    matrix.decode_slice(cells, slice(*part), bench.options, {})
    return {_FILE: _RUNS.dump_json([cell.runs for cell in cells])}
