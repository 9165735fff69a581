"""Kernels against their definition in torch, and on bad input; CUDA's against the C++ ones."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings

from tasc.backend import cuda
from tasc.decoding.core.draft import Draft, ProposalProbs, chain
from tasc.decoding.core.sampling import Sampling
from tasc.decoding.verify import greedy, ops, reference
from tasc.errors import InputError
from tasc.models.cache import compact, compact_reference
from tests.decoding.drafts import DTYPES, NEAR, Case, cases, nudged


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
    below, expected, above = (
        outcome(walk(c.draft, c.distribution, c.uniforms))
        for c in (nudged(case, -NEAR), case, nudged(case, NEAR))
    )
    assume(below == expected == above)  # else rounding may decide
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
    two = np.array([0, 1], np.int32), np.array([-1, -1], np.int32)
    draft = Draft(*two, ProposalProbs(q, of, replacement=False))
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
    long = torch.zeros(4097, dtype=torch.int32), ints(*range(-1, 4096))
    for rows, tree, message in (
        (ROWS, (ints(1, 2), ints(1, 0)), "node 0 has parent 1"),  # a cycle
        (ROWS, (ints(1, 2), ints(-1, 1)), "node 1 has parent 1"),
        (ROWS[:2], TREE, "2 parents need 2 tokens and 3 rows"),
        (ROWS, long, "4097 nodes: at most 4096"),
        (torch.full((3, 3), -torch.inf), TREE, "row 0 of the logits has no finite maximum"),
    ):
        with pytest.raises(InputError, match=message):
            ops.result(name, rows, *tree, *ARGUMENTS[name][3:])


def test_arguments_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match="needs 3 uniform numbers, got 2"):
        ops.result(ops.SAMPLED, ROWS, *TREE, 1.0, HALVES[:2])
    for temperature in (0.0, 1e-42, float("inf"), float("nan")):
        with pytest.raises(InputError, match="temperature must be above 0"):
            ops.result(ops.SAMPLED, ROWS, *TREE, temperature, HALVES)
    for width, of, message in (
        (2, ints(0, 0, 0), "as wide as the logits, 3"),
        (3, ints(0, 1, 0), "children of node 0 name a distribution that is not there"),
    ):
        drawn_from = torch.ones(1, width), of, True
        with pytest.raises(InputError, match=message):
            ops.result(ops.REJECTION, ROWS, *TREE, *drawn_from, 1.0, HALVES)


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


@pytest.fixture
def device():
    """An NVIDIA device with the library of kernels: without one, the test is skipped."""
    if cuda.library() is None or not torch.cuda.is_available():
        pytest.skip("needs libtasc_cuda and an NVIDIA device")


def tree_of(rng: np.random.Generator, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    n = len(rows) - 1
    parents = np.array([rng.integers(-1, i) if i else -1 for i in range(n)], np.int32)
    likely = rows.float().argmax(-1).numpy().astype(np.int32)
    other = rng.integers(0, rows.shape[1], n).astype(np.int32)
    tokens = np.where(rng.random(n) < 0.7, likely[parents + 1], other)
    return torch.from_numpy(tokens.astype(np.int32)), torch.from_numpy(parents)


@pytest.mark.gpu
@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("n", "size"), [(0, 3000), (5, 3000), (64, 151_936), (200, 1001)])
def test_every_kernel_equals_the_native_one(n, size, dtype):
    rng = np.random.default_rng(n)
    for _ in range(5):
        rows = torch.from_numpy(rng.normal(0, 3, (n + 1, size))).to(dtype)
        tree = tree_of(rng, rows)
        uniforms = torch.from_numpy(rng.random(n + 1))
        distributions = torch.from_numpy(rng.dirichlet([0.1] * size, n + 1).astype(np.float32))
        of = torch.arange(-1, n, dtype=torch.int32)
        calls: dict[str, tuple[Any, ...]] = {
            "verify_greedy": tree,
            "verify_sampled": (*tree, 0.8, uniforms),
            "verify_rejection": (*tree, distributions, of, True, 0.8, uniforms),
        }
        for name, arguments in calls.items():
            found = ops.result(name, rows.cuda(), *arguments)
            if np.array_equal(found, ops.result(name, rows, *arguments)):
                continue
            # A decision within the tolerance of its boundary may fall either way.
            assert name != "verify_greedy"
            below, above = (
                ops.result(name, rows, *arguments[:-1], (uniforms + by).clamp(0, 1 - 1e-12))
                for by in (-NEAR, NEAR)
            )
            assert not np.array_equal(below, above)


@pytest.mark.gpu
@pytest.mark.usefixtures("device")
def test_greedy_on_the_device_reads_arrays_of_a_draft():
    rows = torch.eye(3, 8)
    path, bonus = greedy(chain(np.array([0, 1], np.int32)), rows.cuda())
    assert (path.tolist(), bonus) == ([0, 1], 2)


@pytest.mark.gpu
@pytest.mark.usefixtures("device")
def test_bad_trees_and_rows_are_refused_once_they_are_read():
    tree = ints(1, 2)
    empty = torch.full((3, 8), -torch.inf).cuda()
    with pytest.raises(InputError, match="node 0"):
        ops.run(ops.GREEDY, torch.zeros(3, 8).cuda(), tree, tree)
    with pytest.raises(InputError, match="row 0"):
        ops.run(ops.GREEDY, empty, tree, ints(-1, 0))


@pytest.mark.gpu
@pytest.mark.usefixtures("device")
def test_compaction_on_the_device_equals_its_definition():
    moves = np.array([(0, 8, 7), (0, 12, 8), (0, 13, 9), (2, 7, 3), (2, 8, 4)], np.int32)
    for d in (3, 64):
        data = torch.randn(4, 3, 2, 20, d)
        expected, moved = data.clone(), data.cuda()
        compact_reference(expected, moves)
        compact(moved, moves)
        assert torch.equal(moved.cpu(), expected)
