"""Results of benches that nobody ran."""

from typing import Any

from tasc.benchmark.metrics import score
from tasc.benchmark.paired.pairs import comparisons, pairs
from tasc.benchmark.paired.seeds import seeds, seeds_pairs
from tasc.benchmark.results.answers import majority, wrong_outputs
from tasc.benchmark.results.bench import BenchResults
from tasc.benchmark.results.cells import Cell
from tasc.benchmark.results.conditions import Settings
from tasc.environment import environment


def make_cell(**changes: Any) -> Cell:
    """Return figures of one sample that is its reference, but for ``changes``."""
    cell = {
        "model": "m",
        "method": "ar",
        "samples": 1,
        "tokens": 1,
        "tokens_per_output": 1.0,
        "decoding_steps": 1,
        "decoding_steps_per_output": 1.0,
        "ms_per_sample": 1.0,
        "ms_per_sample_spread": {"p10": 1.0, "p50": 1.0, "p90": 1.0},
        "ms_per_sample_by_repeat": (1.0,),
        "tokens_per_second": 1.0,
        "tokens_per_step": 1.0,
        "tokens_per_step_interval": (1.0, 1.0),
        "accepted_by_position": (),
        "drafted": 0,
        "accepted": 0,
        "canonical": 1.0,
        "seconds": dict.fromkeys(("prefill", "draft", "forward", "verify", "commit"), 0.1),
        "lossless": {"against": "ar", "identical": 1, "of": 1, "match_rate": 1.0},
        "quality": {"exact_match": 1.0},
        "outputs": [{"text": "x", "tokens": 1, "steps": 1, "ms": (1.0,)}],
    }
    return Cell.model_validate(cell | changes)


def said(model: str, texts: list[str], ms: list[float], **changes: Any) -> Cell:
    """Return the cell of a model that wrote ``texts``, with the time of each in ``ms``."""
    outputs = [
        {"text": text, "tokens": 2, "steps": round(time), "ms": (time,)}
        for text, time in zip(texts, ms, strict=True)
    ]
    mean, steps = sum(ms) / len(ms), sum(map(round, ms))
    figures = {"ms_per_sample": mean, "ms_per_sample_by_repeat": (mean,), "decoding_steps": steps}
    told = {"model": model, "samples": len(texts), "outputs": outputs, **figures}
    return make_cell(**told | changes)


def make_settings(**changes: Any) -> Settings:
    """Return the settings of a greedy bench of single sequences, but for ``changes``."""
    settings = {
        "dtype": "float32",
        "device": "cpu",
        "threads": 1,
        "repeats": 1,
        "warmup": 0,
        "max_new_tokens": 1,
        "batch_size": 1,
        "turn": 1,
        "sampling": None,
        "graphs": False,
        "compiled": False,
        "seed": 0,
        "metrics": ("exact_match",),
        "delimiter": ";",
    }
    return Settings.model_validate(settings | changes)


def make_results(
    *cells: Cell, references: tuple[str, ...] = ("x",), **changes: Any
) -> BenchResults:
    """Return the results of a bench with these cells; settings may be among ``changes``."""
    metrics = changes.pop("metrics", ("exact_match",))
    prompts = dict(enumerate(changes.pop("prompts", ("p",))))
    task = {
        "source": "s",
        "split": "test",
        "samples": len(references),
        "corpus_split": "train",
        "corpus_outputs": 1,
        "indexes": (),
        "draft_model": None,
    }
    settings = make_settings(metrics=metrics, **changes.pop("settings", {}))
    scored = [
        cell.model_copy(
            update={"quality": score(metrics, [o.text for o in cell.outputs], references, ";")}
        )
        for cell in cells
    ]
    labels = changes.pop("labels", False)
    known = {"train": changes.pop("corpus", ()), "test": references}
    results = {
        "majority": majority(known, references, settings, labels=labels),
        "wrong_outputs": wrong_outputs(scored, references, settings),
        "task": task | changes.pop("task", {}),
        "settings": settings,
        "samples": [
            {"id": f"{i}", "reference": text, "prompt": prompts.get(i)}
            for i, text in enumerate(references)
        ],
        "cells": scored,
        "reference": (),
        "comparisons": comparisons(scored, settings),
        "pairs": pairs(scored, references, settings),
        "seeds": seeds(scored),
        "seeds_pairs": seeds_pairs(seeds(scored)),
        "prediction": {"cells": (), "entropy": None},
        "started": "now",
        "command_line": "tasc bench",
        "environment": environment(),
    }
    return BenchResults.model_validate(results | changes)
