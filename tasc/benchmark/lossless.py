"""Compare outputs that should be equal, and measure the margin at the first difference.

In float32, a method's greedy output equals the model's own output, token for token. So does a
sampled output with the same random numbers. In bfloat16, a tree forward rounds differently from a
one-token forward, which can reverse a near tie. The margin is the gap between the two likeliest
tokens at the first difference: a small margin indicates a near tie.

Methods are compared with their model's first method, which runs on the same loop and the same
attention as all others. So that they cannot all be wrong together, its greedy outputs of a few
prompts are compared with those of transformers' own ``generate``.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList

from tasc.benchmark.matrix import Cell, Loaded, decode, firsts
from tasc.benchmark.options import BenchOptions
from tasc.benchmark.results.cells import Difference, Lossless, ReferenceMatch
from tasc.decoding.core.grammar import Grammar, Masks
from tasc.models.folder.quiet import quiet
from tasc.models.target import Target
from tasc.progress import Progress, silent


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
    the shared tokens, without a tree; skip it if outputs were ``sampled``.
    """
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


def references(
    cells: Sequence[Cell],
    prompts: Mapping[str, Sequence[np.ndarray]],
    options: BenchOptions,
    progress: Progress = silent,
) -> tuple[ReferenceMatch, ...]:
    """Compare each model's first cell, as it was run, with ``generate``: at most three outputs.

    ``prompts`` maps a model's label to its prompts, each (L_i,) int32. Sampled outputs are decoded
    again without sampling, in batches of the same size.
    """
    chosen = list(firsts(cells).values())
    found = []
    for done, cell in enumerate(chosen):
        progress("compare with transformers", done, len(chosen))
        found.append(_reference(cell, prompts[cell.model.label], options))
    return tuple(found)


def _reference(cell: Cell, prompts: Sequence[np.ndarray], options: BenchOptions) -> ReferenceMatch:
    # The first prompt, the shortest and the longest: in a batch, different lengths are the risk.
    lengths = [len(prompt) for prompt in prompts]
    samples = tuple(sorted({0, int(np.argmin(lengths)), int(np.argmax(lengths))}))
    some = [prompts[i] for i in samples]
    grammar = cell.resources and cell.resources.grammar
    expected = [
        generate_reference(cell.model, prompt, options.max_new_tokens, grammar) for prompt in some
    ]
    if options.sampling is None:
        made = [cell.runs[0][i] for i in samples]
    else:
        made = decode(cell, some, slice(0, len(some)), options.greedy())
    outputs = [g.tokens for g in made]
    result = match(cell.model.target, some, expected, outputs, "transformers generate")
    if first := result.first_difference:
        first = first.model_copy(update={"sample": samples[first.sample]})
    of = {"model": cell.model.label, "method": cell.method.label, "samples": samples}
    return ReferenceMatch(**dict(result) | of | {"first_difference": first})


class _Masked(LogitsProcessor):
    """Applies a grammar's masks in transformers' ``generate``, for one sequence."""

    def __init__(self, grammar: Grammar, prompt: int) -> None:
        self.grammar, self.prompt = grammar, prompt

    def __call__(self, ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Mask the scores (1, V) after ``ids`` (1, L)."""
        masks = Masks(self.grammar)
        return masks(ids[0, self.prompt :].tolist(), scores[0])[None]


def generate_reference(
    loaded: Loaded, prompt: np.ndarray, max_new_tokens: int, grammar: Grammar | None = None
) -> np.ndarray:
    """Return what transformers' greedy ``generate`` adds to ``prompt`` (L,): tokens (T,) int32.

    The model has its own attention meanwhile; penalties of its generation config do not count.
    """
    ids = torch.from_numpy(prompt.astype(np.int64))[None].to(loaded.target.device)
    plain = GenerationConfig(
        do_sample=False,
        max_new_tokens=max_new_tokens,
        eos_token_id=list(loaded.end_ids),
        pad_token_id=loaded.end_ids[0],
    )
    with loaded.target.untouched() as model, quiet():
        configured, model.generation_config = model.generation_config, plain
        try:
            processors = LogitsProcessorList([_Masked(grammar, len(prompt))] if grammar else [])
            out = model.generate(
                ids, attention_mask=torch.ones_like(ids), logits_processor=processors
            )
        finally:
            model.generation_config = configured
    added: np.ndarray = out[0, len(prompt) :].cpu().numpy().astype(np.int32)
    return added
