"""Compaction of a key/value cache: move accepted positions down to the end of their row."""

import numpy as np
import torch

from tasc import _native
from tasc.backend import cuda
from tasc.backend.tree import refusals
from tasc.errors import InputError


def compact_reference(data: torch.Tensor, moves: np.ndarray) -> None:
    """Compact in plain torch: the definition of ``compact``."""
    row, source, target = torch.from_numpy(moves).long().to(data.device).T
    data[..., row, :, target, :] = data[..., row, :, source, :]


def compact(data: torch.Tensor, moves: np.ndarray) -> None:
    """Move positions of rows in place, by ``moves`` (m, 3) int32.

    ``data`` (..., rows, heads, positions, d) is contiguous, of any dtype. A move is (row, source,
    target) with target <= source. Moves are sorted by row; within a row, sources and targets rise.
    Raises InputError for other moves. Launches one kernel on CUDA, one native call on the CPU.
    """
    if data.is_cuda and cuda.library() is None:
        compact_reference(data, moves)
    elif data.is_cuda:
        compact_kv(data, torch.from_numpy(moves).to(data.device, non_blocking=True))
    else:  # not through torch's dispatcher, which would take longer than the work
        _on_cpu(data, moves)


@torch.library.custom_op("tasc::compact_kv", mutates_args={"data"})
def compact_kv(data: torch.Tensor, moves: torch.Tensor) -> None:
    """Compact as a torch operator; ``moves`` are on the device of ``data``.

    On CUDA the moves are not checked, as that would wait for the device.
    """
    if not data.is_cuda:
        _on_cpu(data, moves.numpy())
        return
    _check(data)
    rows, heads, positions, d = data.shape[-4:]
    blocks = data.numel() // max(positions * d, 1)
    shape = (blocks, rows, heads, positions, d * data.element_size())
    with torch.cuda.device(data.device):
        stream = torch.cuda.current_stream().cuda_stream
        moves = moves.contiguous()
        cuda.launch("tasc_compact", data.data_ptr(), *shape, moves.data_ptr(), len(moves), stream)


@compact_kv.register_fake
def _nothing(data: torch.Tensor, moves: torch.Tensor) -> None:  # noqa: ARG001
    return None


def _on_cpu(data: torch.Tensor, moves: np.ndarray) -> None:
    _check(data)
    rows, heads, positions, d = data.shape[-4:]
    bytes_ = data.detach().view(torch.uint8)
    with refusals():
        _native.compact(
            bytes_.view(-1, rows, heads, positions, d * data.element_size()).numpy(), moves
        )


def _check(data: torch.Tensor) -> None:
    if data.dim() < 4 or not data.is_contiguous():
        raise InputError(
            "the cache must be contiguous, of shape (..., rows, heads, positions, d): got shape "
            f"{tuple(data.shape)}, strides {data.stride()}"
        )
