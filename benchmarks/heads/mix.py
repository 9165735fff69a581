"""``mix`` beside its parts: n-grams and a draft head, each alone, on Spec-Bench and HumanEval.

Prompts are decoded as in ``drafting.logits``. ``times`` is the time of autoregressive decoding by
that of the method, over all prompts. Nothing is known but what the run has seen; FR-Spec's tokens
are ranked by what the target was trained on. Usage:

    python -m benchmarks.heads.mix --model DIR --draft-head DIR --corpus DIR --data-dir DATA
        [--temperature T]
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.drafting.logits import (
    NOTHING,
    decode,
    described,
    kinds,
    least_and_mean,
    load_target,
    told,
    turns_script,
)
from benchmarks.figures import publish
from tasc.benchmark.matrix import Loaded
from tasc.data.corpus import load
from tasc.data.source import Source
from tasc.decoding.adaptive import Adaptive, AdaptiveDrafter
from tasc.decoding.drafters import Factory, Resources, parse
from tasc.models.cost import measure
from tasc.models.cost_model import CostModel

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


def main() -> None:
    """Measure and print the figures as JSON."""
    parser = turns_script(__doc__)
    parser.add_argument("--draft-head", type=Path, required=True)
    parser.add_argument("--corpus", type=Path, required=True, help="its outputs rank tokens")
    parser.add_argument("--budgets", type=int, nargs="+", choices=SHAPES, default=list(SHAPES))
    given = parser.parse_args()
    ours = load_target(given)
    known = ours.encode(load(Source(str(given.corpus)), "train").outputs)
    curve = measure(ours.target)
    figures: dict[str, Any] = {
        **told(ours, given),
        "threads": given.threads,
        "prompts": given.prompts,
        "head_shapes": SHAPES,
        "cost_curve_ms": {k: 1000 * s for k, s in zip(curve.sizes, curve.seconds, strict=True)},
        "cells": [],
    }
    methods = {n: prepared(ours, known, n, curve, given.draft_head) for n in given.budgets}
    for kind, prompts in kinds(ours, given):
        for nodes, factories in methods.items():
            found = cell(ours, prompts, factories, nodes, given)
            figures["cells"].append({"kind": kind, "nodes": nodes} | found)
        publish(figures, given.json, quiet=True)  # whole after each kind
    publish(figures | {"summary": summary(figures["cells"])}, given.json)


def prepared(
    ours: Loaded, known: Sequence[np.ndarray], nodes: int, curve: CostModel, head: Path
) -> dict[str, Factory]:
    """Prepare all methods, the head's in the shape of ``nodes``; FR-Spec alone sees ``known``."""
    made: dict[str, Factory] = {}
    for label in ("ar", *SINGLE, *OWN):
        name, _, rest = label.partition(":")
        own = SHAPES[nodes] if name in ("eagle", "fr-spec", "mix") else ""
        method = parse(":".join(filter(None, (name, ",".join(filter(None, (rest, own)))))))
        outputs = known if name == "fr-spec" else [NOTHING] if name == "suffix" else []
        end = ours.end_ids[0]
        make = method.prepare(Resources(outputs, end, target=ours.target, draft_head=head))
        made[label] = held(make, Adaptive(curve)) if method.adaptive else make
    return made


def held(make: Factory, policy: Adaptive) -> Factory:
    """Hold drafters to a policy that they share."""
    return lambda: AdaptiveDrafter(make(), policy)


def cell(
    ours: Loaded,
    prompts: Sequence[np.ndarray],
    factories: dict[str, Factory],
    nodes: int,
    given: argparse.Namespace,
) -> dict[str, Any]:
    """Measure every method on ``prompts``, ``nodes`` a tree."""
    done = decode(ours, prompts, factories, nodes, given)
    methods = {method: described(some, done["ar"]) for method, some in done.items()}
    seconds = {method: sum(one.timeline.total for one in some) for method, some in done.items()}
    for method, found in methods.items():
        found["times"] = seconds["ar"] / seconds[method]
    steps, times = ({m: methods[m][key] for m in methods} for key in ("tokens_per_step", "times"))
    best, fastest = (max(SINGLE, key=of.__getitem__) for of in (steps, times))
    return {
        "best_single": best,
        "always_times_best_single": steps["mix:always=true"] / steps[best],
        "mix_times_best_single": steps["mix"] / steps[best],
        "fastest_single": fastest,
        "mix_times_fastest_single": times["mix"] / times[fastest],
        "methods": methods,
    }


def summary(cells: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Return the least and the mean of the factors over all cells, and the slowest against ar."""
    names = ("always_times_best_single", "mix_times_best_single", "mix_times_fastest_single")
    found = {name: [one[name] for one in cells] for name in names}
    for method in ("mix", "mix:budget=auto"):
        found[f"{method} against ar"] = [one["methods"][method]["times"] for one in cells]
    return least_and_mean(found)


if __name__ == "__main__":
    main()
