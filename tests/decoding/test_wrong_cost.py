"""A wrong cost model costs little: forwards correct it."""

from itertools import product

import numpy as np
import pytest

from tasc.decoding.core.draft import chain
from tasc.decoding.drafters.none import Autoregressive
from tasc.decoding.policy import Policy
from tasc.models.cost import SIZES
from tasc.models.cost_model import CostModel
from tests.decoding.scripted import Loop

pytestmark = pytest.mark.usefixtures("clock")

TOKENS, LEARNING, RATE = 1500, 300, 0.8
TRUE = {
    "rising": lambda k: 3 + 0.14 * k,
    "a jump": lambda k: 3 + 1.2 * (k > 1) + 0.03 * k,
    "flat": lambda k: 3 + 0.01 * k,
}
WRONG = {
    "all": lambda _: True,
    "first": lambda k: k == 1,
    "all but the first": lambda k: k > 1,
    "large": lambda k: k >= 8,
    "one": lambda k: k == 12,
}


def believed(true, wrong, factor):
    """Return a curve that is ``true`` but for the sizes that are ``wrong``."""
    times = [true(k) * (factor if wrong(k) else 1) / 1000 for k in SIZES]
    return CostModel(SIZES, tuple(np.maximum.accumulate(times).tolist()))


class Likely(Autoregressive):
    """Drafts a chain, each token of which is the next one with a probability that it knows."""

    def draft(self, max_nodes):
        likely = np.cumprod(np.full(max_nodes, RATE, np.float32), dtype=np.float32)
        return chain(np.full(max_nodes, 9, np.int32), None, likely)


def paces(clock, true, curve, fits, seed=0, loaded=range(0)):
    """Decode a text; return the true seconds per token after LEARNING tokens, and of all tokens.

    fits: (T + 99,) bool, whether a draft of the token at that position would be accepted. What is
    measured has noise, and one forward in fifty is interrupted. ``loaded``: tokens that other work
    slows down, by four.
    """
    rng = np.random.default_rng(seed)
    loop = Loop(Policy(curve), Likely())
    done, seconds, learnt = 0, 0.0, None
    while done < TOKENS:
        nodes = len(loop.draft()[0])
        took = true(nodes + 1) / 1000 * (4 if done in loaded else 1)
        clock[0] += took * np.exp(rng.normal(0, 0.05)) * (8 if rng.random() < 0.02 else 1)
        accepted = 0
        while accepted < nodes and fits[done + accepted]:
            accepted += 1
        committed = np.where(fits[done : done + accepted + 1], 9, 3)
        loop.commit(committed.astype(np.int32))
        done, seconds = done + accepted + 1, seconds + took
        if learnt is None and done >= LEARNING:
            learnt = done, seconds
    return (seconds - learnt[1]) / (done - learnt[0]), seconds / done


@pytest.mark.parametrize("true", TRUE)
def test_a_wrong_curve_is_mended_within_300_tokens(clock, true):
    texts = [np.random.default_rng(seed).random(TOKENS + 99) < RATE for seed in range(2)]

    def pace(curve):
        return np.mean([paces(clock, TRUE[true], curve, fits)[0] for fits in texts])

    right = pace(believed(TRUE[true], WRONG["all"], 1.0))
    for wrong, factor in product(WRONG, (0.3, 3.0)):
        found = pace(believed(TRUE[true], WRONG[wrong], factor))
        assert found <= 1.05 * right, f"{wrong}, {factor}"


@pytest.mark.parametrize("true", TRUE)
def test_what_a_loaded_machine_taught_is_forgotten_soon(clock, true):
    curve, fits = believed(TRUE[true], WRONG["all"], 1.0), np.arange(TOKENS + 99) % 5 < 2
    right, found = (
        paces(clock, TRUE[true], curve, fits, loaded=range(100, end))[0] for end in (100, LEARNING)
    )
    assert found <= 1.05 * right


@pytest.mark.parametrize("factor", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("true", TRUE)
def test_drafts_that_never_fit_cost_little_whatever_the_curve_says(clock, true, factor):
    curve = believed(TRUE[true], WRONG["all but the first"], factor)
    _, pace = paces(clock, TRUE[true], curve, np.zeros(TOKENS + 99, bool))
    assert pace <= 1.03 * TRUE[true](1) / 1000
