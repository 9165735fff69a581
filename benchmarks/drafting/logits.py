"""The target's own logits as a source of drafts, beside methods that need no training either.

Each prompt is decoded with every method in turn, so that drift of the machine hits all alike; each
output is compared with autoregressive decoding's. ``times`` is the median over prompts of the time
against autoregressive decoding: noisy, where tokens a step are not. Without ``--corpus`` nothing is
known but what a run has seen: methods begin anew at each kind of prompts. Usage:

    python -m benchmarks.drafting.logits --model DIR --data-dir DATA [--stories FILE]
        [--task DIR [--corpus]]
"""

import argparse
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.figures import publish, script
from benchmarks.heads.tasks import test_rows
from tasc.benchmark.matrix import Loaded
from tasc.data.corpus import load
from tasc.data.source import Source
from tasc.decoding.core.sampling import Sampling
from tasc.decoding.decode import Generation, generate
from tasc.decoding.drafters import Factory, Resources, parse
from tasc.decoding.steps import StepStats
from tasc.decoding.verify import verifier
from tasc.models.load import load_model
from tasc.models.target import Target
from tasc.tokenizer.loaded import load_tokenizer

BUDGETS = (12, 60)
WITHOUT = "tasc-spec:logits=false"
METHODS = ("ar", "prompt-lookup:chain=0", "suffix", "ngram-trie", WITHOUT, "recycling", "tasc-spec")
OWN = ("ar", WITHOUT, "recycling", "tasc-spec")  # all others are who it is compared with
LEAST = 60  # characters of a line of stories that begins one
OPENING = 40  # characters of it that are the prompt
NOTHING = np.empty(0, np.int32)


def main() -> None:
    """Measure and print the figures as JSON."""
    parser = turns_script(__doc__)
    parser.add_argument("--stories", type=Path, help="a text whose paragraphs begin as prompts")
    parser.add_argument("--task", type=Path, help="a data set to decode instead of Spec-Bench")
    parser.add_argument("--corpus", action="store_true", help="know the task's training outputs")
    parser.add_argument("--budgets", type=int, nargs="+", default=BUDGETS)
    given = parser.parse_args()
    ours = load_target(given)
    known = load(Source(str(given.task)), "train").outputs if given.corpus else []
    outputs = ours.encode(known) if known else []
    figures: dict[str, Any] = {"known_outputs": len(outputs), **told(ours, given), "cells": []}
    for kind, prompts in kinds(ours, given):
        for budget in given.budgets:
            figures["cells"].append(
                {"kind": kind, "nodes": budget} | cell(ours, prompts, outputs, budget, given)
            )
        publish(figures, given.json, quiet=True)  # whole after each kind
    factors = ("times_best_other", "times_without")
    found = {name: [one[name] for one in figures["cells"]] for name in factors}
    publish(figures | {"summary": least_and_mean(found)}, given.json)


def turns_script(about: str | None) -> Any:  # noqa: ANN401
    """Return a parser of what decodes kinds of prompts with several methods in turn."""
    parser = script(about, data=True, threads=True, model=str, new_tokens=96, temperature=0.0)
    parser.set_defaults(stories=None, task=None)
    parser.add_argument("--prompts", type=int, default=4, help="of each kind")
    parser.add_argument("--prompt-tokens", type=int, default=300, help="of a prompt, its last ones")
    return parser


def load_target(given: argparse.Namespace) -> Loaded:
    """Load the model to decode with, on as many threads as --threads says."""
    torch.set_num_threads(given.threads)
    tokenizer = load_tokenizer(given.model)
    target = Target(load_model(given.model, dtype="float32"))
    return Loaded("model", target, tokenizer, (tokenizer.eos_id,))


def told(ours: Loaded, given: argparse.Namespace) -> dict[str, Any]:
    """Return what the figures depend on."""
    return {
        "parameters": ours.target.model.num_parameters(),
        "vocabulary": int(ours.target.model.config.vocab_size),
        "temperature": given.temperature,
        "new_tokens": given.new_tokens,
    }


def kinds(ours: Loaded, given: argparse.Namespace) -> Iterator[tuple[str, list[np.ndarray]]]:
    """Yield kinds of prompts with some of each."""
    for kind, texts in _texts(given):
        some = ours.encode(texts[: given.prompts])
        yield kind, [prompt[-given.prompt_tokens :] for prompt in some]


def _texts(given: argparse.Namespace) -> Iterator[tuple[str, list[str]]]:
    if given.stories:
        lines = given.stories.read_text(encoding="utf-8").splitlines()
        yield "Stories", [line[:OPENING] for line in lines if len(line) >= LEAST]
    if given.task:
        yield given.task.name, load(Source(str(given.task)), "test").prompts
        return
    texts: dict[str, list[str]] = {}
    for name in ("spec-bench", "human-eval"):
        for row in test_rows(given.data_dir, name):
            texts.setdefault(row["category"], []).append(row["input"])
    yield from texts.items()


def cell(
    ours: Loaded,
    prompts: Sequence[np.ndarray],
    outputs: Sequence[np.ndarray],
    budget: int,
    given: argparse.Namespace,
) -> dict[str, Any]:
    """Measure every method on ``prompts``."""
    factories = {method: prepared(method, ours, outputs) for method in METHODS}
    done = decode(ours, prompts, factories, budget, given)
    methods = {method: described(some, done["ar"]) for method, some in done.items()}
    for method, found in methods.items():
        pairs = zip(done[method], done["ar"], strict=True)
        found["times"] = statistics.median(b.timeline.total / a.timeline.total for a, b in pairs)
    rates = {method: found["tokens_per_step"] for method, found in methods.items()}
    best = max((method for method in METHODS if method not in OWN), key=rates.__getitem__)
    return {
        "best_other": best,
        "best_other_tokens_per_step": rates[best],
        "times_best_other": rates["tasc-spec"] / rates[best],
        "times_without": rates["tasc-spec"] / rates[WITHOUT],
        "methods": methods,
    }


def prepared(method: str, ours: Loaded, outputs: Sequence[np.ndarray]) -> Factory:
    """Prepare ``method``; without ``outputs`` suffixes are those of the sequence alone."""
    known = outputs or ([NOTHING] if method == "suffix" else [])
    return parse(method).prepare(Resources(known, ours.end_ids[0], target=ours.target))


def decode(
    ours: Loaded,
    prompts: Sequence[np.ndarray],
    factories: Mapping[str, Factory],
    nodes: int,
    given: argparse.Namespace,
) -> dict[str, list[Generation]]:
    """Decode ``prompts`` with every method in turn, ``nodes`` a tree; "ar" is one of them."""
    done: dict[str, list[Generation]] = {method: [] for method in factories}
    generate(ours.target, factories["ar"](), prompts[0], max_new_tokens=8)  # warms up
    for seed, prompt in enumerate(prompts):
        for method, factory in factories.items():
            rules: dict[str, Any] = {"max_new_tokens": given.new_tokens, "end_ids": ours.end_ids}
            if given.temperature:
                rules["verify"] = verifier("sampled", Sampling(given.temperature, seed=seed))
            done[method].append(generate(ours.target, factory(), prompt, budget=nodes, **rules))
    return done


def described(done: Sequence[Generation], plain: Sequence[Generation]) -> dict[str, Any]:
    """Return the figures of a method, beside autoregressive generations of the same prompts."""
    drafting = [step[0] for one in done for step in one.timeline.steps]
    return {
        "tokens_per_step": StepStats.of(done).tokens_per_step,
        "tokens_a_second": tokens_a_second(done),
        "draft_us": 1e6 * statistics.median(drafting) if drafting else 0.0,
        "equal_to_ar": equal(done, plain),
        "outputs": len(done),
    }


def tokens_a_second(done: Sequence[Generation]) -> float:
    """Return the tokens of all outputs by the time that they took, prefills included."""
    return sum(len(one.tokens) for one in done) / sum(one.timeline.total for one in done)


def equal(done: Sequence[Generation], plain: Sequence[Generation]) -> int:
    """Count the outputs that are the same."""
    return sum(np.array_equal(a.tokens, b.tokens) for a, b in zip(done, plain, strict=True))


def least_and_mean(factors: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Return the least and the mean of each factor over all cells."""
    return {
        f"{of} {name}": value
        for name, some in factors.items()
        for of, value in (("least", min(some)), ("mean", statistics.fmean(some)))
    }


if __name__ == "__main__":
    main()
