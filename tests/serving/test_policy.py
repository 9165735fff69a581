"""Adaptive drafting in an engine: failing drafts cost a bounded share of the time."""

import numpy as np
import pytest

from tasc.decoding.core.account import ALLOWANCE, CREDIT
from tasc.decoding.drafters import Resources, parse
from tasc.decoding.policy import Batch, Chains, Policy, Step
from tasc.models.cost_model import CostModel
from tasc.serving.drafts.proposer import ChainProposer, Sizes
from tests.serving.engine import Engine


def make(cost: float = 0.05) -> Policy:
    return Policy(CostModel.from_option(cost), assumed=True)


def chains(policy: Policy, sequences: int) -> Chains:
    return policy.plan(Batch(sequences)).chains()


def drafted(limits: Chains) -> int:
    return 0 if limits.is_probe else min(limits.max_nodes, 8)


def run(share: float, accepted: float, steps: int, sequences: int = 1) -> tuple[float, int]:
    """Draft up to 8 tokens, of which a share is accepted: (forwards lost, steps that drafted)."""
    policy, lost, drafting = make(share), 0.0, 0
    for _ in range(steps):
        limits = chains(policy, sequences)
        nodes = drafted(limits) * sequences
        drafting += nodes > 0
        taken = int(accepted * nodes)
        lost += (limits.min_probability * nodes - taken) / sequences
        policy.record(Step(sequences, nodes, taken))
    return lost, drafting


@pytest.mark.parametrize("sequences", [1, 8, 64])
@pytest.mark.parametrize("share", [0.01, 0.03, 0.3, 1.0])
def test_drafts_that_fail_cost_a_bounded_share(share, sequences):
    lost, drafting = run(share, 0.0, 5000, sequences)
    assert lost <= ALLOWANCE * 5000 + CREDIT
    assert drafting > 0


@pytest.mark.parametrize("sequences", [1, 8])
def test_drafts_that_pay_are_made_in_every_step(sequences):
    lost, drafting = run(0.03, 0.5, 1000, sequences)
    assert drafting == 1000
    assert lost < -1000


def test_drafting_resumes_when_drafts_pay_again():
    policy = make(0.1)
    for _ in range(3000):
        policy.record(Step(1, drafted(chains(policy, 1)), 0))
    nodes = [0]
    for _ in range(2000):
        nodes.append(drafted(chains(policy, 1)))
        policy.record(Step(1, nodes[-1], nodes[-1]))
    assert nodes[-1000:] == [8] * 1000


def test_probes_end_a_pause_when_they_hit_and_cost_nothing_when_they_miss():
    steps = {}
    for share in (0.0, 1.0):
        policy = make(0.1)
        while policy.account.pause < 100:
            policy.record(Step(4, 4 * drafted(chains(policy, 4)), 0))
        waited = 0
        while waited < 80:
            limits = chains(policy, 4)
            if drafted(limits):
                break
            waited += 1
            probed = 4 * limits.is_probe
            policy.record(Step(4, 0, 0, probed, int(probed * share)))
        steps[share] = waited
    assert steps[0.0] == 80
    assert 4 < steps[1.0] <= 12


def test_a_token_costs_more_in_a_forward_that_is_busy():
    cost = CostModel.from_option(0.05)
    expected = pytest.approx([0.05, 0.4 / 1.35, 3.2 / 4.15])
    assert [cost.token_cost(n) for n in (1, 8, 64)] == expected
    measured = CostModel.from_option({1: 0.010, 9: 0.014, 33: 0.062})
    assert measured.at(5) == pytest.approx(0.012)
    assert measured.at(57) == pytest.approx(0.110)
    assert measured.token_cost(24) == pytest.approx(measured.at(48) / measured.at(24) - 1)


def test_steps_without_requests_change_nothing():
    policy = make()
    policy.record(Step(0, 0, 0))
    assert policy.account.balance == CREDIT


class Forwards:
    """A clock of an engine whose tokens after the first cost ``of_token`` of a forward each."""

    def __init__(self, of_token: float) -> None:
        self.now, self.of_token = 0.0, of_token

    def forward(self, tokens: int) -> None:
        self.now += 0.01 * (1 + self.of_token * (tokens - 1))

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("of_token", [0.002, 0.05, 0.5])
def test_the_cost_of_a_token_is_learnt_from_the_steps(of_token):
    clock = Forwards(of_token)
    policy = make()
    for _ in range(20):
        for sequences in (1, 8):
            for drafted in (0, sequences):
                begin = clock.now
                clock.forward(sequences + drafted)
                policy.record(Step(sequences, drafted, 0, forward=clock.now - begin))
    for sequences in (1, 8):
        cost = max(of_token, 0.05)  # never below the assumed one
        exact = cost * sequences / (1 + cost * (sequences - 1))
        assert policy.times(sequences).token_share == pytest.approx(exact, rel=0.1)


def test_steps_of_other_requests_are_no_measure():
    clock, policy = Forwards(9.0), make()
    factory = parse("prompt-lookup").prepare(Resources([], 0))
    proposer = ChainProposer(factory, 0, Sizes(8, 400, 8), policy, clock=clock)
    tokens = np.full((8, 40), 7, np.int32)
    proposer.propose([[7]], [4], tokens)
    for rows, read in ((1, 9), (2, 9), (8, 9)):  # each step begins other requests
        clock.forward(2)
        proposer.propose([[7]] * rows, [read + rows] * rows, tokens)
    assert policy.times(1).token_share == pytest.approx(0.05)
    clock.forward(2)
    proposer.propose([[7]] * 8, [18] * 8, tokens)  # the same ones
    assert policy.cost is not None
    assert policy.cost.forwards == 1


def test_an_engine_measures_its_steps_and_drafts_less_where_a_token_is_dear():
    """The same requests in an engine whose tokens are cheap, and in one whose tokens are dear."""
    drafted = []
    for of_token in (0.01, 3.0):
        clock = Forwards(of_token)
        factory = parse("prompt-lookup").prepare(Resources([], 0))
        engine = Engine(ChainProposer(factory, 0, Sizes(8, 400, 8), make(), clock=clock), 2)
        inner = engine.proposer.propose

        def propose(new, lengths, tokens, engine=engine, clock=clock, inner=inner):
            clock.forward(len(new) + sum(map(len, engine.drafts[-1] if engine.drafts else [])))
            return inner(new, lengths, tokens)

        engine.proposer.propose = propose
        rng = np.random.default_rng(0)
        output = np.concatenate([rng.integers(5, 60, 3) if i % 2 else [7, 8, 9] for i in range(60)])
        engine.run([(np.array([7, 8, 9, 7, 8], np.int32), [*output, 0])] * 2)
        drafted.append(engine.counts.drafted)
    assert 4 * drafted[1] < drafted[0]
