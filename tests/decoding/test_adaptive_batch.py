import numpy as np
import pytest

from tasc.decoding.adaptive import Adaptive, AdaptiveDrafter
from tasc.decoding.core.account import ALLOWANCE, CREDIT
from tasc.decoding.core.draft import Draft, chain
from tasc.models.cost_model import CostModel
from tests.decoding.scripted import COST, Scripted, accepted, decode, floats, ints

pytestmark = pytest.mark.usefixtures("clock")


def decode_together(drafters, cost, truths):
    """Decode as many ``truths`` at a time; return the nodes of each step and the model's time."""
    policy = Adaptive(cost)
    rows = [AdaptiveDrafter(drafter, policy) for drafter in drafters]
    for row, truth in zip(rows, truths, strict=True):
        row.start(ints(1))
        row.observe(truth[:1])
    at, steps, seconds = [1] * len(rows), [], 0.0
    while all(n < len(truth) for n, truth in zip(at, truths, strict=True)):
        drafts = [row.draft(64) for row in rows]
        for i, (row, draft, truth) in enumerate(zip(rows, drafts, truths, strict=True)):
            committed = truth[at[i] : at[i] + accepted(draft, truth[at[i] : -1]) + 1]
            row.observe(committed)
            at[i] += len(committed)
        steps.append([len(draft) for draft in drafts])
        seconds += float(cost.at(len(rows) + sum(steps[-1])))
    return steps, seconds


def test_failing_drafts_of_a_batch_cost_no_more_than_the_allowance():
    wrong = Draft(np.full(12, 9, np.int32), np.arange(-1, 11, dtype=np.int32))
    truths = [np.full(2000, 3, np.int32)] * 4
    steps, seconds = decode_together([Scripted(wrong)] * 4, COST, truths)
    assert sum(map(sum, steps)) > 0, "nothing was ever tried"
    plain = 1999 * float(COST.at(4))
    assert seconds <= plain * (1 + ALLOWANCE) + CREDIT * float(COST.at(4)) + 1e-9


def test_a_batch_shares_a_step_so_that_trees_are_smaller_and_pay():
    proposal = Draft(ints(9, 9, 9), ints(-1, 0, 1), probabilities=floats(0.95, 0.9, 0.3))
    fits = np.resize(ints(9, 9, 3, 9, 9, 3, 9, 9, 9, 3), 3000)  # the third, one time in three
    flat = CostModel((1, 65), (0.010, 0.026))
    alone, _ = decode(Scripted(proposal), Adaptive(flat), fits)
    steps, seconds = decode_together([Scripted(proposal)] * 16, flat, [fits] * 16)
    assert 1 < np.mean(steps[-50:]) < np.mean([n for n, _ in alone[-50:]])
    assert seconds < 0.7 * 2999 * float(flat.at(16))


def test_a_draft_costs_what_it_adds_to_the_drafts_of_the_others():
    flat_to_six = CostModel((1, 6, 7, 12), (0.010, 0.010, 0.030, 0.130))
    policy, likely = Adaptive(flat_to_six), chain(ints(4, 5, 6))
    rows = [AdaptiveDrafter(Scripted(likely), policy) for _ in range(3)]
    for row in rows:
        row.draft(0)
    for row in rows:
        row.observe(ints(3))
    assert [len(row.draft(64)) for row in rows] == [3, 0, 0]


def test_one_likely_draft_pays_in_a_batch_of_others_that_have_none():
    truth, likely = np.full(1000, 9, np.int32), chain(ints(9, 9, 9))
    drafters = [Scripted(likely), *(Scripted(Draft()) for _ in range(7))]
    steps, seconds = decode_together(drafters, COST, [truth] * 8)
    assert np.mean([own for own, *_ in steps]) > 2
    assert not any(sum(others) for _, *others in steps)
    assert seconds < len(steps) * float(COST.at(8 + 3)) + 1e-9


def test_more_sequences_than_in_the_step_before():
    policy = Adaptive(COST)
    rows = [AdaptiveDrafter(Scripted(chain(ints(4, 5, 6))), policy) for _ in range(9)]
    for count in (1, 9, 2, 7):
        for row in rows[:count]:
            row.draft(64)
        for row in rows[:count]:
            row.observe(ints(4, 5, 6, 1))
        assert policy.sequences >= count
