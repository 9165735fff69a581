"""Kernels against their definition in torch, and on bad input."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings

from tasc.decoding.core.draft import Draft, ProposalProbs
from tasc.decoding.core.sampling import Sampling
from tasc.decoding.verify import greedy, ops, reference
from tasc.errors import InputError
from tests.decoding.drafts import NEAR, Case, cases, nudged


def tensors(case: Case) -> tuple[torch.Tensor, ...]:
    return torch.tensor(case.draft.tokens), torch.tensor(case.draft.parents)


def distributions(case: Case) -> tuple[torch.Tensor, torch.Tensor, bool]:
    q = case.draft.q
    if q is None:
        none = torch.full((len(case.draft) + 1,), -1, dtype=torch.int32)
        return torch.empty(0, case.rows.shape[1]), none, True
    assert isinstance(q, ProposalProbs)
    return q.probs, torch.tensor(q.of), q.replacement


def outcome(walked: reference.Verified) -> tuple[list[int], int]:
    return walked[0].tolist(), walked[1]


def committed_by_rounding(case: Case, walk) -> bool:
    """Whether a change of the random numbers within the tolerance changes what ``walk`` gives."""
    results = {
        str(outcome(walk(c.draft, c.distribution, c.uniforms)))
        for c in (case, nudged(case, NEAR), nudged(case, -NEAR))
    }
    return len(results) > 1


@given(cases())
@settings(max_examples=150, deadline=None)
def test_greedy_equals_its_definition(case):
    expected = outcome(greedy(case.draft, case.rows, lambda _, row: row))  # in plain torch
    assert outcome(greedy(case.draft, case.rows)) == expected
    result = ops.result(ops.GREEDY, case.rows, *tensors(case))
    assert outcome(ops.committed(result)) == expected
    assert (result[2 + len(expected[0]) :] == -1).all()


def drawn(kind: str, case: Case) -> np.ndarray:
    more = distributions(case) if kind == ops.REJECTION else ()
    numbers = case.sampling.temperature, torch.from_numpy(case.uniforms)
    return ops.result(kind, case.rows, *tensors(case), *more, *numbers)


@pytest.mark.parametrize("kind", [ops.SAMPLED, ops.REJECTION])
@given(case=cases())
@settings(max_examples=250, deadline=None)
def test_drawn_tokens_equal_their_definition(kind, case):
    coupled = kind == ops.SAMPLED
    walk = reference.coupled_reference if coupled else reference.rejection_reference
    assume(not committed_by_rounding(case, walk))
    expected = outcome(walk(case.draft, case.distribution, case.uniforms))
    assert outcome(ops.committed(drawn(kind, case))) == expected


@pytest.mark.parametrize("first", [0.0, 0.1])
def test_a_sibling_may_as_well_have_been_no_token(first):
    """Proposals sum to 0.7; what the first leaves to the second has the other 0.3 in it."""
    p, q = torch.tensor([0.05, 0.05, 0.6, 0.3]), torch.tensor([[first, 0.3, 0.2, 0.2 - first]])
    rows, expected = p.log().expand(3, 4).contiguous(), p
    if first:  # else it could not have been drawn, and says nothing
        expected = (p - q[0]).clamp(min=0) / (p - q[0]).clamp(min=0).sum()
    second = torch.cat([torch.zeros(1), q[0, 1:]]) / (1 - first)
    expected = (expected - second).clamp(min=0)
    expected /= expected.sum()
    of = np.array([0, -1, -1], np.int32)
    draft = Draft(np.array([0, 1], np.int32), np.array([-1, -1], np.int32))
    draft = replace(draft, q=ProposalProbs(q, of, replacement=False))
    draws, counts = 400, np.zeros((2, 4))
    for i in range(draws):
        case = Case(draft, rows, Sampling(1.0), np.array([0.99, 0.99, (i + 0.5) / draws]))
        walk = reference.rejection_reference(draft, case.distribution, case.uniforms)
        for row, walked in enumerate((walk, ops.committed(drawn(ops.REJECTION, case)))):
            path, token = outcome(walked)
            assert path == []
            counts[row, token] += 1 / draws
    assert counts == pytest.approx(np.stack([expected.numpy()] * 2), abs=2 / draws)


def ints(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


ROWS = torch.tensor([[0.0, 3, 0], [0, 0, 3], [3, 0, 0]])
TREE = (ints(1, 2), ints(-1, 0))
HALVES = torch.full((3,), 0.5, dtype=torch.float64)
ARGUMENTS = {
    "verify_greedy": (ROWS, *TREE),
    "verify_sampled": (ROWS, *TREE, 1.0, HALVES),
    "verify_rejection": (ROWS, *TREE, torch.full((1, 3), 1 / 3), ints(0, 0, -1), True, 1.0, HALVES),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_malformed_trees_and_rows_are_refused(name):
    kernel = partial(ops.result, name)
    rest = ARGUMENTS[name][3:]
    with pytest.raises(InputError, match="node 0 has parent 1"):
        kernel(ROWS, ints(1, 2), ints(1, 0), *rest)  # a cycle
    with pytest.raises(InputError, match="node 1 has parent 1"):
        kernel(ROWS, ints(1, 2), ints(-1, 1), *rest)
    with pytest.raises(InputError, match="2 parents need 2 tokens and 3 rows"):
        kernel(ROWS[:2], ints(1, 2), ints(-1, 0), *rest)
    with pytest.raises(InputError, match="4097 nodes: at most 4096"):
        kernel(ROWS, torch.zeros(4097, dtype=torch.int32), ints(*range(-1, 4096)), *rest)
    with pytest.raises(InputError, match="row 0 of the logits has no finite maximum"):
        kernel(torch.full((3, 3), -torch.inf), *TREE, *rest)


def test_arguments_that_do_not_fit_are_refused():
    sampled, rejection = (partial(ops.result, name) for name in (ops.SAMPLED, ops.REJECTION))
    with pytest.raises(InputError, match="needs 3 uniform numbers, got 2"):
        sampled(ROWS, *TREE, 1.0, HALVES[:2])
    for temperature in (0.0, 1e-42, float("inf"), float("nan")):
        with pytest.raises(InputError, match="temperature must be above 0"):
            sampled(ROWS, *TREE, temperature, HALVES)
    with pytest.raises(InputError, match="as wide as the logits, 3"):
        rejection(ROWS, *TREE, torch.ones(1, 2), ints(0, 0, 0), True, 1.0, HALVES)
    with pytest.raises(
        InputError, match="children of node 0 name a distribution that is not there"
    ):
        rejection(ROWS, *TREE, torch.ones(1, 3), ints(0, 1, 0), True, 1.0, HALVES)


def test_no_nodes_at_all_is_plain_decoding():
    assert outcome(greedy(Draft(), ROWS[:1])) == ([], 1)
    assert outcome(greedy(Draft(), ROWS[:1], lambda _path, row: -row)) == ([], 0)


def test_what_a_device_refuses_is_raised_when_it_is_read():
    for code, message in ((-1, "node 3"), (-2, "row 3"), (-3, "entry 3")):
        with pytest.raises(InputError, match=message):
            ops.committed(np.array([code, 3, -1], np.int32))


def test_all_that_a_kernel_gets_lies_where_the_rows_lie(monkeypatch):
    handed = []

    def kernel(rows, *arguments):
        handed.extend(a for a in (rows, *arguments) if isinstance(a, torch.Tensor))
        return ints(0, 1, -1)

    monkeypatch.setitem(ops.KERNELS, ops.REJECTION, kernel)
    tree, of = np.array([[0], [-1]], np.int32), np.array([0, -1], np.int32)
    distribution = torch.full((1, 3), 1 / 3)  # as drafters with a vocabulary of their own make it
    rows = torch.empty(2, 3, device="meta")
    ops.run(ops.REJECTION, rows, *tree, distribution, of, True, 1.0, np.full(2, 0.5))
    assert len(handed) == 6
    assert {a.device.type for a in handed} == {"meta"}


def test_adjusted_rows_decide():
    draft = Draft(np.array([1, 2], np.int32), np.array([-1, 0], np.int32))
    seen = []

    def adjust(path, row):
        seen.append(list(path))
        return row

    assert outcome(greedy(draft, ROWS, adjust)) == outcome(greedy(draft, ROWS)) == ([0, 1], 0)
    assert seen == [[], [1], [1, 2]]
    without_one = lambda _path, row: row.index_fill(0, torch.tensor([1]), -torch.inf)  # noqa: E731
    assert outcome(greedy(draft, ROWS, without_one)) == ([], 0)
    with pytest.raises(InputError, match="no finite maximum"):
        greedy(draft, ROWS, lambda _path, row: row - torch.inf)
