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
    """Of the first repeat."""
    tokens: NonNegativeInt
    """Number of tokens, including the end token."""
    steps: NonNegativeInt
    """Number of forwards, including the prefill."""
    cut: bool = False
    """Whether it was cut at ``max_new_tokens``."""
    ms: tuple[NonNegativeFloat, ...]
    """Milliseconds of each repeat from prompt to last token; in a batch its share."""
    accepted: tuple[tuple[int, int], ...] = ()
    """Where in the text accepted draft tokens stand, (begin, end) characters; of the first samples
    alone."""
    score: float | None = None
    """The judge's score from 0 to 1; None where there is none."""
    sources: tuple[DraftedFrom, ...] = ()
    """What each of these was drafted from; of a mixture, what most of its probability came from.
    "other" where a method does not tell."""


class Difference(Record):
    """Where an output first parts from the one expected."""

    sample: int
    token: int
    margin: float | None
    """Nats between the two likeliest tokens there; None where tokens were sampled."""


class Lossless(Record):
    """How many outputs are token for token those of another decoding."""

    against: str
    """The method, or "transformers generate"."""
    identical: int
    of: int
    match_rate: float
    first_difference: Difference | None = None
    largest_margin: float | None = None
    """Of all first differences, nats."""


class ReferenceMatch(Lossless):
    """How a model's first method agrees with transformers' own greedy ``generate``."""

    model: str
    method: str
    samples: tuple[int, ...]
    """Those compared."""


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
    """T(k), milliseconds, as measured before."""
    curve_found_ms: tuple[float, ...]
    """The same as the forwards of the run corrected it."""
    drafted: NonNegativeInt
    """Steps of a sequence with a draft."""
    not_worth_it: NonNegativeInt
    """Steps whose draft was dropped: no node of it was worth its time."""
    paused: NonNegativeInt
    """Steps without a draft, as earlier drafts cost more than they saved."""
    probes: NonNegativeInt = 0
    """Paused steps that drafted a token without verifying it, to estimate acceptance."""
    plain: NonNegativeInt
    """Steps without a draft to measure what these cost."""
    trials: NonNegativeInt
    """Steps that drafted as if sizes not seen lately were cheaper."""


class Cell(Record):
    """One model with one method."""

    model: str
    method: str
    samples: int
    tokens: int
    tokens_per_output: float
    decoding_steps: int
    decoding_steps_per_output: float
    ms_per_sample: float
    """Mean over samples of each one's median over repeats."""
    ms_per_sample_spread: Percentiles
    ms_per_sample_by_repeat: tuple[float, ...]
    tokens_per_second: float
    tokens_per_step: float
    """Mean number of tokens committed per step after the prefill."""
    tokens_per_step_interval: tuple[float, float]
    """95 %, bootstrap over outputs."""
    accepted_by_position: tuple[float, ...]
    """Share of steps that accept at least 1, 2, … draft tokens."""
    drafted: int
    accepted: int
    canonical: float
    """Share of outputs in the tokens that the tokenizer makes of their text: with new tokens, how
    far the model has adopted them."""
    times_canonical_length: float | None = None
    """Tokens written, as a multiple of those that the tokenizer makes of the same texts; None in
    results of before."""
    seconds: dict[str, float]
    """Of one pass over the samples: prefill, draft, forward, verify, commit."""
    quality: dict[str, float]
    """By metric, between 0 and 1."""
    lossless: Lossless | None
    """Against the model's first method; None where outputs differ by chance."""
    outputs: tuple[Output, ...]
    sizing: Sizing | None = None
    """None where the budget is fixed."""

    @property
    def label(self) -> str:
        """Name it."""
        return f"{self.model} · {self.method}"

    @property
    def compared(self) -> bool:
        """Whether its outputs were compared with those of another method."""
        return self.lossless is not None and self.lossless.against != self.method

    @property
    def texts(self) -> tuple[str, ...]:
        """Its output for each sample."""
        return tuple(output.text for output in self.outputs)

    @property
    def scores(self) -> tuple[float | None, ...]:
        """The judge's score of each output."""
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
        """Return how many times as fast this is as ``base``, by the time of a sample.

        By tokens per second where outputs are not compared: their lengths differ by chance.
        """
        if self.lossless is None:
            return self.tokens_per_second / base.tokens_per_second
        return base.ms_per_sample / self.ms_per_sample
