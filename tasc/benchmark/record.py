"""From generations to figures: one record a cell."""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from os.path import commonprefix
from statistics import median
from typing import Any

import numpy as np

from tasc.benchmark.matrix import Cell
from tasc.benchmark.metrics import score
from tasc.benchmark.results import cells as results
from tasc.decoding.core.protocols import SOURCES
from tasc.decoding.decode import Generation
from tasc.decoding.loaded import Loaded
from tasc.decoding.policy import Policy
from tasc.decoding.steps import StepStats

Span = tuple[int, int, str]
_LONGEST_PERIOD, _REPETITIONS = 16, 3  # tokens, and repetitions, of a loop
PARTS = ("prefill", "draft", "forward", "verify", "commit")


def describe(
    cell: Cell,
    lossless: results.Lossless | None,
    references: Sequence[str],
    metrics: Sequence[str],
    delimiter: str,
) -> results.Cell:
    """Describe a cell.

    ``lossless`` compares it with its model's first method; None if outputs need not be equal.
    """
    outputs = _outputs(cell, references)
    texts = [output.text for output in outputs]
    return results.Cell(
        model=cell.model.label,
        method=cell.method.label,
        shared_prompt_tokens=cell.model.target.shared,
        **_steps(cell.runs[0]),
        **_times(cell.runs),
        **_retokenized(cell, texts),
        rewritten=_rewritten(cell.model, references),
        quality=score(metrics, texts, references, delimiter),
        lossless=lossless,
        outputs=outputs,
        sizing=_sizing(cell.policy),
        calibration_error=calibration_error(outputs, references),
    )


def _steps(generations: Sequence[Generation]) -> dict[str, Any]:
    """Count tokens, forwards and drafts of one repeat: fields of a cell."""
    steps = StepStats.of(generations)
    tokens = sum(len(g.tokens) for g in generations)
    forwards = sum(g.decoding_steps for g in generations)
    return {
        "samples": len(generations),
        "tokens": tokens,
        "tokens_per_output": tokens / len(generations),
        "decoding_steps": forwards,
        "decoding_steps_per_output": forwards / len(generations),
        "tokens_per_step": steps.tokens_per_step,
        "tokens_per_step_interval": steps.interval,
        "accepted_by_position": tuple(steps.accepted_by_position),
        "drafted": int(steps.drafted.sum()),
        "accepted": int(steps.accepted.sum()),
    }


def _times(runs: Sequence[Sequence[Generation]]) -> dict[str, Any]:
    """Return the times of a cell's samples, and of the parts of the loop: fields of a cell."""
    ms = [1000 * median(g.timeline.total for g in sample) for sample in zip(*runs, strict=True)]
    p10, p50, p90 = np.percentile(ms, [10, 50, 90]).tolist()
    return {
        "ms_per_sample": float(np.mean(ms)),
        "ms_per_sample_spread": results.Percentiles(p10=p10, p50=p50, p90=p90),
        "ms_per_sample_by_repeat": tuple(
            1000 * sum(g.timeline.total for g in run) / len(run) for run in runs
        ),
        "tokens_per_second": 1000 * sum(len(g.tokens) for g in runs[0]) / sum(ms),
        "seconds": {
            part: sum(getattr(g.timeline, part) for run in runs for g in run) / len(runs)
            for part in PARTS
        },
    }


def calibration_error(outputs: Sequence[results.Output], references: Sequence[str]) -> float | None:
    """Return the expected calibration error of the outputs' probabilities; None without any.

    Outputs are put into ten bins of equal width by probability. The error is the mean over outputs
    of the gap between a bin's mean probability and its share of right outputs (Guo et al. 2017,
    On Calibration of Modern Neural Networks, arXiv:1706.04599, equation 5).
    """
    sums = np.zeros(10)
    for output, reference in zip(outputs, references, strict=True):
        if output.probability is None:
            return None
        right = output.text.strip() == reference.strip()
        sums[min(int(output.probability * len(sums)), len(sums) - 1)] += right - output.probability
    return float(np.abs(sums).sum() / len(outputs))


def _sizing(policy: Policy) -> results.Sizing | None:
    """Return what an adaptive policy learnt and decided, None for a fixed budget."""
    cost, decided = policy.cost, policy.decided
    if cost is None:
        return None
    return results.Sizing(
        curve_tokens=cost.sizes,
        curve_ms=tuple(1000 * seconds for seconds in cost.seconds),
        curve_found_ms=tuple((1000 * cost.at(cost.sizes)).tolist()),
        drafted=decided["drafted"],
        paused=decided["paused"],
        probes=decided["probed"],
        plain=decided["plain"],
        trials=decided["trial"],
    )


def _outputs(cell: Cell, references: Sequence[str]) -> tuple[results.Output, ...]:
    """Describe each sample, with the text, tokens and steps of the first repeat."""
    decode = cell.model.text
    drafted_from = cell.method.source(cell.resources)
    outputs = []
    for i, runs in enumerate(zip(*cell.runs, strict=True)):
        first = runs[0]
        cut = first.finish == "length"
        spans = list(accepted_spans(first, decode, drafted_from)) if i < results.SHOWN else []
        output = {
            "text": decode(first.tokens),
            "tokens": len(first.tokens),
            "steps": first.decoding_steps,
            "cut": cut,
            "loops": cut and ends_in_loop(first.tokens),
            "reference_tokens": len(cell.model.encode([references[i]])[0]) if cut else None,
            "probability": first.probability,
            "ms": tuple(round(1000 * g.timeline.total, 4) for g in runs),
            "accepted": [(begin, end) for begin, end, _ in spans],
            "sources": [source for *_, source in spans],
        }
        outputs.append(results.Output.model_validate(output))
    return tuple(outputs)


def ends_in_loop(tokens: np.ndarray) -> bool:
    """Return whether tokens (N,) end in a loop: a period of at most 16 tokens, three times or more.

    A loop of a short period lasts for 16 tokens, or from the beginning: three equal tokens alone
    also occur in numbers and rules.
    """
    for period in range(1, _LONGEST_PERIOD + 1):
        tail = tokens[-max(_REPETITIONS * period, _LONGEST_PERIOD) :]
        long = len(tail) >= _REPETITIONS * period
        if long and np.array_equal(tail[period:], tail[:-period]):
            return True
    return False


def accepted_spans(
    generation: Generation, decode: Callable[[list[int]], str], source: str = "other"
) -> Iterator[Span]:
    """Yield where in the decoded text accepted draft tokens stand, and what they were drafted from.

    A span is of one step and one source: ``source`` where the drafter told none. A token that is a
    part of a character counts with the character that it ends.
    """
    tokens = generation.tokens.tolist()
    told = None if generation.sources is None else [SOURCES[i] for i in generation.sources]
    text = decode(tokens)
    at = 0
    for count in (generation.prefilled - 1, *generation.accepted):
        named = ["other"] * count if told is None else told[at : at + count]
        for name, run in groupby(named):
            begin = at
            at += len(list(run))
            pairs = ([text, decode(tokens[:k])] for k in (begin, at))
            spanned = [len(commonprefix(pair)) for pair in pairs]  # noqa: RUF071 - texts, not paths
            if spanned[1] > spanned[0]:
                yield spanned[0], spanned[1], source if name == "other" else name
        at += 1


def _retokenized(cell: Cell, texts: Sequence[str]) -> dict[str, float]:
    """Compare what was written with the tokens that the tokenizer makes of it: fields of a cell."""
    canonical = cell.model.encode(texts)
    ends = cell.model.end_ids
    written = [
        run.tokens[:-1] if np.isin(run.tokens[-1:], ends).any() else run.tokens
        for run in cell.runs[0]
    ]
    same = [np.array_equal(a, b) for a, b in zip(canonical, written, strict=True)]
    return {
        "canonical": float(np.mean(same)),
        "times_canonical_length": sum(map(len, written)) / max(1, sum(map(len, canonical))),
    }


def _rewritten(model: Loaded, references: Sequence[str]) -> int:
    """Count the references that the model cannot write, as its tokenizer changes or ends them."""
    written = map(model.text.writable, model.encode(references))
    pairs = zip(written, references, strict=True)
    return sum(text.strip() != reference.strip() for text, reference in pairs)
