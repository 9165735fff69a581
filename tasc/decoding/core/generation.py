"""The result of decoding one sequence, and a timer of its phases."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated

import numpy as np
from pydantic import PlainSerializer, PlainValidator

# Arrays that are lists in JSON: checkpoints of a bench hold generations.
_AS_LIST = PlainSerializer(np.ndarray.tolist)
Tokens = Annotated[np.ndarray, PlainValidator(partial(np.asarray, dtype=np.int32)), _AS_LIST]
Sources = Annotated[np.ndarray, PlainValidator(partial(np.asarray, dtype=np.uint8)), _AS_LIST]


@dataclass
class Timeline:
    """Seconds of one generation by phase; only ``draft`` includes the prefill's.

    ``steps`` has (draft, forward, verify, commit) of each step. Time in ``on_tokens`` is the
    caller's and does not count.
    """

    prefill: float = 0.0
    draft: float = 0.0
    forward: float = 0.0
    verify: float = 0.0
    commit: float = 0.0
    steps: list[tuple[float, float, float, float]] = field(default_factory=list)

    @property
    def total(self) -> float:
        """Seconds from the prompt to the last token."""
        return self.prefill + self.draft + self.forward + self.verify + self.commit


class PhaseTimer:
    """Seconds of phases that follow one another, from the moment it is made."""

    def __init__(self) -> None:
        self.seconds = {"prefill": 0.0, "draft": 0.0, "forward": 0.0, "verify": 0.0, "commit": 0.0}
        self.begin = time.perf_counter()

    def end(self, phase: str) -> None:
        """End ``phase`` and start the next; a phase may come twice."""
        now = time.perf_counter()
        self.seconds[phase] += now - self.begin
        self.begin = now

    @property
    def total(self) -> float:
        """Seconds since it was made, up to the last ``end``."""
        return sum(self.seconds.values())

    @property
    def forward(self) -> float:
        """Seconds of the forward, and of what follows from it."""
        return self.seconds["forward"] + self.seconds["verify"] + self.seconds["commit"]

    def add_prefill(self, timelines: Sequence[Timeline]) -> None:
        """Share the time of a prefill evenly among the sequences that joined."""
        draft = self.seconds["draft"]
        for timeline in timelines:
            timeline.prefill += (self.total - draft) / len(timelines)
            timeline.draft += draft / len(timelines)

    def add_step(self, timelines: Sequence[Timeline]) -> None:
        """Share the time of a step evenly among the sequences of the batch."""
        phases = ("draft", "forward", "verify", "commit")
        draft, forward, verify, commit = (self.seconds[p] / len(timelines) for p in phases)
        for timeline in timelines:
            timeline.draft += draft
            timeline.forward += forward
            timeline.verify += verify
            timeline.commit += commit
            timeline.steps.append((draft, forward, verify, commit))


@dataclass
class Generation:
    """The tokens of one sequence and how they came about.

    ``tokens`` (T,) int32: without the prompt, with the end token if there is one. The prefill
    commits the first ``prefilled`` ones, steps the others. ``drafted[i]`` and ``accepted[i]`` count
    the nodes drafted and accepted in step i after the prefill. ``finish``: "end" after an end
    token, "stop" after a stop rule, or if a grammar's output is complete and there are no end
    tokens; "length" at the limit, which also cuts a grammar's output. ``sources`` (T,) uint8: as in
    ``ReportsSources``, None if the drafter does not report them. ``probability``: of a chosen label
    among all labels.
    """

    tokens: Tokens
    drafted: list[int] = field(default_factory=list)
    accepted: list[int] = field(default_factory=list)
    timeline: Timeline = field(default_factory=Timeline)
    finish: str = "length"
    sources: Sources | None = None
    probability: float | None = None
    prefilled: int = 1

    @property
    def decoding_steps(self) -> int:
        """Number of forwards that committed tokens, including the prefill."""
        return len(self.accepted) + 1
