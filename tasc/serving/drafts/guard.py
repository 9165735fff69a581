"""Whether the sequences of a step should draft, and how much: by what drafts brought so far.

Nothing here looks at a clock: with the same requests in the same order, drafts are the same. Time
is counted in forwards of the present batch, by T(k) or by one number that stands for it.
"""

from collections.abc import Mapping
from functools import cache

import numpy as np

from tasc.errors import InputError

ALLOWANCE = 0.01  # of the forwards without drafts, to find out whether drafting pays
CREDIT = 1.0  # forwards: what may be spent before anything was saved
SAVINGS = 4.0  # forwards: what may be lost again of what was saved
FIRST_PAUSE, LAST_PAUSE = 16, 512  # steps without drafts once nothing is left to spend
LOOK = 4  # steps of a pause to one in which a token is drafted that nobody verifies
TOKEN_COST = 0.05  # of a forward of one token: what one more token adds, on a CPU


class StepCost:
    """Seconds T(k) of a forward over k tokens, linear between what is known and beyond it."""

    def __init__(self, cost: float | Mapping[int, float] = TOKEN_COST) -> None:
        """Take T(k) by k, two sizes or more; or what a token adds, as a share of T(1).

        Raises:
            InputError: fewer than two sizes, or times that are not positive.
        """
        known = {1: 1.0, 2: 1.0 + cost} if isinstance(cost, float | int) else dict(cost)
        self.sizes = np.array(sorted(known), float)
        self.seconds = np.array([known[int(size)] for size in self.sizes])
        if len(known) < 2 or self.sizes[0] < 1 or not (self.seconds > 0).all():
            raise InputError(
                f"cost {cost!r}: give the seconds of a forward by its tokens, two sizes or more"
            )
        self.price = cache(self._price)  # needed in each step, of few numbers of sequences

    def at(self, tokens: int) -> float:
        """Return T(``tokens``)."""
        sizes, seconds = self.sizes, self.seconds
        if tokens <= sizes[-1]:
            return float(np.interp(tokens, sizes, seconds))
        slope = (seconds[-1] - seconds[-2]) / (sizes[-1] - sizes[-2])
        return float(seconds[-1] + slope * (tokens - sizes[-1]))

    def _price(self, sequences: int) -> float:
        """Return what one more token of every sequence adds, in forwards of all of them.

        It rises with ``sequences``: a forward that is shared by many is already busy.
        """
        return max(self.at(2 * sequences) / self.at(sequences) - 1, 0.0)


class Guard:
    """An account in forwards: drafting may spend what it saved, and a small allowance.

    A sequence whose draft is accepted needs fewer forwards; a drafted token makes one longer. With
    nothing left, drafting pauses, twice as long each time, until a draft pays again: n steps of
    drafts that all fail cost at most ALLOWANCE · n + CREDIT forwards. A pause looks: where tokens
    come that were drafted and not verified, and would have saved CREDIT, it ends.
    """

    def __init__(self, cost: StepCost) -> None:
        """Count time as ``cost`` tells it."""
        self.cost = cost
        self.balance = CREDIT
        self.pause, self.next_pause = 0, FIRST_PAUSE
        self.looks, self.missed = False, 0.0  # whether this step does; what the last ones saw

    def learn(self, sequences: int, drafted: int, accepted: int) -> None:
        """Book a step of so many sequences, and the tokens drafted and accepted in all of them."""
        if not sequences:
            return
        saved = (accepted - self.cost.price(sequences) * drafted) / sequences
        self.balance = min(self.balance + saved, SAVINGS)
        if self.balance < CREDIT:
            self.balance = min(self.balance + ALLOWANCE * (1 + accepted / sequences), CREDIT)
        if saved > 0:
            self.next_pause = FIRST_PAUSE

    def looked(self, sequences: int, came: int) -> None:
        """Book a look at a token of each of so many sequences, of which ``came`` came."""
        self.missed = max(self.missed + came / sequences - self.cost.price(sequences), 0.0)
        if self.missed >= CREDIT:
            self.balance, self.missed = CREDIT, 0.0
            self.pause, self.next_pause = 0, FIRST_PAUSE

    def limits(self, sequences: int) -> tuple[int, float]:
        """Begin a step: tokens that a sequence may draft, and how likely each must be at least."""
        price = self.cost.price(sequences)
        self.looks = False
        if self.pause > 0:
            self.pause -= 1
            self.looks = self.pause % LOOK == 0
            return 0, price
        if self.balance < price:
            self.pause, self.next_pause = self.next_pause - 1, min(2 * self.next_pause, LAST_PAUSE)
            return 0, price
        return int(self.balance / max(price, 1e-9)), price
