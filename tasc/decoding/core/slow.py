"""Whether a slow drafter pays, such as a draft head beside n-grams: measured while decoding."""

import math

import numpy as np

from tasc.decoding.core.account import ALLOWANCE, DECAY, Allowance, Pace, Typical

PRIOR_GAIN = 2.0  # accepted tokens that a slow drafter is assumed to add at first
BINS, PER_TOKEN = 8, 2  # of the expected number of accepted tokens


class SlowDrafts:
    """What slow drafts took and gained. All sequences count.

    A slow draft pays where its gain in expected accepted tokens, at the present pace of decoding,
    is worth more than its time. One that does not seem to pay is tried within ALLOWANCE of the
    time.
    """

    def __init__(self) -> None:
        self.gains, self.drafts = np.zeros(BINS), np.zeros(BINS)  # decayed, by expected tokens
        self.seconds = Typical()  # of one draft
        self.first_seconds = 0.0  # of the last first draft of a sequence, which reads the prompt
        self.pace = Pace()
        self.allowance = Allowance()

    def gain(self, expected: float) -> float:
        """Return the accepted tokens that a slow draft is expected to add to ``expected`` ones."""
        k = _bin(expected)
        mean = (self.gains.sum() + PRIOR_GAIN) / (self.drafts.sum() + 1)
        return float((self.gains[k] + mean) / (self.drafts[k] + 1))

    def pays(self, expected: float, max_seconds: float = math.inf, *, first: bool = False) -> bool:
        """Return whether to make a slow draft, which may take ``max_seconds``.

        The ``first`` draft of a sequence also reads the prompt. That may exceed the limit, but does
        not count in the comparison, as it happens once.
        """
        pace = self.pace.per_token
        if not self.seconds.known:
            limited = 0 < (self.first_seconds or PRIOR_GAIN * pace) < max_seconds
            return limited or max_seconds == math.inf
        if (self.first_seconds if first else self.seconds.value) > max_seconds:
            return False
        if self.gain(expected) * pace > self.seconds.value:
            return True
        return self.allowance.spend(self.seconds.value)

    def record_draft(
        self, before: float, after: float, seconds: float, *, first: bool = False
    ) -> None:
        """Record a slow draft: the expected accepted tokens without and with it, and its time."""
        if first:
            self.first_seconds = seconds
        else:
            self.seconds.add(seconds)
        self.gains *= DECAY
        self.drafts *= DECAY
        self.gains[_bin(before)] += after - before
        self.drafts[_bin(before)] += 1

    def record_step(self, seconds: float, tokens: int, sequences: int = 1) -> None:
        """Record the time of a step of so many ``sequences``, and the tokens that it committed."""
        self.pace.add(seconds, tokens, sequences)
        self.allowance.saved += ALLOWANCE * seconds


def _bin(expected: float) -> int:
    return min(int(PER_TOKEN * expected), BINS - 1)
