"""Times the phases of a decoding step."""

import time
from collections.abc import Sequence

from tasc.decoding.core.generation import Timeline


class PhaseTimer:
    """Seconds of phases that follow one another, from the moment it is made."""

    def __init__(self) -> None:
        """Start the first phase."""
        self.seconds = {"prefill": 0.0, "draft": 0.0, "forward": 0.0, "verify": 0.0, "commit": 0.0}
        self.begin = time.perf_counter()

    def end(self, phase: str) -> None:
        """End ``phase`` and start the next; a phase may come twice."""
        now = time.perf_counter()
        self.seconds[phase] += now - self.begin
        self.begin = now

    def add_prefill(self, timelines: Sequence[Timeline]) -> None:
        """Share the time of a prefill evenly among the sequences that joined."""
        for timeline in timelines:
            timeline.prefill += self.seconds["prefill"] / len(timelines)
            timeline.draft += self.seconds["draft"] / len(timelines)

    def add_step(self, timelines: Sequence[Timeline]) -> None:
        """Share the time of a step evenly among the sequences of the batch."""
        phases = ("draft", "forward", "verify", "commit")
        shares = [self.seconds[phase] / len(timelines) for phase in phases]
        for timeline in timelines:
            timeline.add(*shares)
