"""Sampling is lossless: whole sequences have the target's distribution, whatever is drafted.

Each test compares 2,000 sequences with exact enumeration by Pearson's χ². A right verifier fails
one with probability 1e-6; seeds are fixed, so a run repeats. That the test has the power to notice
is tested, too: verifiers with a known mistake must fail it.
"""

from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from tasc.decoding.core import sampling as sampling_module
from tasc.decoding.core.draft import Draft, LazyProposal, ProposalProbs, chain
from tasc.decoding.core.sampling import Sampling
from tasc.decoding.drafters.none import Autoregressive
from tasc.decoding.verify import VERIFIERS, reference, verifier
from tasc.errors import InputError
from tests.decoding.scripted import ints
from tests.decoding.table import (
    FALSE_ALARM,
    SETTINGS,
    Remembering,
    TableTarget,
    TreeDrafter,
    p_value,
    sample,
)
from tests.tiers import spread

CHAIN, TREE = (1, 1, 1), (3, 2)


def drafter(kind: str, **options):
    rng = np.random.default_rng(5)
    return {
        "none": lambda: Autoregressive(),
        "chain": lambda: TreeDrafter(CHAIN, True, rng, **options),
        "certain chain": lambda: TreeDrafter(CHAIN, None, rng),
        "certain tree": lambda: TreeDrafter(TREE, None, rng),
        "tree": lambda: TreeDrafter(TREE, True, rng, **options),
        "tree without replacement": lambda: TreeDrafter(TREE, False, rng, **options),
    }[kind]()


PAIRS = [
    *(("sampled", "none"), ("sampled", "certain tree"), ("sampled", "chain")),
    *(("sampled", "tree"), ("rejection", "chain"), ("rejection", "certain chain")),
    *(("multi-branch", "chain"), ("multi-branch", "tree")),
    *(("multi-branch", "tree without replacement"), ("multi-branch", "certain tree")),
]


# The kernel draws the reference's tokens from the same numbers: test_verify_ops.
@spread("name, kind, setting", PAIRS, SETTINGS, every=2)
def test_sequences_have_the_distribution_of_the_target(name, kind, setting):
    assert p_value(drafter(kind), name, SETTINGS[setting]) > FALSE_ALARM


def test_every_sampling_verifier_is_covered():
    assert {name for name, _ in PAIRS} == set(VERIFIERS) - {"greedy"}


def detected(name: str, kind: str, **options) -> bool:
    sampling = Remembering(0.8, top_k=4, seed=1)  # top_k: the reference in torch
    return p_value(drafter(kind, **options), name, sampling) < FALSE_ALARM


@pytest.mark.parametrize(("name", "kind"), [("rejection", "chain"), ("multi-branch", "tree")])
def test_a_residual_that_is_not_subtracted_is_detected(monkeypatch, name, kind):
    monkeypatch.setattr(reference, "NOTHING", 2.0)  # no residual is ever large enough
    assert detected(name, kind)


def test_a_bonus_token_from_the_wrong_distribution_is_detected(monkeypatch):
    pick = reference.pick
    monkeypatch.setattr(reference, "pick", lambda distribution, u: pick(distribution.sqrt(), u))
    assert detected("sampled", "certain tree")


def test_a_draft_that_lies_about_replacement_is_detected():
    assert detected("multi-branch", "tree without replacement", lies=True)


def test_greedy_is_not_mistaken_for_sampling():
    assert p_value(drafter("chain"), "greedy", Sampling(0.8), 200) < FALSE_ALARM


rows = st.lists(st.floats(-30, 30, width=32), min_size=2, max_size=12, unique=True)


@given(rows, st.floats(0.1, 5), st.integers(0, 14), st.floats(0.05, 1), st.sampled_from([2, 1024]))
def test_the_distribution_is_that_of_transformers_warpers(values, temperature, top_k, top_p, usual):
    row = torch.tensor(values)
    with mock.patch.object(sampling_module, "_USUAL_NUCLEUS", usual):
        distribution = Sampling(temperature, top_k, top_p).distribution(row)
    scores = TemperatureLogitsWarper(temperature)(None, row[None])
    if top_k:
        scores = TopKLogitsWarper(top_k)(None, scores)
    masses = scores.softmax(-1)[0].sort(descending=True).values
    reached = masses.cumsum(0)[masses > 0]
    assume((reached - top_p).abs().min() > 1e-5)  # there rounding decides
    assume((masses[masses > 0].diff().abs() > 0).all())  # and of equals either may go
    if top_p < 1:
        scores = TopPLogitsWarper(top_p)(None, scores)
    assert torch.allclose(distribution, scores.softmax(-1)[0], atol=1e-6)
    assert ((distribution > 0) == (scores.softmax(-1)[0] > 0)).all()


def test_a_nucleus_that_is_wider_than_usual_is_cut_from_the_whole_row():
    row = torch.linspace(1, 0, 1500)[torch.randperm(1500, generator=torch.manual_seed(0))]
    expected = TopPLogitsWarper(0.95)(None, row[None])[0].softmax(-1)
    assert (expected > 0).sum() > sampling_module._USUAL_NUCLEUS
    assert torch.allclose(Sampling(top_p=0.95).distribution(row), expected, atol=1e-6)


def test_a_row_without_a_finite_maximum_has_no_distribution():
    for row in ([-np.inf, -np.inf], [np.inf, 0.0], [np.nan, np.nan]):
        with pytest.raises(InputError, match="no finite maximum"):
            Sampling().distribution(torch.tensor(row))
    assert Sampling().distribution(torch.tensor([np.nan, 1.0, -np.inf])).tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": 0.0}, "decode greedily"),
        ({"temperature": float("nan")}, "temperature must be from 1e-30"),
        ({"temperature": 1e-39}, "temperature must be from 1e-30"),  # 1 / t is no float32
        ({"temperature": 1e39}, "temperature must be from 1e-30"),
        ({"top_k": -1}, "top_k must be 0"),
        ({"top_p": 0.0}, "top_p must be above 0"),
        ({"top_p": 1.5}, "at most 1"),
        ({"seed": -3}, "seed must be 0 or more"),
    ],
)
def test_a_sampling_that_is_none_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        Sampling(**options)


@pytest.mark.parametrize("top_k", [0, 2])
@pytest.mark.parametrize(("temperature", "expected"), [(1e-30, {3}), (1e30, {0, 1, 2, 3})])
def test_the_lowest_and_the_highest_temperature_still_draw(temperature, expected, top_k):
    row = torch.tensor([[0.0, -1.0, 2.0, 2.5]]).repeat(1, 300)[:, -1200:]  # more than the slices
    row[:, :-4] = -np.inf
    sampled = verifier("sampled", Sampling(temperature, top_k))
    drawn = {sampled(Draft(), row)[1] - 1196 for _ in range(100)}
    assert drawn == (expected & {2, 3} if top_k else expected)


def test_equal_seeds_give_equal_sequences():
    target = TableTarget()
    for name, kind in PAIRS:
        runs = [
            sample(target, drafter(kind), verifier(name, Sampling(seed=3)), 20) for _ in range(2)
        ]
        assert (runs[0] == runs[1]).all()


def test_what_does_not_fit_is_refused():
    rows = torch.zeros(3, 4)
    with pytest.raises(InputError, match="choose from greedy, sampled, rejection, multi-branch"):
        verifier("exact", Sampling())
    with pytest.raises(InputError, match=r"needs chains.*multi-branch"):
        verifier("rejection", Sampling())(Draft(ints(1, 2), ints(-1, -1)), rows)
    draft = chain(ints(1, 2), torch.full((2, 3), 1 / 3))
    with pytest.raises(InputError, match="cover 3 tokens, the target's 4"):
        verifier("rejection", Sampling())(draft, rows)
    with pytest.raises(InputError, match="or -1 for none"):
        ProposalProbs(torch.ones(1, 4), ints(0, 1))
    with pytest.raises(InputError, match="float32 matrix"):
        ProposalProbs(torch.ones(4), ints(0, 1))
    with pytest.raises(InputError, match="needs 2 distribution indexes, got 3"):
        Draft(ints(1), ints(-1), ProposalProbs(torch.ones(1, 4), ints(0, -1, -1)))
    with pytest.raises(InputError, match="needs 1 or 2 distributions, got 0"):
        Draft(ints(1), ints(-1), LazyProposal([]))


@pytest.mark.parametrize("top_k", [0, 4])
def test_tokens_that_cannot_be_drawn_and_distributions_without_mass_are_turned_down(top_k):
    sampling = Sampling(top_k=top_k)
    rows = torch.tensor([[0.0, 0.0, -np.inf, 0.0], [0.0, 0.0, 0.0, 0.0]])
    distribution = torch.tensor([[0.0, 1.0, 0.0, 0.0]])
    for draft in (
        chain(ints(0), distribution),  # its own distribution could not have drawn 0
        chain(ints(1), torch.zeros(1, 4)),  # a distribution of nothing
        chain(ints(2), torch.full((1, 4), 0.25)),  # the target never says 2
        chain(ints(9), torch.full((1, 4), 0.25)),  # no token of the target
    ):
        for _ in range(20):
            path, bonus = verifier("rejection", sampling)(draft, rows)
            assert len(path) == 0
            assert bonus in {0, 1, 3}
