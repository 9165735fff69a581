"""What the decoding loop returns: the tokens of a sequence, and how they came about."""

from dataclasses import dataclass, field
from functools import partial
from typing import Annotated

import numpy as np
from pydantic import PlainSerializer, PlainValidator

# Arrays that are lists in JSON: checkpoints of a bench hold generations.
Tokens = Annotated[
    np.ndarray,
    PlainValidator(partial(np.asarray, dtype=np.int32)),
    PlainSerializer(np.ndarray.tolist),
]
Sources = Annotated[
    np.ndarray,
    PlainValidator(partial(np.asarray, dtype=np.uint8)),
    PlainSerializer(np.ndarray.tolist),
]


@dataclass
class Timeline:
    """Seconds of one generation by part; ``forward`` counts the target's forwards after prefill.

    ``steps`` holds (draft, forward, verify, commit) of each step. Time in ``on_tokens`` counts
    nowhere: it is the caller's.
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

    def add(self, draft: float, forward: float, verify: float, commit: float) -> None:
        """Count one step."""
        self.draft += draft
        self.forward += forward
        self.verify += verify
        self.commit += commit
        self.steps.append((draft, forward, verify, commit))


@dataclass
class Generation:
    """The tokens of one sequence and how they came about.

    ``tokens`` (T,) int32 without the prompt, the end token included when it was produced.
    ``drafted[i]`` and ``accepted[i]`` count the nodes proposed and accepted at step i. The first
    token comes from the prefill, the others from steps. ``finish`` is "end" after an end token,
    "stop" where a stop rule cut, "length" at the limit. ``sources`` (T,) uint8 are the tokens', as
    in ``ReportsSources``; None where the drafter does not tell them.
    """

    tokens: Tokens
    drafted: list[int] = field(default_factory=list)
    accepted: list[int] = field(default_factory=list)
    timeline: Timeline = field(default_factory=Timeline)
    finish: str = "length"
    sources: Sources | None = None

    @property
    def decoding_steps(self) -> int:
        """Target calls that committed tokens, the prefill included."""
        return len(self.accepted) + 1
