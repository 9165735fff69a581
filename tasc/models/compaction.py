"""Compaction of a key/value cache: accepted positions move down to where their row goes on."""

import numpy as np
import torch

from tasc import _native
from tasc.backend import cuda
from tasc.backend.tree import refusals
from tasc.errors import InputError


def compact_reference(data: torch.Tensor, moves: np.ndarray) -> None:
    """Do what ``compact`` does, in plain torch."""
    row, source, target = torch.from_numpy(moves).long().to(data.device).T
    data[..., row, :, target, :] = data[..., row, :, source, :]


def compact(data: torch.Tensor, moves: np.ndarray) -> None:
    """Move position ``from`` of a row to ``to``, in place, for each of ``moves`` (m, 3) int32.

    ``data`` (..., rows, heads, positions, d), contiguous, of any dtype. A move is (row, from, to):
    it goes down or stays, and both rise behind the move before it in its row; rows come one after
    another. Raises InputError for others. One kernel on CUDA, one native call on the CPU.
    """
    if data.is_cuda and cuda.library() is None:
        compact_reference(data, moves)
    elif data.is_cuda:
        compact_kv(data, torch.from_numpy(moves).to(data.device, non_blocking=True))
    else:  # not through the dispatcher, which takes longer than the work
        _on_cpu(data, moves)


@torch.library.custom_op("tasc::compact_kv", mutates_args={"data"})
def compact_kv(data: torch.Tensor, moves: torch.Tensor) -> None:
    """Do what ``compact`` does, as a torch operator; ``moves`` lie on the device of ``data``.

    On CUDA, where nothing waits for them, the caller answers for the moves.
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
            "a cache to compact is contiguous, (..., rows, heads, positions, d), got shape "
            f"{tuple(data.shape)}, strides {data.stride()}"
        )
