"""A draft head over the whole vocabulary and over parts of it, on several tasks.

Each prompt is decoded with every method in turn, so that drift of the machine hits all alike, and
each output is compared with autoregressive decoding's. Accepted length counts the bonus token;
coverage is the share of committed tokens that the step's draft vocabulary held; the LM head's share
is of the time that drafts take. A weak model that decodes greedily ends in loops, which any
vocabulary covers: ``--repetition-penalty`` keeps it out of them, in every method alike.
Usage: python -m benchmarks.heads --model DIR --draft-head DIR --data-dir DIR [DIR …]
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from transformers import RepetitionPenaltyLogitsProcessor

from benchmarks.drafting.logits import load_target
from benchmarks.figures import publish, script
from benchmarks.heads.cell import Cell
from tasc.benchmark.matrix import Loaded
from tasc.data.corpus import load
from tasc.data.source import Source
from tasc.decoding.decode import generate
from tasc.decoding.drafters import Resources, parse

SIZES = (32768, 16384, 8192, 4096)
METHODS = ["ar", "eagle", *(f"fr-spec:size={size}" for size in SIZES)]
METHODS += ["microspec", "microspec:extension=false", "microspec:context=false"]
METHODS += ["microspec:tree=false"]  # as section 3.2 reads
METHODS += ["microspec:fill=true"]  # short prompts do not fill a window
METHODS += ["microspec:k_pre=64,k_ver=64"]  # a weak model has more candidates
METHODS += ["microspec:frequent=2048"]
METHODS += ["microspec:k_pre=16,k_ver=16,frequent=2048"]


def main() -> None:
    """Measure, and print the figures as JSON."""
    parser = script(__doc__, threads=True, model=str, new_tokens=64, repetition_penalty=1.0)
    parser.add_argument("--draft-head", type=Path, required=True)
    parser.add_argument("--data-dir", type=Path, nargs="+", required=True)
    parser.add_argument("--corpus", type=Path, required=True, help="its outputs rank tokens")
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--prompts", type=int, default=8, help="of each folder")
    options = parser.parse_args()
    ours = load_target(options)
    model = ours.target.model
    corpus = ours.encode(load(Source(path=str(options.corpus)), "train").outputs)
    resources = Resources(
        corpus, ours.end_ids[0], target=ours.target, draft_head=options.draft_head
    )
    figures: dict[str, Any] = {
        "threads": options.threads,
        "parameters": model.num_parameters(),
        "lm_head": list(model.get_output_embeddings().weight.shape),
        "corpus_tokens": sum(len(output) for output in corpus),
        "corpus_distinct": len(np.unique(np.concatenate(corpus))),
        "tasks": {},
    }
    for path in options.data_dir:
        figures["tasks"][path.name] = measure(ours, resources, path, options)
        publish(figures, options.json, quiet=path != options.data_dir[-1])  # whole after each task


def measure(
    ours: Loaded, resources: Resources, folder: Path, options: argparse.Namespace
) -> dict[str, Any]:
    """Decode prompts spread over the test split in ``folder`` with every method."""
    texts = load(Source(path=str(folder)), "test").prompts
    lines = (folder / "test.jsonl").read_text(encoding="utf-8").splitlines()
    spread = [i * len(texts) // options.prompts for i in range(options.prompts)]
    prompts = ours.encode([texts[i] for i in spread])
    kinds = [json.loads(lines[i])["category"] for i in spread]
    methods = [parse(text) for text in options.methods]
    factories = [method.prepare(resources) for method in methods]
    cells = [Cell() for _ in methods]
    penalty = options.repetition_penalty
    common: dict[str, Any] = {
        "end_ids": ours.end_ids,
        "processors": [RepetitionPenaltyLogitsProcessor(penalty)] if penalty != 1 else [],
    }
    for method, factory in zip(methods, factories, strict=True):  # warms up
        generate(ours.target, factory(), prompts[0], max_new_tokens=8, budget=method.budget)
    for prompt in prompts:
        for method, factory, cell in zip(methods, factories, cells, strict=True):
            limits = {"max_new_tokens": options.new_tokens, "budget": method.budget}
            cell.run(ours, factory(), prompt, **common, **limits)
    return {
        method.label: cell.describe(cells[0].done, kinds)
        for method, cell in zip(methods, cells, strict=True)
    }


if __name__ == "__main__":
    main()
