"""Chains of K tokens, which most engines take: ours beside Arctic's and vLLM's, without a model.

Reference outputs are simulated as in ``peers``, with the training outputs as corpus. A
peer stands with each of several settings, ours with its default alone; what is compared is the
expected number of tokens a step, so nobody is asked to leave unlikely tokens out.
Usage: python -m benchmarks.drafting.chains --data-dir DIR [--rows 400] [--json F]
"""

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from importlib import metadata
from typing import Any

import numpy as np

from benchmarks.drafting.peers import Arctic, Lookup, arctic_cache, ours, read, replay_script
from benchmarks.figures import publish
from tasc.decoding.core.draft import Draft, chain
from tasc.decoding.drafters import Factory
from tasc.decoding.simulate import simulate

LENGTHS = (4, 8, 16)
OURS = ("tasc-spec:width=1", "suffix:width=1")
FACTORS = (1.0, 4.0, 60.0)  # tokens that Arctic drafts a matched one, at most; its default is 1
WINDOWS = ((5, 5), (2, 4), (1, 4))  # of vLLM: shortest and longest n-gram; its default is the first


class VllmLookup(Lookup):
    """vLLM's n-gram proposer (V1, ``ngram_proposer.py``), written down from its definition.

    What follows the earliest place of the longest n-gram, of ``least`` to ``most`` tokens, that
    ends the sequence and occurs before.
    """

    def __init__(self, least: int, most: int) -> None:
        """Look for n-grams of so many tokens."""
        self.least, self.most = least, most

    def draft(self, max_nodes: int) -> Draft:
        """Return at most ``max_nodes`` tokens that followed."""
        tokens = self.sequence
        for n in range(min(self.most, len(tokens) - 1), self.least - 1, -1):
            starts = np.arange(len(tokens) - n)  # all but the n-gram itself
            for i in range(n):
                starts = starts[tokens[starts + i] == tokens[len(tokens) - n + i]]
            if len(starts):
                return chain(tokens[starts[0] + n :][:max_nodes].copy())
        return Draft()


def main() -> None:
    """Measure all tasks and print the figures as JSON."""
    given = replay_script(__doc__).parse_args()
    lines = [line for task in given.task for line in measure(task, given)]
    figures = {
        "arctic-inference": metadata.version("arctic-inference"),
        "tokenizer": given.tokenizer,
        "rows": given.rows,
        "cells": list(best_of(lines)),
        "results": lines,
    }
    publish(figures, given.json)


def measure(task: str, given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Simulate every drafter and length on the first rows of a task's test split."""
    known, references = read(task, given)
    end = references.end
    cache = arctic_cache(known, end)
    fresh: dict[str, Callable[[], Factory]] = {text: ours(text, known, end)[0] for text in OURS}
    for factor in FACTORS:
        fresh[f"arctic chain, factor {factor:g}"] = partial(partial, Arctic, cache, False, factor)
    for window in WINDOWS:
        fresh["vllm n-gram, {} to {}".format(*window)] = partial(partial, VllmLookup, *window)
    for length in LENGTHS:
        for name, begin in fresh.items():
            found = simulate(begin(), references, length)
            yield {
                "task": task,
                "tokens": length,
                "drafter": name,
                "tokens_per_step": round(found.tokens_per_step, 4),
                "interval": [round(bound, 4) for bound in found.interval],
                "drafted_per_step": round(float(found.drafted.mean()), 2),
                "draft_us": round(1e6 * found.draft_seconds / len(found.drafted), 2),
            }


def best_of(lines: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield one line a task and length: ours, and each peer with its best setting there."""
    for task, tokens in dict.fromkeys((line["task"], line["tokens"]) for line in lines):
        cell = [line for line in lines if (line["task"], line["tokens"]) == (task, tokens)]
        rates = {line["drafter"]: line["tokens_per_step"] for line in cell}
        arctic, vllm = (
            max(rate for name, rate in rates.items() if name.startswith(peer))
            for peer in ("arctic", "vllm")
        )
        own = rates[OURS[0]]
        yield {
            "task": task,
            "tokens": tokens,
            "tasc_spec": own,
            "arctic": arctic,
            "vllm": vllm,
            "times_best_peer": round(own / max(arctic, vllm), 4),
        }


if __name__ == "__main__":
    main()
