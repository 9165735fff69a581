import numpy as np
import pytest
import torch

from tasc.decoding.adaptive import Adaptive, AdaptiveDrafter
from tasc.decoding.core.account import ALLOWANCE, CREDIT, Typical
from tasc.decoding.core.draft import Draft, ProposalProbs, chain
from tasc.decoding.decode import Request, generate, generate_all
from tasc.decoding.drafters import Resources, parse
from tasc.decoding.drafters.none import Autoregressive
from tasc.models.cost_model import CostModel
from tasc.models.target import Target
from tests.decoding.scripted import COST, Scripted, Whole, decode, floats, ints, once
from tests.pico import build_model

pytestmark = pytest.mark.usefixtures("clock")


def test_a_worked_example_of_the_size():
    # Worth of the first three nodes, in milliseconds: 9 - 1, 4.5 - 1, 0.5 - 1.
    proposal = Draft(ints(5, 6, 7), ints(-1, 0, -1), probabilities=floats(0.9, 0.45, 0.05))
    chosen = once(Scripted(proposal), Adaptive(COST))
    assert chosen.tokens.tolist() == [5, 6]
    assert chosen.parents.tolist() == [-1, 0]
    assert chosen.probabilities.tolist() == floats(0.9, 0.45).tolist()


def test_the_likeliest_nodes_are_taken_wherever_they_stand_in_the_draft():
    proposal = Draft(
        ints(4, 5, 6, 7), ints(-1, 0, -1, 2), probabilities=floats(0.06, 0.05, 0.9, 0.8)
    )
    chosen = once(Scripted(proposal), Adaptive(COST))
    assert chosen.tokens.tolist() == [6, 7]
    assert chosen.parents.tolist() == [-1, 0]


@pytest.mark.parametrize("probabilities", [None, np.ones(12, np.float32)])
def test_drafts_that_always_fail_cost_no_more_than_the_allowance(probabilities):
    truth = np.full(2000, 3, np.int32)
    wrong = Draft(
        np.full(12, 9, np.int32), np.arange(-1, 11, dtype=np.int32), probabilities=probabilities
    )
    drafter = Scripted(wrong)
    steps, seconds = decode(drafter, Adaptive(COST), truth)
    plain = 0.010 * (len(truth) - 1)
    assert sum(n for n, _ in steps) > 0, "nothing was ever tried"
    assert seconds <= plain * (1 + ALLOWANCE) + CREDIT * 0.010 + 1e-9
    assert seconds <= 1.01 * plain


def test_sampled_drafts_that_always_fail_cost_no_more_than_the_allowance():
    class Drawn(Scripted):
        def draft(self, max_nodes):
            tokens = np.full(max_nodes, 9, np.int32)
            return chain(tokens, torch.full((max_nodes, 10), 0.1))

    truth = np.full(300, 3, np.int32)
    steps, seconds = decode(Drawn(Draft()), Adaptive(COST), truth)
    assert sum(n for n, _ in steps) > 0, "nothing was ever tried"
    assert seconds <= 0.010 * (len(truth) - 1) * (1 + ALLOWANCE) + CREDIT * 0.010 + 1e-9


def test_slow_drafting_without_use_is_charged_and_paused_for_ever_longer(clock):
    class Slow(Scripted):
        def draft(self, max_nodes):
            clock[0] += 0.005  # half a forward
            asked_at.append(len(steps_seen))
            return Draft()

        def observe(self, tokens):
            steps_seen.append(len(tokens))

    asked_at: list[int] = []
    steps_seen: list[int] = []
    decode(Slow(Draft()), Adaptive(COST), np.full(4000, 3, np.int32))
    assert len(asked_at) * 0.005 <= ALLOWANCE * 4000 * 0.010 + CREDIT * 0.010
    assert len(asked_at) < 60
    gaps = np.diff(asked_at)
    assert gaps[gaps > 1].tolist() == sorted(gaps[gaps > 1]), "pauses grow"
    assert gaps.max() > 500


def test_drafting_that_starts_to_work_is_taken_up_again():
    proposal = Draft(ints(9, 9, 9), ints(-1, 0, 1), probabilities=floats(0.9, 0.8, 0.7))
    drafter = Scripted(proposal)
    policy = Adaptive(COST)
    decode(drafter, policy, np.full(1500, 3, np.int32))
    steps, seconds = decode(drafter, policy, np.full(4000, 9, np.int32))
    assert seconds < 0.6 * 0.010 * 4000
    assert steps[-3] == (3, 4)


@pytest.mark.parametrize(("price", "within"), [(0.001, 20), (0.005, 50)])
def test_probes_that_hit_end_a_pause(price, within, clock):
    """A probe takes 0.1 ms and may take 0.5 % of the time: one in two steps probes."""

    class Timed(Scripted):
        def draft(self, max_nodes):
            clock[0] += 0.0001
            return super().draft(max_nodes)

    drafter = Timed(chain(ints(9)))
    policy = Adaptive(CostModel((1, 65), (0.010, 0.010 + 64 * price)), learns=False)
    decode(drafter, policy, np.full(1500, 3, np.int32))
    policy.account.pause = 512
    steps, _ = decode(drafter, policy, np.full(600, 9, np.int32))
    first = next(i for i, (nodes, _) in enumerate(steps) if nodes)
    assert 2 <= first <= within
    assert policy.decided["probed"] > first / 3


def test_a_probe_is_not_scored_and_uses_no_costly_drafter():
    class Other(Autoregressive):
        max_seconds, was_costly = 9.0, False

        def draft(self, max_nodes):
            wanted.append((max_nodes, self.max_seconds))
            return chain(ints(9))

    wanted: list[tuple[int, float]] = []
    drafter, policy = Other(), Adaptive(COST)
    held = AdaptiveDrafter(drafter, policy)
    held.start(ints(1))
    held.observe(ints(3))
    held.draft(64)
    held.observe(ints(3))
    policy.account.pause = 5
    assert len(held.draft(64)) == 0
    assert wanted[-1] == (1, 0.0)
    assert wanted[0][1] > 0


def test_drafts_that_always_fit_grow_to_what_pays():
    many = Draft(np.full(64, 9, np.int32), np.arange(-1, 63, dtype=np.int32))
    flat = Adaptive(CostModel((1, 64), (0.010, 0.011)))
    sizes = [n for n, _ in decode(Scripted(many), flat, np.full(3000, 9, np.int32))[0]]
    assert sizes[0] == 4
    assert max(sizes) == 64


def test_drafting_time_shrinks_what_is_asked_for(clock):
    class Slow(Scripted):
        def draft(self, max_nodes):
            clock[0] += 0.004 * max_nodes
            return super().draft(max_nodes)

    fitting = chain(np.full(64, 9, np.int32))
    truth = np.resize(ints(9, 9, 9, 9, 3), 3000)
    slow, quick = Slow(fitting), Scripted(fitting)
    flat = CostModel((1, 64), (0.010, 0.011))
    decode(slow, Adaptive(flat), truth)
    decode(quick, Adaptive(flat), truth)
    assert max(quick.asked[-20:]) == 10
    assert np.mean(slow.asked[-200:]) < 6


def test_the_room_bounds_what_is_asked_for():
    drafter = Scripted(chain(np.full(9, 9, np.int32)))
    decode(drafter, Adaptive(COST), np.full(60, 9, np.int32), room=3)
    assert max(drafter.asked) == 3


def test_sampled_nodes_are_verified_whole():
    distributions = ProposalProbs(torch.full((1, 10), 0.1), ints(0, -1, -1))
    draft = Draft(ints(5, 6), ints(-1, -1), distributions)
    policy = Adaptive(COST, learns=False)
    policy.account.balance = 100.0
    for _ in range(50):
        drafter = AdaptiveDrafter(Whole(draft), policy)
        assert drafter.draft(64) is draft
        drafter.observe(ints(7))
        policy.account.balance, policy.account.pause = 100.0, 0


@pytest.mark.parametrize("text", ["tasc-spec", "mix", "prompt:budget=auto"])
def test_tasc_spec_and_mix_are_adaptive_unless_a_budget_is_given(text):
    assert (parse(text).adaptive, parse(text).budget) == (True, 64)
    fixed = parse(f"{text.partition(':')[0]}:budget=64")
    assert (fixed.adaptive, fixed.budget) == (False, 64)
    assert not parse("corpus").adaptive


@pytest.mark.parametrize("text", ["tasc-spec:budget=auto", "tasc-spec:budget=auto,width=1"])
def test_adaptive_sizes_do_not_change_the_output(text):
    target = Target(build_model("llama"))
    rng = np.random.default_rng(0)
    prompts = [rng.integers(1, 320, n).astype(np.int32) for n in (3, 9, 20)]
    plain = [generate(target, Autoregressive(), p, max_new_tokens=40).tokens for p in prompts]
    method = parse(text)
    noise = [rng.permutation(o).astype(np.int32) for o in plain]
    factory = method.prepare(Resources([*plain, *plain, *noise], 0))
    policy, drafted = Adaptive(COST), []
    for prompt, expected in zip(prompts, plain, strict=True):
        drafter = AdaptiveDrafter(factory(), policy)
        result = generate(target, drafter, prompt, max_new_tokens=40, budget=method.budget)
        assert result.tokens.tolist() == expected.tolist()
        drafted += result.drafted
    assert len(set(drafted)) > 2, "the size never varied"
    policy = Adaptive(COST)
    asked = [Request(prompt, lambda: AdaptiveDrafter(factory(), policy)) for prompt in prompts]
    found = generate_all(target, asked, max_new_tokens=40, budget=method.budget, batch_size=2)
    assert [g.tokens.tolist() for g in found] == [tokens.tolist() for tokens in plain]
    assert sum(sum(g.drafted) for g in found) > 0


def test_the_first_draft_asks_for_no_more_than_can_be_paid_for():
    steep = CostModel((1, 65), (0.010, 0.010 + 64 * 0.004))
    drafter = Scripted(chain(np.full(64, 9, np.int32)))
    once(drafter, Adaptive(steep))
    assert drafter.asked == [2]


@pytest.mark.parametrize(("left", "asks"), [(0.05, False), (0.15, True)])
def test_drafting_pauses_once_not_even_one_node_can_be_paid_for(left, asks):
    policy = Adaptive(COST)
    drafter = Scripted(chain(ints(5)))
    held = AdaptiveDrafter(drafter, policy)
    held.draft(64)
    policy.account.balance = left  # the cost of the node is reserved
    held.observe(ints(3))
    assert (len(held.draft(64)) > 0) == asks


def test_a_draft_with_the_prompt_is_priced_by_the_forward_that_reads_both():
    cost = CostModel((1, 16, 80), (0.010, 0.0101, 0.5))  # up to 16 tokens cost hardly more
    policy, drafter = Adaptive(cost), Scripted(chain(np.full(9, 9, np.int32)))
    held = AdaptiveDrafter(drafter, policy)
    held.start(np.arange(1, 33, dtype=np.int32))
    assert len(held.draft(9)) == 0
    held.observe(ints(9))
    assert len(held.draft(9)) > 0
    held.start(ints(1))
    assert len(held.draft(9)) > 0


def test_what_else_runs_on_the_machine_moves_a_typical_time_by_a_fifth():
    typical = Typical()
    for seconds, expected in ((0.01, 0.01), (9.0, 0.012), (0.0, 0.01)):
        typical.add(seconds)
        assert typical.value == pytest.approx(expected)
