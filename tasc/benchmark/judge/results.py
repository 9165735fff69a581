"""What a judge leaves: ``judge.json``, typed."""

from typing import Literal

from tasc.benchmark.load.results import Endpoint
from tasc.benchmark.results.comparisons import CellName
from tasc.benchmark.results.conditions import RunResult
from tasc.benchmark.results.record import Interval, Record


class JudgeSettings(Record):
    """How the judge was asked; always with temperature 0."""

    domain: str
    """Of the task, as the judge was told; empty where it was told none."""
    instruction: str
    """What the task asks of a model, as the judge was told."""
    show_reference: bool
    """Whether the judge knew the expected outputs."""
    max_new_tokens: int
    """``max_tokens`` of a request."""
    seed: int
    """Of the samples that a limit left, and of the order of the answers."""


class Judgement(Record):
    """The answers of all models to one prompt, judged in one order."""

    models: tuple[str, ...]
    """In the order of their answers."""
    replies: tuple[str, ...]
    """What the judge wrote: once, or twice where the first held no scores."""
    error: str
    """Why the last request failed; empty where it did not."""
    scores: tuple[int, ...] | None
    """From 1 to 4, in the order of ``models``; None where no reply held them."""

    def score(self, model: str) -> int:
        """Return that of a model; there must be scores."""
        assert self.scores is not None
        return self.scores[self.models.index(model)]


class JudgedSample(Record):
    """One prompt."""

    id: str
    """As in the results that were judged."""
    judgements: tuple[Judgement, Judgement]
    """In an order that was drawn, and in the reverse."""

    @property
    def complete(self) -> bool:
        """Whether both have scores."""
        return all(judgement.scores for judgement in self.judgements)


class ModelScores(CellName):
    """The scores of a model's first method, over the samples that were judged in both orders."""

    mean: float | None
    """Over samples, of the mean of both orders; None where no sample was judged."""
    sd: float | None
    """Standard deviation of the same; None with fewer than two samples."""
    shares: tuple[float, float, float, float] | None
    """Of the scores 1, 2, 3 and 4, in both orders together."""
    same_in_both_orders: float | None
    """Share of samples with the same score in both orders."""


class JudgePair(Record):
    """Two models on the same samples."""

    model: str
    against: str
    difference: float
    """Mean score less that of the other."""
    interval: Interval
    """95 %, paired bootstrap over samples; None below 10 samples."""
    better: int
    """Samples whose score is above the other's, by the mean of both orders."""
    worse: int
    equal: int
    same_in_both_orders: float
    """Share of samples where both orders prefer the same model, or none."""


class JudgeResults(RunResult):
    """Outputs of a bench, scored by a language model."""

    version: Literal[1] = 1
    """Of this format."""
    results: str
    """What was judged."""
    source: str
    """Folder, file, or Hub id that the prompts are from."""
    judge: Endpoint
    settings: JudgeSettings
    complete: int
    """Samples judged in both orders: all figures are theirs."""
    asked: int
    """Judgements requested, two a sample."""
    unparsed: int
    """Of these, those whose replies held no scores, both times."""
    failed: int
    """Of these, those whose last request failed."""
    models: tuple[ModelScores, ...]
    pairs: tuple[JudgePair, ...]
    """Each model against those before it."""
    by_position: tuple[float, ...] | None
    """Mean score of the first, second, … answer: equal where the judge has no position bias."""
    samples: tuple[JudgedSample, ...]
