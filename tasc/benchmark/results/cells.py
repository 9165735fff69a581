"""Measurements of a bench: one record per cell."""

from functools import cached_property
from statistics import median
from typing import Literal

import numpy as np
from pydantic import NonNegativeFloat, NonNegativeInt

from tasc.report.record import Record

SHOWN = 100  # samples whose accepted spans are stored, and which a page shows

DraftedFrom = Literal[
    "corpus", "past outputs", "prompt", "logits", "draft model", "draft head", "other"
]


class Output(Record):
    """The output of a cell for one prompt, in the order of ``samples``."""

    text: str
    """Text of the first repeat."""
    tokens: NonNegativeInt
    """Number of tokens, including the end token."""
    steps: NonNegativeInt
    """Number of forwards, including the prefill."""
    cut: bool = False
    """Whether it was cut at ``max_new_tokens``."""
    loops: bool = False
    """Whether it was cut and ends in at least three repetitions of at most 16 tokens."""
    reference_tokens: NonNegativeInt | None = None
    """Tokens of the reference, if the output was cut; None for others."""
    ms: tuple[NonNegativeFloat, ...]
    """Milliseconds of each repeat from the prompt to the last token; in a batch, its share."""
    accepted: tuple[tuple[int, int], ...] = ()
    """Accepted draft tokens in the text, as (begin, end) characters; for the first samples only."""
    score: float | None = None
    """The judge's score from 0 to 1; None without one."""
    sources: tuple[DraftedFrom, ...] = ()
    """Source of each span of ``accepted``; of a mixture, the one with the largest share of its
    probability. "other" if the method does not report sources."""
    probability: float | None = None
    """Of a chosen label among all labels; None for other methods."""


class Difference(Record):
    """The first difference between an output and the expected one."""

    sample: int
    token: int
    margin: float | None
    """Gap between the two likeliest tokens there, in nats; None for sampled outputs."""


class Lossless(Record):
    """Comparison with the outputs of another method, token for token."""

    against: str
    """The other method, or "transformers generate"."""
    identical: int
    of: int
    match_rate: float
    first_difference: Difference | None = None
    largest_margin: float | None = None
    """Largest margin of all first differences, in nats."""
    logits_identical: int | None = None
    """Committed tokens whose logits have the same bits as the other method's, in samples decoded
    again: the first one, the shortest and the longest. None where bits may differ."""
    logits_of: int | None = None

    @property
    def bitwise(self) -> bool:
        """Whether all compared outputs and logits are equal."""
        equal = self.identical == self.of and self.logits_identical == self.logits_of
        return equal and bool(self.logits_of)


class ReferenceMatch(Lossless):
    """A model's first method compared with transformers' own greedy ``generate``."""

    model: str
    method: str
    samples: tuple[int, ...]
    """The samples that were compared."""


class Percentiles(Record):
    """Percentiles over the samples."""

    p10: float
    p50: float
    p90: float


class Sizing(Record):
    """The cost model and the decisions of ``budget=auto``, including warm-up."""

    curve_tokens: tuple[int, ...]
    """Sizes k of forwards, tokens."""
    curve_ms: tuple[float, ...]
    """T(k) in milliseconds, measured before the run."""
    curve_found_ms: tuple[float, ...]
    """T(k) in milliseconds, corrected by the forwards of the run."""
    drafted: NonNegativeInt
    """Steps with a draft."""
    paused: NonNegativeInt
    """Steps without a draft, because earlier drafts cost more than they saved."""
    probes: NonNegativeInt = 0
    """Paused steps that drafted a token without verifying it, to estimate acceptance."""
    plain: NonNegativeInt
    """Steps without a draft, to measure their cost."""
    trials: NonNegativeInt
    """Steps that tried a draft size that was not measured recently."""


class Cell(Record):
    """One model with one method."""

    model: str
    method: str
    samples: int
    tokens: int
    tokens_per_output: float
    shared_prompt_tokens: NonNegativeInt = 0
    """Tokens with which all prompts begin. They were read once, before the measurement."""
    decoding_steps: int
    decoding_steps_per_output: float
    ms_per_sample: float
    """Mean over samples of the median over repeats."""
    ms_per_sample_spread: Percentiles
    ms_per_sample_by_repeat: tuple[float, ...]
    tokens_per_second: float
    tokens_per_step: float
    """Mean number of tokens committed per step after the prefill."""
    tokens_per_step_interval: tuple[float, float]
    """95 % confidence interval, bootstrap over outputs."""
    accepted_by_position: tuple[float, ...]
    """Share of steps that accept at least 1, 2, … draft tokens."""
    drafted: int
    accepted: int
    canonical: float
    """Share of outputs with the tokens that the tokenizer makes of their text. With new tokens, it
    shows how far the model has adopted them."""
    times_canonical_length: float = 1.0
    """Number of output tokens, divided by the number that the tokenizer makes of the same texts."""
    rewritten: NonNegativeInt = 0
    """References that no output can equal: they come back from the tokenizer as other text, or
    contain an end token."""
    seconds: dict[str, float]
    """Seconds of one pass over the samples by part: prefill, draft, forward, verify, commit."""
    quality: dict[str, float]
    """By metric, between 0 and 1."""
    lossless: Lossless | None
    """Comparison with the model's first method; None where outputs differ by chance."""
    outputs: tuple[Output, ...]
    sizing: Sizing | None = None
    """None if the budget is fixed."""
    calibration_error: float | None = None
    """Expected calibration error of the chosen labels' probabilities, in 10 bins."""

    @property
    def label(self) -> str:
        return f"{self.model} · {self.method}"

    @property
    def compared(self) -> bool:
        return self.lossless is not None and self.lossless.against != self.method

    @property
    def chooses(self) -> bool:
        """Whether it chose among labels, so that its outputs are not those of plain decoding."""
        return self.method.partition(":")[0] == "choices"

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(output.text for output in self.outputs)

    @property
    def scores(self) -> tuple[float | None, ...]:
        return tuple(output.score for output in self.outputs)

    @property
    def nodes_per_step(self) -> float:
        """Mean number of draft nodes verified per step after the prefill."""
        steps = self.decoding_steps - self.samples
        return self.drafted / steps if steps else 0.0

    @cached_property
    def sample_ms(self) -> np.ndarray:
        """Milliseconds of each sample (N,): the median over the repeats."""
        return np.array([median(output.ms) for output in self.outputs])

    def speedup(self, base: "Cell") -> float:
        """Return the ratio of the times per sample of ``base`` and of this cell.

        Sampled outputs differ in length by chance, so it is the ratio of tokens per second.
        """
        if self.lossless is None:
            return self.tokens_per_second / base.tokens_per_second
        return base.ms_per_sample / self.ms_per_sample
