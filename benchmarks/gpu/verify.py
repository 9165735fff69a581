"""Time to verify a large tree, relative to one read of its logits."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from benchmarks.gpu.setup import Setup, spread
from tasc.decoding.verify import ops

NODES, VOCABULARY = 64, 151_936
DTYPES = (torch.bfloat16, torch.float16, torch.float32)
BYTES = 512 * 2**20  # of all copies: several times the cache of a device


def run(setup: Setup) -> dict[str, Any]:
    """Measure every dtype; ``times_one_read`` should stay below 2."""
    size = 3_000 if setup.quick else VOCABULARY
    return {str(dtype).removeprefix("torch."): measure(setup, dtype, size) for dtype in DTYPES}


def measure(setup: Setup, dtype: torch.dtype, size: int) -> dict[str, Any]:
    """Time the kernels, and three ways to read as many bytes with torch.

    A copy reads and writes, so it counts half.
    """
    rng = np.random.default_rng(setup.seed)
    base = torch.from_numpy(rng.normal(0, 3, (NODES + 1, size)).astype(np.float32))
    base = base.to(setup.device, dtype)
    copies = max(BYTES // base.nbytes, 2) if setup.cuda else 2
    rows = [base.clone() for _ in range(copies)]
    best = base.float().argmax(-1).cpu().numpy().astype(np.int32)
    parents = np.array([rng.integers(-1, i) if i else -1 for i in range(NODES)], np.int32)
    tokens = best[parents + 1]  # every path of likeliest tokens is accepted
    tree = [torch.from_numpy(a).to(setup.device) for a in (tokens, parents)]
    into = torch.empty_like(base)
    uniforms = torch.from_numpy(rng.random(NODES + 1)).to(setup.device)

    def verify(kernel: str, *arguments: Any) -> object:  # noqa: ANN401
        return (ops.KERNELS[kernel] if setup.cuda else partial(ops.result, kernel))(*arguments)

    ways: dict[str, Callable[[torch.Tensor], object]] = {
        "verify_greedy": lambda r: verify(ops.GREEDY, r, *tree),
        "verify_sampled": lambda r: verify(ops.SAMPLED, r, *tree, 0.8, uniforms),
        "amax": lambda r: r.amax(-1),
        "sum": lambda r: r.sum(dtype=torch.float32),
        "copy": lambda r: into.copy_(r),
    }
    repeats = 5 if setup.quick else 100
    seconds = {
        name: spread(setup.times([partial(way, row) for row in rows], repeats))
        for name, way in ways.items()
    }
    once = min(seconds["amax"]["median"], seconds["sum"]["median"], seconds["copy"]["median"] / 2)
    return {
        "nodes": NODES,
        "vocabulary": size,
        "bytes": base.nbytes,
        "seconds": seconds,
        "one_read_seconds": once,
        "one_read_bytes_per_second": base.nbytes / once,
        "times_one_read": seconds["verify_greedy"]["median"] / once,
    }
