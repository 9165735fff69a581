"""Whether drafting pays: one account for the decoding loop and for engine plug-ins.

Time is counted in forwards of the present batch, so that a plug-in needs no clock.
"""

from dataclasses import dataclass

ALLOWANCE = 0.01  # share of autoregressive time that may be spent to find out if drafting pays
CREDIT = 1.0  # forwards that may be spent before anything was saved
SAVINGS = 4.0  # saved forwards that may be spent again
FIRST_PAUSE, LAST_PAUSE = 16, 512  # steps without drafting once the balance is spent
DECAY = 0.98  # of the present pace, per step


class Account:
    """Drafting may spend the time that it saved, and a small allowance.

    ``balance`` is the time saved by drafting against autoregressive decoding, plus ALLOWANCE of
    that time. Once it cannot pay for a draft, drafting pauses, twice as long each time, until a
    draft pays again. So n steps of drafts that all fail cost at most ALLOWANCE · n + CREDIT
    forwards, and the amount by which one draft was dearer than expected.

    While paused, the policy still probes: it spends half of its allowance on drafting tokens that
    are not verified. Once those would have saved CREDIT, the pause ends with a new balance.
    """

    def __init__(self) -> None:
        self.probes = Allowance()
        self.reopen()

    def reopen(self) -> None:
        """Start again: forget losses, pauses and probes."""
        self.balance = CREDIT
        self.pause, self.next_pause = 0, FIRST_PAUSE
        self.drafted = False  # since the last pause
        self.missed = 0.0  # forwards that the probed tokens would have saved

    def is_paused(self) -> bool:
        """Begin a step and return whether it must not draft."""
        paused = self.pause > 0
        self.pause -= paused
        return paused

    def should_probe(self, cost: float) -> bool:
        """Return whether a step without a draft probes; a probe takes ``cost`` forwards."""
        self.probes.saved += ALLOWANCE / 2
        return self.probes.spend(cost)

    def record_probe(self, hits: float, token_cost: float) -> None:
        """Record the share of probed tokens that came, of which each costs ``token_cost``."""
        self.missed = max(self.missed + hits - token_cost, 0.0)
        if self.missed >= CREDIT:
            self.reopen()

    def record(self, saved: float, committed: float, least: float) -> None:
        """Record the forwards that a step saved, and its committed tokens per sequence.

        Below ``least``, drafting pauses.
        """
        self.balance = min(self.balance + saved, SAVINGS)
        if self.balance < CREDIT:
            self.balance = min(self.balance + ALLOWANCE * committed, CREDIT)
        if saved > 0:
            self.next_pause = FIRST_PAUSE
        elif self.pause == 0 and self.balance <= least:
            self.pause = self.next_pause if self.drafted else 1
            if self.drafted:
                self.next_pause = min(2 * self.next_pause, LAST_PAUSE)
            self.drafted = False

    @staticmethod
    def least(token_cost: float) -> float:
        """Return the balance below which nothing is drafted, given the cost of one node."""
        return min(token_cost, CREDIT / 2)


@dataclass
class Allowance:
    """Time set aside for experiments."""

    saved: float = 0.0

    def spend(self, cost: float) -> bool:
        """Spend everything where it covers ``cost``; return whether it did."""
        enough = self.saved >= cost
        if enough:
            self.saved = 0.0
        return enough


@dataclass
class Pace:
    """The present time per token, as a decayed mean over ``time`` and ``tokens``."""

    time: float = 0.0
    tokens: float = 0.0

    def add(self, time: float, tokens: float, sequences: int = 1) -> None:
        """Add a step of ``sequences``, of which each makes older steps count less."""
        decay = DECAY**sequences
        self.time = decay * self.time + time
        self.tokens = decay * self.tokens + tokens

    @property
    def per_token(self) -> float:
        """Time per token; 0 before the first step."""
        return self.time / self.tokens if self.tokens > 0 else 0.0


@dataclass
class Typical:
    """A running median of times, so that other work on the machine is not charged to drafting."""

    value: float = 0.0
    known: bool = False

    def add(self, seconds: float) -> None:
        """Start from the first time; then step a fifth towards each."""
        if not self.known:
            self.value, self.known = seconds, True
        else:
            self.value *= 1.2 if seconds > self.value else 1 / 1.2
