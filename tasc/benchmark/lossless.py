"""Compare outputs that should be equal, and measure the margin at the first difference.

In float32, a method's greedy output equals the model's own output, token for token. So does a
sampled output with the same random numbers. In bfloat16, a tree forward rounds differently from a
one-token forward, which can reverse a near tie. The margin is the gap between the two likeliest
tokens at the first difference: a small margin indicates a near tie.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from tasc.benchmark.matrix import Cell, firsts
from tasc.benchmark.results.cells import Difference, Lossless
from tasc.errors import InputError
from tasc.models.target import Target


def match(
    target: Target,
    prompts: Sequence[np.ndarray],
    expected: Sequence[np.ndarray],
    found: Sequence[np.ndarray],
    against: str,
    *,
    sampled: bool = False,
) -> Lossless:
    """Compare outputs (T_i,) int32 after ``prompts`` (L_i,) int32, both by the model of ``target``.

    ``against`` wrote ``expected``. For each output that differs, run a forward over the prompt and
    the shared tokens, without a tree; skip it if outputs were ``sampled``. Raise InputError if
    there are no prompts, or if the numbers of outputs differ.
    """
    if not prompts or not len(prompts) == len(expected) == len(found):
        raise InputError(
            f"{len(prompts)} prompts, {len(expected)} expected outputs and {len(found)} found "
            "ones: give as many of each, at least one"
        )
    differences = []
    for i, (prompt, a, b) in enumerate(zip(prompts, expected, found, strict=True)):
        if np.array_equal(a, b):
            continue
        shared = min(len(a), len(b))
        unequal = np.flatnonzero(a[:shared] != b[:shared])
        at = int(unequal[0]) if len(unequal) else shared
        margin = None if sampled else _margin(target, np.concatenate([prompt, a[:at]]))
        differences.append(Difference(sample=i, token=at, margin=margin))
    return Lossless(
        against=against,
        identical=len(prompts) - len(differences),
        of=len(prompts),
        match_rate=1 - len(differences) / len(prompts),
        first_difference=differences[0] if differences else None,
        largest_margin=max((d.margin for d in differences if d.margin is not None), default=None),
    )


def matches(
    cells: Sequence[Cell], prompts: Mapping[str, Sequence[np.ndarray]], *, sampled: bool
) -> list[Lossless]:
    """Compare the first run of each cell with that of its model's first cell.

    ``prompts`` maps a model's label to its prompts, each (L_i,) int32.
    """
    first = firsts(cells)
    return [
        match(
            cell.model.target,
            prompts[cell.model.label],
            [g.tokens for g in first[cell.model.label].runs[0]],
            [g.tokens for g in cell.runs[0]],
            first[cell.model.label].method.label,
            sampled=sampled,
        )
        for cell in cells
    ]


def _margin(target: Target, tokens: np.ndarray) -> float:
    largest = target.prefill(tokens, 1)[0].float().topk(2).values
    return float(largest[0] - largest[1])
