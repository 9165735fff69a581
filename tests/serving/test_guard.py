"""The guard: drafts that fail cost a bounded share, drafts that succeed are let be."""

import pytest

from tasc.errors import InputError
from tasc.serving.drafts.guard import ALLOWANCE, CREDIT, Guard, StepCost


def run(cost: StepCost, accepted: float, steps: int, sequences: int = 1) -> tuple[float, int]:
    """Draft up to 8 tokens, of which a share is accepted: (forwards lost, steps that drafted)."""
    guard, lost, drafting = Guard(cost), 0.0, 0
    for _ in range(steps):
        allowed, price = guard.limits(sequences)
        drafted = min(allowed, 8) * sequences
        drafting += drafted > 0
        taken = int(accepted * drafted)
        lost += (price * drafted - taken) / sequences
        guard.learn(sequences, drafted, taken)
    return lost, drafting


@pytest.mark.parametrize("sequences", [1, 8, 64])
@pytest.mark.parametrize("share", [0.01, 0.03, 0.3, 1.0])
def test_drafts_that_fail_cost_a_bounded_share(share, sequences):
    lost, drafting = run(StepCost(share), 0.0, 5000, sequences)
    assert lost <= ALLOWANCE * 5000 + CREDIT
    assert drafting > 0


@pytest.mark.parametrize("sequences", [1, 8])
def test_drafts_that_pay_are_made_in_every_step(sequences):
    lost, drafting = run(StepCost(0.03), 0.5, 1000, sequences)
    assert drafting == 1000
    assert lost < -1000


def test_it_comes_back_when_drafts_pay_again():
    guard = Guard(StepCost(0.1))
    for _ in range(3000):
        guard.learn(1, min(guard.limits(1)[0], 8), 0)
    drafted = [0]
    for _ in range(2000):
        drafted.append(min(guard.limits(1)[0], 8))
        guard.learn(1, drafted[-1], drafted[-1])
    assert drafted[-1000:] == [8] * 1000


def test_looks_end_a_pause_where_tokens_come_and_cost_nothing_where_they_do_not():
    steps = {}
    for share in (0.0, 1.0):
        guard = Guard(StepCost(0.1))
        while guard.pause < 100:
            guard.learn(4, 4 * min(guard.limits(4)[0], 8), 0)
        waited = 0
        while guard.limits(4)[0] == 0 and waited < 80:
            waited += 1
            if guard.looks:
                guard.looked(4, int(4 * share))
            guard.learn(4, 0, 0)
        steps[share] = waited
    assert steps[0.0] == 80
    assert 4 < steps[1.0] <= 12


def test_a_token_costs_more_in_a_forward_that_is_busy():
    cost = StepCost(0.05)
    prices = [cost.price(n) for n in (1, 8, 64)]
    assert prices == pytest.approx([0.05, 0.4 / 1.35, 3.2 / 4.15])
    measured = StepCost({1: 0.010, 9: 0.014, 33: 0.062})
    assert measured.at(5) == pytest.approx(0.012)
    assert measured.at(57) == pytest.approx(0.110)
    assert measured.price(24) == pytest.approx(measured.at(48) / measured.at(24) - 1)


def test_steps_without_requests_change_nothing():
    guard = Guard(StepCost())
    guard.learn(0, 0, 0)
    assert guard.balance == CREDIT


@pytest.mark.parametrize("cost", [{1: 0.1}, {1: 0.0, 2: 0.1}, {0: 0.1, 1: 0.2}])
def test_costs_that_say_nothing_are_refused(cost):
    with pytest.raises(InputError, match="two sizes or more"):
        StepCost(cost)
