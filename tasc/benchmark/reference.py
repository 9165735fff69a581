"""What the first method of each model says, against transformers' own ``generate``.

Methods are compared with their model's first method, which runs on the same loop and the same
attention as all others. So that they cannot all be wrong together, its greedy outputs of a few
prompts are compared with those of code that is not ours.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from transformers import GenerationConfig

from tasc.benchmark.lossless import match
from tasc.benchmark.matrix import Cell, Loaded, decode, firsts
from tasc.benchmark.options import BenchOptions
from tasc.benchmark.results.cells import ReferenceMatch
from tasc.models.folder.quiet import quiet
from tasc.progress import Progress, silent


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
    samples = _samples(prompts)
    some = [prompts[i] for i in samples]
    expected = [generate_reference(cell.model, prompt, options.max_new_tokens) for prompt in some]
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


def _samples(prompts: Sequence[np.ndarray]) -> tuple[int, ...]:
    """Return the first prompt, the shortest and the longest: in a batch, lengths do the harm."""
    lengths = [len(prompt) for prompt in prompts]
    return tuple(sorted({0, int(np.argmin(lengths)), int(np.argmax(lengths))}))


def generate_reference(loaded: Loaded, prompt: np.ndarray, max_new_tokens: int) -> np.ndarray:
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
            out = model.generate(ids, attention_mask=torch.ones_like(ids))
        finally:
            model.generation_config = configured
    added: np.ndarray = out[0, len(prompt) :].cpu().numpy().astype(np.int32)
    return added
