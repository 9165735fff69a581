"""Compare tasc-spec with each of its sources alone, by what is known of a task.

The kinds are copying, few outputs, outputs of another task, and no outputs. Reference outputs are
simulated as in ``peers``, with a new drafter for each line. The single sources do not learn while
they decode.
Usage: python -m benchmarks.drafting.sources --data-dir DIR [--split validation] [--json F]
"""

import random
import re
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.drafting.peers import BUDGETS, UNCUT
from benchmarks.figures import publish, script
from tasc.data.corpus import Corpus, load
from tasc.data.source import Source
from tasc.decoding.drafters import Resources, parse
from tasc.decoding.simulate import References, simulate
from tasc.errors import InputError
from tasc.tokenizer.loaded import LoadedTokenizer, load_tokenizer

BEFORE = "adapt=false,match=false,min_probability=0.05"
PARTS = (
    f"tasc-spec:{BEFORE}",
    f"corpus:{BEFORE}",
    f"prompt:{BEFORE}",
    "suffix",
    "prompt-lookup:chain=0",
)
PAIRS = 3000  # of sentences with and without a typo, as corpus


@dataclass(frozen=True)
class Replay:
    """Prompts and outputs of a task, and the outputs that drafters know."""

    kind: str
    task: str
    prompts: Sequence[str]
    outputs: Sequence[str]
    known: Sequence[str]


def replays(data: Path, split: str, rows: int) -> Iterator[Replay]:
    """Yield the replays of all kinds, from the first ``rows`` rows of ``split``."""

    def read(task: str, part: str) -> Corpus:
        column = {"ud-ewt-pos": "tokens"}.get(task, "input")
        return load(Source(str(data / task), input_column=column), part)

    def of(kind: str, task: str, known: Sequence[str], name: str) -> Replay:
        some = read(task, split)
        return Replay(kind, f"{task}{name}", some.prompts[:rows], some.outputs[:rows], known)

    for task, column in {"gsm8k": "prompts", "medquad": "outputs"}.items():
        texts = [getattr(read(task, part), column) for part in (split, "train")]
        wrong, right = zip(*_misspelt(_sentences(texts[0]), rows), strict=True)
        known = [sentence for _, sentence in _misspelt(_sentences(texts[1]), PAIRS)]
        yield Replay("copying", task, wrong, right, known)
    for task in ("massive-en", "ud-ewt-pos", "wikisql", "text2sql-domains"):
        for count in (30, 100, 1000):
            # drawn, because the files are sorted by topic
            drawn = random.Random(count).sample(list(read(task, "train").outputs), count)
            yield of(f"{count} outputs", task, drawn, "")
    for task, other in {
        "massive-en": "ud-ewt-pos",
        "wikisql": "medquad",
        "gsm8k": "massive-en",
    }.items():
        yield of("another task", task, read(other, "train").outputs, f", of {other}")
    for task in ("gsm8k", "mts-dialog", "text2sql-domains"):
        yield of("no corpus", task, [], "")


def _sentences(texts: Sequence[str]) -> Iterator[str]:
    for text in texts:
        for sentence in re.split(r"(?<=[.?!]) +|\n", text):
            if 8 <= len(sentence.split()) <= 60:
                yield sentence


def _misspelt(sentences: Iterator[str], count: int) -> Iterator[tuple[str, str]]:
    """Yield sentences with two letters of a word exchanged, and the originals."""
    chance = random.Random(0)
    for _, sentence in zip(range(count), sentences, strict=False):
        words = sentence.split(" ")
        long = [i for i, word in enumerate(words) if len(set(word[1:])) > 2]
        if long:
            i = chance.choice(long)
            at = chance.randrange(1, len(words[i]) - 1)
            word = words[i]
            words[i] = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
        yield " ".join(words), sentence


def measure(
    replay: Replay, tokenizer: LoadedTokenizer, methods: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Simulate all methods and budgets; skip methods that need a corpus if there is none."""

    def encode(texts: Sequence[str]) -> list[np.ndarray]:
        return tokenizer.encode(texts).split() if texts else []

    sides = encode(replay.prompts), encode(replay.outputs)
    references = References(*sides, tokenizer.eos_id, max_new_tokens=UNCUT)
    resources = Resources(encode(replay.known), tokenizer.eos_id)
    for budget in BUDGETS:
        for method in methods:
            try:
                found = simulate(parse(method).prepare(resources), references, budget)
            except InputError:
                continue
            yield {
                "kind": replay.kind,
                "task": replay.task,
                "nodes": budget,
                "method": method,
                "tokens_per_step": round(found.tokens_per_step, 4),
                "drafted_per_step": round(float(found.drafted.mean()), 2),
                "draft_us": round(1e6 * found.draft_seconds / len(found.drafted), 2),
            }


def against_parts(lines: Sequence[dict[str, Any]], default: str) -> list[dict[str, Any]]:
    """Return one line per task and budget: the default, its best part, and their ratio."""
    cells: dict[tuple[str, str, int], dict[str, float]] = {}
    for line in lines:
        key = line["kind"], line["task"], line["nodes"]
        cells.setdefault(key, {})[line["method"]] = line["tokens_per_step"]
    found = []
    for (kind, task, nodes), rates in cells.items():
        best = max((name for name in rates if name in PARTS), key=rates.__getitem__)
        found.append(
            {
                "kind": kind,
                "task": task,
                "nodes": nodes,
                "tasc_spec": rates[default],
                "best_part": best,
                "best_part_tokens_per_step": rates[best],
                "times_best_part": round(rates[default] / rates[best], 4),
            }
        )
    return found


def main() -> None:
    """Measure all replays and print the figures as JSON."""
    parser = script(__doc__, data=True, tokenizer="llama3/tokenizer.model", split="test", rows=200)
    parser.add_argument("--method", default="tasc-spec", help="method to compare with its parts")
    given = parser.parse_args()
    tokenizer = load_tokenizer(str(given.data_dir / "tokenizers" / given.tokenizer))
    lines = [
        line
        for replay in replays(given.data_dir, given.split, given.rows)
        for line in measure(replay, tokenizer, (given.method, *PARTS))
    ]
    cells = against_parts(lines, given.method)
    factors = [cell["times_best_part"] for cell in cells]
    figures = {
        "tokenizer": given.tokenizer,
        "split": given.split,
        "rows": given.rows,
        "least": min(factors),
        "mean": round(statistics.fmean(factors), 4),
        "cells": cells,
        "results": lines,
    }
    publish(figures, given.json)


if __name__ == "__main__":
    main()
