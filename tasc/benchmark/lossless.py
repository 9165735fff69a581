"""Compare outputs that should be equal, and measure the margin at the first difference.

In float32, a method's greedy output equals the model's own output, token for token. So does a
sampled output with the same random numbers. In bfloat16 without packed layers, a tree forward
rounds differently from a one-token forward, which can reverse a near tie. The margin, the gap
between the two likeliest tokens at the first difference, is small at a near tie.

So that the methods of a model cannot all be wrong together, greedy outputs of a few prompts are
compared with those that transformers' own ``generate`` writes.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from hashlib import blake2b

import numpy as np
import torch
from transformers import LogitsProcessorList

from tasc.benchmark.matrix import Cell, decode, firsts
from tasc.benchmark.options import BenchOptions
from tasc.benchmark.results.cells import Difference, Lossless, ReferenceMatch
from tasc.decoding.core.draft import Draft
from tasc.decoding.core.grammar import Grammar, Masks
from tasc.decoding.core.protocols import Adjust, Verifier
from tasc.decoding.core.settings import greedy_config
from tasc.decoding.loaded import Loaded
from tasc.decoding.verify.reference import Verified
from tasc.models.folder.quiet import quiet
from tasc.models.target import Target
from tasc.progress import Progress, silent


def match(
    target: Target,
    prompts: Sequence[np.ndarray],
    expected: Sequence[np.ndarray],
    outputs: Sequence[np.ndarray],
    against: str,
    *,
    sampled: bool = False,
) -> Lossless:
    """Compare outputs (T_i,) int32 after ``prompts`` (L_i,) int32, both by the model of ``target``.

    ``against`` wrote ``expected``. For each output that differs, run a forward over the prompt and
    the shared tokens, without a tree; skip it if outputs were ``sampled``.
    """
    differences = []
    for i, (prompt, a, b) in enumerate(zip(prompts, expected, outputs, strict=True)):
        if not np.array_equal(a, b):
            at = _first_difference(a, b)
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


def _first_difference(a: np.ndarray, b: np.ndarray) -> int:
    """Return the first position where outputs differ, or where the shorter one ends."""
    shared = min(len(a), len(b))
    unequal = np.flatnonzero(a[:shared] != b[:shared])
    return int(unequal[0]) if len(unequal) else shared


def _margin(target: Target, tokens: np.ndarray) -> float:
    """Return the gap between the two likeliest tokens after ``tokens`` (T,), in nats."""
    logits = target.prefill(tokens, 1)[0]
    return -float(logits.float().topk(2).values.diff())


def matches(cells: Sequence[Cell], options: BenchOptions) -> list[Lossless]:
    """Compare the first run of each cell with that of its model's first cell.

    The first one and methods that choose among labels are compared with themselves. Where rows
    keep their bits, the logits of a few samples are compared, too.
    """
    first = firsts(cells)
    results = list[Lossless]()
    digests = dict[str, list[bytes]]()  # of the logits of each model's first cell
    for cell in cells:
        label = cell.model.label
        against = cell if cell.method.chooses else first[label]
        target = cell.model.target
        sampled = options.sampling is not None
        expected, outputs = ([g.tokens for g in one.runs[0]] for one in (against, cell))
        result = match(
            target, cell.prompts, expected, outputs, against.method.label, sampled=sampled
        )
        if cell is not against and target.bitwise:
            if label not in digests:
                digests[label] = logits_of(against, options)
            a, b = logits_of(cell, options), digests[label]
            equal = sum(x == y for x, y in zip(a, b, strict=False))
            of = max(len(a), len(b))
            result = result.model_copy(update={"logits_identical": equal, "logits_of": of})
        results.append(result)
    return results


def logits_of(cell: Cell, options: BenchOptions) -> list[bytes]:
    """Decode a few prompts again; return a digest of each committed token's logits (V,)."""
    some = [cell.prompts[i] for i in _varied(cell.prompts)]
    digests: list[list[bytes]] = [[] for _ in some]

    def recording(sample: int, verify: Verifier) -> Verifier:
        def record(draft: Draft, logits: torch.Tensor, adjust: Adjust | None = None) -> Verified:
            path, bonus = verify(draft, logits, adjust)
            for row in (0, *(path + 1).tolist()):
                bits = logits[row].cpu().contiguous().view(torch.uint8).numpy().tobytes()
                digests[sample].append(blake2b(bits, digest_size=16).digest())
            return path, bonus

        return record

    again = replace(cell, policy=cell.policy.fresh())
    generations = decode(again, some, slice(0, len(some)), options, recording)
    return [
        d
        for committed, generation in zip(digests, generations, strict=True)
        for d in committed[: len(generation.tokens)]
    ]


def _varied(prompts: Sequence[np.ndarray]) -> tuple[int, ...]:
    """Return the first prompt, the shortest and the longest: lengths are the risk in a batch."""
    lengths = [len(prompt) for prompt in prompts]
    return tuple(sorted({0, int(np.argmin(lengths)), int(np.argmax(lengths))}))


def references(
    cells: Sequence[Cell], options: BenchOptions, progress: Progress = silent
) -> tuple[ReferenceMatch, ...]:
    """Compare each model's first cell, as it was run, with ``generate``: at most three outputs.

    Sampled outputs are decoded again without sampling, in batches of the same size.
    """
    chosen = [cell for cell in firsts(cells).values() if not cell.method.chooses]
    reference_matches = []
    for done, cell in enumerate(chosen):
        progress("compare with transformers", done, len(chosen))
        reference_matches.append(_reference(cell, options))
    return tuple(reference_matches)


def _reference(cell: Cell, options: BenchOptions) -> ReferenceMatch:
    samples = _varied(cell.prompts)
    some = [cell.prompts[i] for i in samples]
    grammar = cell.resources.grammar
    longest = options.max_new_tokens
    expected = [generate_reference(cell.model, prompt, longest, grammar) for prompt in some]
    if options.sampling is None:
        generations = [cell.runs[0][i] for i in samples]
    else:
        generations = decode(cell, some, slice(0, len(some)), options.greedy())
    outputs = [g.tokens for g in generations]
    result = match(cell.model.target, some, expected, outputs, "transformers generate")
    if first := result.first_difference:
        first = first.model_copy(update={"sample": samples[first.sample]})
    of = {"model": cell.model.label, "method": cell.method.label, "samples": samples}
    return ReferenceMatch(**dict(result) | of | {"first_difference": first})


def _masked(grammar: Grammar, prompt: int, ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    """Mask the scores (1, V) after ``ids`` (1, L), which begin with a ``prompt`` of that length."""
    return Masks(grammar)(ids[0, prompt:].tolist(), scores[0])[None]


def generate_reference(
    loaded: Loaded, prompt: np.ndarray, max_new_tokens: int, grammar: Grammar | None = None
) -> np.ndarray:
    """Return what transformers' greedy ``generate`` adds to ``prompt`` (L,): tokens (T,) int32.

    The model has its own attention meanwhile, and applies its settings as decoding does.
    """
    ids = torch.from_numpy(prompt.astype(np.int64))[None].to(loaded.target.device)
    processors = LogitsProcessorList([partial(_masked, grammar, len(prompt))] if grammar else [])
    with loaded.target.untouched() as model, quiet():
        model.generation_config = greedy_config(loaded.settings, max_new_tokens, loaded.end_ids)
        out = model.generate(ids, attention_mask=torch.ones_like(ids), logits_processor=processors)
    return np.asarray(out[0, len(prompt) :].cpu(), np.int32)
