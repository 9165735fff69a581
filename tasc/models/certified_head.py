"""The largest logits of an LM head, exact, from copies of its rows in 8 bits.

Greedy decoding needs one logit of a state. Products with 8-bit rows, a quarter or half of the
bytes, bound all of them (``kernels/include/tasc/certified_head.h``); only rows whose bound reaches
the largest logits are multiplied exactly, with the bits of the whole head.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from transformers import PreTrainedModel

from tasc import _native
from tasc.models.packed import PackedLinear, is_int8, thread_pool

LEAST_ROWS = 1 << 13
LEAST_WEIGHTS = 1 << 22  # fewer stay in a cache, where reading them is no cost
# that multiply bytes, or pairs of 16 bits, fast enough
INSTRUCTIONS = "avx512bf16", "avx512", "avx2", "neonbf16", "neondot"
_PANEL = 16  # rows that are multiplied together
_MOST_EXACT = 1 / 32  # share of the rows above which the whole head is faster
_CALLS = 16  # over which that share is averaged


@dataclass(frozen=True, eq=False)
class TopLogits:
    """The largest logits of r states, instead of all: largest first, smaller ids first on ties.

    ``ids`` (r, k) int32, ``logits`` (r, k) float32. ``totals`` (r,) float32: the logarithm of the
    sum of e^logit over all ids, within the error of 8-bit weights; None for k = 1.
    """

    ids: np.ndarray
    logits: np.ndarray
    totals: np.ndarray | None

    def __len__(self) -> int:
        return len(self.ids)


Logits = torch.Tensor | TopLogits  # (r, V), or the largest of them


class CertifiedHead:
    """The packed LM head of a model, which finds the largest logits of a forward."""

    def __init__(self, linear: PackedLinear) -> None:
        """Copy the rows of ``linear`` in 8 bits. Raises ValueError unless all are finite."""
        self.linear = linear
        self.native = _native.CertifiedHead(linear.matrix)
        self.exact = 0.0  # mean share of the rows that were multiplied exactly

    @property
    def pays(self) -> bool:
        """Whether bounds have left few enough rows so far."""
        return self.exact < _MOST_EXACT

    def top(
        self, forward: Callable[[], torch.Tensor], sizes: Sequence[int], count: int
    ) -> list[Logits]:
        """Run ``forward``, which returns logits (B, r, V); return the ``count`` largest ones.

        One entry per sequence, of its first ``sizes[i]`` rows. A sequence gets all logits if one of
        its states has no certificate, such as NaN.
        """
        self.linear.passes = True
        try:
            states = forward()
        finally:
            self.linear.passes = False
        parts = [rows[:size] for rows, size in zip(states, sizes, strict=True)]
        states = parts[0] if len(parts) == 1 else torch.cat(parts)
        ids, values, totals = self.largest(states, count)
        ends = np.cumsum(sizes)
        logits: list[Logits] = []
        for part, begin, end in zip(parts, ends - sizes, ends, strict=True):
            rows = slice(begin, end)
            if (ids[rows, 0] < 0).any():
                logits.append(self.linear(part))
            else:
                sums = None if totals is None else totals[rows]
                logits.append(TopLogits(ids[rows], values[rows], sums))
        return logits

    def largest(
        self, states: torch.Tensor, count: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Return the fields of ``TopLogits`` for ``states`` (r, d); id -1: no certificate."""
        states, rows = states.contiguous(), len(states)
        ids, logits = np.empty((rows, count), np.int32), np.empty((rows, count), np.float32)
        totals = np.empty(rows, np.float32) if count > 1 else None
        total = 0 if totals is None else totals.ctypes.data
        data = states.data_ptr(), ids.ctypes.data, logits.ctypes.data, total
        panels = self.native.top(data, rows, count, thread_pool())
        share = panels * _PANEL / (max(rows, 1) * self.linear.out_features)
        self.exact += (share - self.exact) / _CALLS
        return ids, logits, totals


def certified_head(model: PreTrainedModel, forward: Callable[[], object]) -> CertifiedHead | None:
    """Return the certified head of ``model``, or None where the whole head is faster or needed.

    That is without packed layers or fast products of bytes, for small heads, heads with a bias or
    weights in 8 bits (their copy is as large), and for models that change the logits after the
    head. ``forward`` runs the model once to see that.
    """
    linear = model.get_output_embeddings()
    if not isinstance(linear, PackedLinear) or linear.bias is not None or is_int8(linear):
        return None
    rows, width = linear.out_features, linear.in_features
    small = rows < LEAST_ROWS or rows * width < LEAST_WEIGHTS
    if small or _native.dense_instructions() not in INSTRUCTIONS:
        return None
    outputs: list[torch.Tensor] = []
    with (
        linear.register_forward_hook(lambda _module, _inputs, out: outputs.append(out)),
        model.register_forward_hook(lambda _module, _inputs, out: outputs.append(out.logits)),
    ):
        forward()
    if len({each.data_ptr() for each in outputs}) != 1:
        return None
    try:
        return CertifiedHead(linear)
    except ValueError:  # a row that is not finite
        return None
