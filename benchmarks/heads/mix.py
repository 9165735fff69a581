"""``mix`` beside its parts: n-grams and a draft head, each alone, on Spec-Bench and HumanEval.

Each prompt is decoded with every method in turn, so that drift of the machine hits all alike; each
output is compared with autoregressive decoding's. ``times`` is the time of autoregressive decoding
by that of the method, over all prompts. Nothing is known but what the run has seen; FR-Spec's
tokens are ranked by what the target was trained on. Usage:

    python -m benchmarks.heads.mix --model DIR --draft-head DIR --corpus DIR --data-dir DATA
        [--temperature T]
"""

import argparse
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.drafting.logits import kinds
from benchmarks.figures import publish, script
from tasc.benchmark.matrix import Loaded
from tasc.data.corpus import load
from tasc.data.source import Source
from tasc.decoding.adaptive import Adaptive
from tasc.decoding.budget import Budgeted
from tasc.decoding.core.sampling import Sampling
from tasc.decoding.decode import Generation, generate
from tasc.decoding.drafters import Factory, Resources, parse
from tasc.decoding.steps import StepStats
from tasc.decoding.verify import verifier
from tasc.models.cost import CostCurve, measure
from tasc.models.load import load_model
from tasc.models.target import Target
from tasc.tokenizer.loaded import load_tokenizer

SHAPES = {12: "depth=4,width=4", 60: "depth=6,width=10"}  # of the head's tree, by nodes
SINGLE = (
    "prompt-lookup:chain=0",
    "suffix",
    "ngram-trie",
    "recycling",
    "tasc-spec",
    "eagle",
    "fr-spec:size=4096",
)
OWN = ("mix", "mix:always=true", "mix:budget=auto")
NOTHING = np.empty(0, np.int32)


def main() -> None:
    """Measure and print the figures as JSON."""
    parser = script(__doc__, data=True, threads=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--draft-head", type=Path, required=True)
    parser.add_argument("--corpus", type=Path, required=True, help="its outputs rank tokens")
    parser.add_argument("--prompts", type=int, default=4, help="of each kind")
    parser.add_argument("--prompt-tokens", type=int, default=300, help="of a prompt, its last ones")
    parser.add_argument("--new-tokens", type=int, default=96)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--budgets", type=int, nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.set_defaults(stories=None, task=None)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    tokenizer, model = load_tokenizer(given.model), load_model(given.model, dtype="float32")
    ours = Loaded("model", Target(model), tokenizer, (tokenizer.eos_id,))
    known = ours.encode(load(Source(str(given.corpus)), "train").outputs)
    curve = measure(ours.target)
    figures: dict[str, Any] = {
        "threads": given.threads,
        "parameters": model.num_parameters(),
        "vocabulary": int(model.config.vocab_size),
        "temperature": given.temperature,
        "new_tokens": given.new_tokens,
        "prompts": given.prompts,
        "head_shapes": SHAPES,
        "cost_curve_ms": {k: 1000 * s for k, s in zip(curve.sizes, curve.seconds, strict=True)},
        "cells": [],
    }
    methods = {n: prepared(ours, known, n, curve, given.draft_head) for n in given.budgets}
    for kind, texts in kinds(given):
        prompts = [p[-given.prompt_tokens :] for p in ours.encode(texts[: given.prompts])]
        for nodes, factories in methods.items():
            found = cell(ours, prompts, factories, nodes, given)
            figures["cells"].append({"kind": kind, "nodes": nodes} | found)
        publish(figures, given.json, quiet=True)  # whole after each kind
    publish(figures | {"summary": summary(figures["cells"])}, given.json)


def prepared(
    ours: Loaded, known: Sequence[np.ndarray], nodes: int, curve: CostCurve, head: Path
) -> dict[str, Factory]:
    """Prepare all methods, the head's in the shape of ``nodes``; FR-Spec alone sees ``known``."""
    made: dict[str, Factory] = {}
    for label in ("ar", *SINGLE, *OWN):
        name, _, rest = label.partition(":")
        own = SHAPES[nodes] if name in ("eagle", "fr-spec", "mix") else ""
        method = parse(":".join(filter(None, (name, ",".join(filter(None, (rest, own)))))))
        outputs = known if name == "fr-spec" else [NOTHING] if name == "suffix" else []
        end = ours.end_ids[0]
        make = method.prepare(Resources(outputs, end, target=ours.target, draft_heads=[head]))
        made[label] = held(make, Adaptive(curve)) if method.adaptive else make
    return made


def held(make: Factory, policy: Adaptive) -> Factory:
    """Hold drafters to a policy that they share."""
    return lambda: Budgeted(make(), policy)


def cell(
    ours: Loaded,
    prompts: Sequence[np.ndarray],
    factories: dict[str, Factory],
    nodes: int,
    given: argparse.Namespace,
) -> dict[str, Any]:
    """Decode ``prompts`` with every method in turn, ``nodes`` a tree."""
    done: dict[str, list[Generation]] = {method: [] for method in factories}
    generate(ours.target, factories["ar"](), prompts[0], max_new_tokens=8)  # warms up
    for seed, prompt in enumerate(prompts):
        for method, factory in factories.items():
            rules: dict[str, Any] = {"max_new_tokens": given.new_tokens, "end_ids": ours.end_ids}
            if given.temperature:
                rules["verify"] = verifier("sampled", Sampling(given.temperature, seed=seed))
            done[method].append(generate(ours.target, factory(), prompt, budget=nodes, **rules))
    found = {method: described(some, done["ar"]) for method, some in done.items()}
    steps, times = ({m: found[m][key] for m in found} for key in ("tokens_per_step", "times"))
    best, fastest = (max(SINGLE, key=of.__getitem__) for of in (steps, times))
    return {
        "best_single": best,
        "always_times_best_single": steps["mix:always=true"] / steps[best],
        "mix_times_best_single": steps["mix"] / steps[best],
        "fastest_single": fastest,
        "mix_times_fastest_single": times["mix"] / times[fastest],
        "methods": found,
    }


def described(done: Sequence[Generation], plain: Sequence[Generation]) -> dict[str, Any]:
    """Return the figures of a method, beside autoregressive generations of the same prompts."""
    pairs = list(zip(done, plain, strict=True))
    drafting = [step[0] for one in done for step in one.timeline.steps]
    seconds, without = (sum(one.timeline.total for one in some) for some in (done, plain))
    return {
        "tokens_per_step": StepStats.of(done).tokens_per_step,
        "tokens_a_second": sum(len(one.tokens) for one in done) / seconds,
        "times": without / seconds,
        "draft_us": 1e6 * statistics.median(drafting) if drafting else 0.0,
        "equal_to_ar": sum(a.tokens.tolist() == b.tokens.tolist() for a, b in pairs),
        "outputs": len(done),
    }


def summary(cells: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Return the least and the mean of the factors over all cells, and the slowest against ar."""
    names = ("always_times_best_single", "mix_times_best_single", "mix_times_fastest_single")
    found = {name: [one[name] for one in cells] for name in names}
    for method in ("mix", "mix:budget=auto"):
        found[f"{method} against ar"] = [one["methods"][method]["times"] for one in cells]
    return {
        f"{of} {name}": value
        for name, some in found.items()
        for of, value in (("least", min(some)), ("mean", statistics.fmean(some)))
    }


if __name__ == "__main__":
    main()
