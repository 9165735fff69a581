"""The CUDA kernels against the C++ ones, which tests without a device hold to the definition."""

from typing import Any

import numpy as np
import pytest
import torch

from tasc.backend import cuda
from tasc.decoding.verify import greedy, ops
from tests.decoding.drafts import DTYPES, NEAR

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def _needs_a_device():
    if cuda.library() is None or not torch.cuda.is_available():
        pytest.skip("needs libtasc_cuda and an NVIDIA device")


def trees(rng: np.random.Generator, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    n = len(rows) - 1
    parents = np.array([rng.integers(-1, i) if i else -1 for i in range(n)], np.int32)
    likely = rows.float().argmax(-1).numpy().astype(np.int32)
    other = rng.integers(0, rows.shape[1], n).astype(np.int32)
    tokens = np.where(rng.random(n) < 0.7, likely[parents + 1], other)
    return torch.from_numpy(tokens.astype(np.int32)), torch.from_numpy(parents)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("n", "size"), [(0, 3000), (5, 3000), (64, 151_936), (200, 1001)])
def test_every_kernel_equals_the_native_one(n, size, dtype):
    rng = np.random.default_rng(n)
    for _ in range(5):
        rows = torch.from_numpy(rng.normal(0, 3, (n + 1, size))).to(dtype)
        tree = trees(rng, rows)
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


def test_greedy_on_the_device_reads_arrays_of_a_draft():
    from tasc.decoding.core.draft import chain

    rows = torch.eye(3, 8)
    path, bonus = greedy(chain(np.array([0, 1], np.int32)), rows.cuda())
    assert (path.tolist(), bonus) == ([0, 1], 2)


def test_bad_trees_and_rows_are_refused_once_they_are_read():
    from tasc.errors import InputError

    tree = torch.tensor([1, 2], dtype=torch.int32)
    rows = torch.zeros(3, 8).cuda()
    with pytest.raises(InputError, match="node 0"):
        ops.run(ops.GREEDY, rows, tree, tree)
    chain = torch.tensor([-1, 0], dtype=torch.int32)
    empty = torch.full((3, 8), -torch.inf).cuda()
    with pytest.raises(InputError, match="row 0"):
        ops.run(ops.GREEDY, empty, tree, chain)


def test_compaction_on_the_device_equals_its_definition():
    from tasc.models.cache import compact, compact_reference

    moves = np.array([(0, 8, 7), (0, 12, 8), (0, 13, 9), (2, 7, 3), (2, 8, 4)], np.int32)
    for d in (3, 64):
        data = torch.randn(4, 3, 2, 20, d)
        expected, moved = data.clone(), data.cuda()
        compact_reference(expected, moves)
        compact(moved, moves)
        assert torch.equal(moved.cpu(), expected)
