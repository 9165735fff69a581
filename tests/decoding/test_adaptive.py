import numpy as np
import pytest
import torch

from tasc.decoding.core.account import ALLOWANCE, CREDIT, Typical
from tasc.decoding.core.draft import Draft, ProposalProbs, chain
from tasc.decoding.core.protocols import Needs
from tasc.decoding.decode import Request, generate_all
from tasc.decoding.drafters import Resources, parse
from tasc.decoding.drafters.none import Autoregressive
from tasc.decoding.policy import Policy
from tasc.models.cost_model import CostModel
from tests.decoding.outputs import generate, lists, misleading, random_prompts
from tests.decoding.scripted import (
    COST,
    Loop,
    Scripted,
    Timed,
    decode,
    decode_together,
    floats,
    ints,
)

pytestmark = pytest.mark.usefixtures("clock")
FLAT = CostModel((1, 64), (0.010, 0.011))


@pytest.mark.parametrize(
    ("tokens", "parents", "probabilities", "chosen"),
    [
        # Worth of the nodes, in milliseconds: 9 - 1, 4.5 - 1, 0.5 - 1.
        ((5, 6, 7), (-1, 0, -1), (0.9, 0.45, 0.05), [0, 1]),
        ((4, 5, 6, 7), (-1, 0, -1, 2), (0.06, 0.05, 0.9, 0.8), [2, 3]),
    ],
    ids=["first", "last"],
)
def test_the_likeliest_nodes_are_taken_wherever_they_stand(tokens, parents, probabilities, chosen):
    proposal = Draft(ints(*tokens), ints(*parents), probabilities=floats(*probabilities))
    (draft,) = Loop(Policy(COST), Scripted(proposal)).draft()
    assert draft.tokens.tolist() == proposal.tokens[chosen].tolist()
    assert draft.parents.tolist() == [-1, 0]
    assert draft.probabilities.tolist() == proposal.probabilities[chosen].tolist()


class Drawn(Scripted):
    """Draws as many wrong tokens as requested."""

    def draft(self, max_nodes):
        return chain(np.full(max_nodes, 9, np.int32), torch.full((max_nodes, 10), 0.1))


@pytest.mark.parametrize(
    ("drafter", "tokens", "rows"),
    [
        (Scripted(chain(np.full(12, 9, np.int32))), 2000, 1),
        (Scripted(chain(np.full(12, 9, np.int32), None, np.ones(12, np.float32))), 2000, 1),
        (Scripted(chain(np.full(12, 9, np.int32))), 2000, 4),
        (Drawn(Draft()), 300, 1),
    ],
    ids=["no probabilities", "certain", "batch", "drawn"],
)
def test_drafts_that_always_fail_cost_no_more_than_the_allowance(drafter, tokens, rows):
    truths = [np.full(tokens, 3, np.int32)] * rows
    steps, seconds = decode_together([drafter] * rows, Policy(COST), truths)
    forward = float(COST.at(rows))
    plain = forward * (tokens - 1)
    assert sum(nodes for step in steps for nodes, _ in step) > 0, "nothing was ever tried"
    assert seconds <= plain * (1 + ALLOWANCE) + CREDIT * forward + 1e-9
    assert tokens < 2000 or seconds <= 1.01 * plain


def test_slow_drafting_without_use_is_charged_and_paused_for_ever_longer(clock):
    slow = Timed(Draft(), clock, seconds=0.005)  # half a forward
    decode(slow, Policy(COST), np.full(4000, 3, np.int32))
    assert len(slow.asked) * 0.005 <= ALLOWANCE * 4000 * 0.010 + CREDIT * 0.010
    assert len(slow.asked) < 60
    gaps = np.diff(slow.asked_at)
    assert gaps[gaps > 1].tolist() == sorted(gaps[gaps > 1]), "pauses grow"
    assert gaps.max() > 500


def test_drafting_that_starts_to_work_is_taken_up_again():
    drafter = Scripted(chain(ints(9, 9, 9), None, floats(0.9, 0.8, 0.7)))
    policy = Policy(COST)
    decode(drafter, policy, np.full(1500, 3, np.int32))
    steps, seconds = decode(drafter, policy, np.full(4000, 9, np.int32))
    assert seconds < 0.6 * 0.010 * 4000
    assert steps[-3] == (3, 4)


@pytest.mark.parametrize(("price", "within"), [(0.001, 20), (0.005, 50)])
def test_probes_that_hit_end_a_pause(price, within, clock):
    """A probe takes 0.1 ms and may take 0.5 % of the time: one in two steps probes."""
    drafter = Timed(chain(ints(9)), clock, seconds=0.0001)
    policy = Policy(CostModel((1, 65), (0.010, 0.010 + 64 * price)), learns=False)
    decode(drafter, policy, np.full(1500, 3, np.int32))
    policy.account.pause = 512
    steps, _ = decode(drafter, policy, np.full(600, 9, np.int32))
    first = next(i for i, (nodes, _) in enumerate(steps) if nodes)
    assert 2 <= first <= within
    assert policy.decided["probed"] > first / 3


def test_a_probe_is_not_scored_and_makes_no_slow_draft():
    class Slow(Autoregressive):
        needs = Needs(slow_drafts="that pay")
        can_draft_more, reads_prompt = True, False

        def draft(self, max_nodes):
            wanted.append(("quick", max_nodes))
            return chain(ints(9))

        def draft_more(self, max_nodes):
            wanted.append(("slow", max_nodes))
            return chain(ints(9, 9))

    wanted: list[tuple[str, int]] = []
    policy = Policy(COST)
    loop = Loop(policy, Slow())
    for seconds, kinds in ((9.0, ["quick"]), (0.001, ["quick", "slow"])):
        policy.slow.seconds = Typical(seconds, known=True)
        policy.slow.record_step(0.01, 1)
        loop.draft()
        assert [kind for kind, _ in wanted] == kinds
        loop.commit(ints(3))
        wanted.clear()
    policy.account.pause = 5
    assert len(loop.draft()[0]) == 0
    assert wanted == [("quick", 1)]


def test_drafts_that_always_fit_grow_to_what_pays():
    many = Scripted(chain(np.full(64, 9, np.int32)))
    sizes = [n for n, _ in decode(many, Policy(FLAT), np.full(3000, 9, np.int32))[0]]
    assert sizes[0] == 4
    assert max(sizes) == 64


def test_drafting_time_shrinks_what_is_asked_for(clock):
    fitting = chain(np.full(64, 9, np.int32))
    truth = np.resize(ints(9, 9, 9, 9, 3), 3000)
    slow, quick = Timed(fitting, clock, per_node=0.004), Scripted(fitting)
    decode(slow, Policy(FLAT), truth)
    decode(quick, Policy(FLAT), truth)
    assert max(quick.asked[-20:]) == 10
    assert np.mean(slow.asked[-200:]) < 6


def test_the_room_bounds_what_is_asked_for():
    drafter = Scripted(chain(np.full(9, 9, np.int32)))
    decode(drafter, Policy(COST), np.full(60, 9, np.int32), room=3)
    assert max(drafter.asked) == 3


def test_sampled_nodes_are_verified_whole():
    distributions = ProposalProbs(torch.full((1, 10), 0.1), ints(0, -1, -1))
    draft = Draft(ints(5, 6), ints(-1, -1), distributions)
    policy = Policy(COST, learns=False)
    policy.account.balance = 100.0
    loop = Loop(policy, Scripted(draft))
    for _ in range(50):
        assert loop.draft() == [draft]
        loop.commit(ints(7))
        policy.account.balance, policy.account.pause = 100.0, 0


@pytest.mark.parametrize("text", ["tasc-spec", "mix", "prompt:budget=auto"])
def test_tasc_spec_and_mix_are_adaptive_unless_a_budget_is_given(text):
    assert (parse(text).adaptive, parse(text).budget) == (True, 64)
    fixed = parse(f"{text.partition(':')[0]}:budget=64")
    assert (fixed.adaptive, fixed.budget) == (False, 64)
    assert not parse("corpus").adaptive


@pytest.mark.parametrize("text", ["tasc-spec:budget=auto", "tasc-spec:budget=auto,width=1"])
def test_adaptive_sizes_do_not_change_the_output(target, text):
    prompts = random_prompts(3, 9, 20)
    plain = [generate(target, Autoregressive(), p, max_new_tokens=40).tokens for p in prompts]
    method = parse(text)
    factory = method.prepare(Resources(misleading(plain), 0))
    for size in (1, 2):
        found = generate_all(
            target,
            [Request(p, factory) for p in prompts],
            max_new_tokens=40,
            budget=method.budget,
            batch_size=size,
            policy=Policy(COST),
        )
        assert lists(found) == lists(plain)
        assert len({n for g in found for n in g.drafted}) > 2, "the size never varied"


def test_the_first_draft_asks_for_no_more_than_can_be_paid_for():
    steep = CostModel((1, 65), (0.010, 0.010 + 64 * 0.004))
    drafter = Scripted(chain(np.full(64, 9, np.int32)))
    Loop(Policy(steep), drafter).draft()
    assert drafter.asked == [2]


@pytest.mark.parametrize(("left", "asks"), [(0.05, False), (0.15, True)])
def test_drafting_pauses_once_not_even_one_node_can_be_paid_for(left, asks):
    policy = Policy(COST)
    loop = Loop(policy, Scripted(chain(ints(5))))
    loop.draft()
    policy.account.balance = left + float(COST.at(2) / COST.at(1)) - 1  # the cost of the node
    loop.commit(ints(3))
    assert (len(loop.draft()[0]) > 0) == asks


def test_a_draft_with_the_prompt_is_priced_by_the_forward_that_reads_both():
    cost = CostModel((1, 16, 80), (0.010, 0.0101, 0.5))  # up to 16 tokens cost hardly more
    loop = Loop(Policy(cost), Scripted(chain(np.full(9, 9, np.int32))))
    assert len(loop.draft(9, prompt=32)[0]) == 0
    loop.commit(ints(9))
    assert len(loop.draft(9)[0]) > 0
    loop.commit(ints(9))
    assert len(loop.draft(9, prompt=1)[0]) > 0


def test_a_step_that_fails_costs_nothing():
    policy = Policy(COST)
    loop = Loop(policy, Scripted(chain(np.full(9, 9, np.int32))))
    for _ in range(3):  # of which none is recorded
        assert len(loop.draft(9)[0]) > 0
    assert policy.account.balance == CREDIT


def test_what_else_runs_on_the_machine_moves_a_typical_time_by_a_fifth():
    typical = Typical()
    for seconds, expected in ((0.01, 0.01), (9.0, 0.012), (0.0, 0.01)):
        typical.add(seconds)
        assert typical.value == pytest.approx(expected)


def test_a_batch_shares_a_step_so_that_trees_are_smaller_and_pay():
    proposal = chain(ints(9, 9, 9), None, floats(0.95, 0.9, 0.3))
    fits = np.resize(ints(9, 9, 3, 9, 9, 3, 9, 9, 9, 3), 3000)  # the third, one time in three
    flat = CostModel((1, 65), (0.010, 0.026))
    alone, _ = decode(Scripted(proposal), Policy(flat), fits)
    steps, seconds = decode_together([Scripted(proposal)] * 16, Policy(flat), [fits] * 16, flat)
    nodes = [n for step in steps[-50:] for n, _ in step]
    assert 1 < np.mean(nodes) < np.mean([n for n, _ in alone[-50:]])
    assert seconds < 0.7 * 2999 * float(flat.at(16))


def test_a_draft_costs_what_it_adds_to_the_drafts_of_the_others():
    flat_to_six = CostModel((1, 6, 7, 12), (0.010, 0.010, 0.030, 0.130))
    loop = Loop(Policy(flat_to_six), *(Scripted(chain(ints(4, 5, 6))) for _ in range(3)))
    loop.draft(0)
    loop.commit(ints(3), ints(3), ints(3))
    assert [len(draft) for draft in loop.draft()] == [3, 0, 0]


def test_one_likely_draft_pays_in_a_batch_of_others_that_have_none():
    truth, likely = np.full(1000, 9, np.int32), chain(ints(9, 9, 9))
    drafters = [Scripted(likely), *(Scripted(Draft()) for _ in range(7))]
    steps, seconds = decode_together(drafters, Policy(COST), [truth] * 8)
    nodes = [[n for n, _ in step] for step in steps]
    assert np.mean([own for own, *_ in nodes]) > 2
    assert not any(sum(others) for _, *others in nodes)
    assert seconds < len(steps) * float(COST.at(8 + 3)) + 1e-9


@pytest.mark.parametrize("count", [1, 9, 2, 7])
def test_the_cost_of_a_step_is_that_of_its_own_number_of_sequences(count):
    policy = Policy(COST)
    for sequences in (3, count):
        loop = Loop(policy, *(Scripted(chain(ints(4, 5, 6))) for _ in range(sequences)))
        loop.draft()
        loop.commit(*[ints(4, 5, 6, 1)] * sequences)
    assert loop.plan.times == policy.times(count)
    assert loop.plan.times.plain == pytest.approx(float(COST.at(count)))
