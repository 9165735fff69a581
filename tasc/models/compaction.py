"""Compaction of a key/value cache as a torch operator: an accepted path moves into place."""

import numpy as np
import torch

from tasc import _native
from tasc.backend import cuda
from tasc.backend.tree import refusals
from tasc.errors import InputError


def compact_reference(data: torch.Tensor, start: int, path: torch.Tensor) -> None:
    """Do what ``compact_kv`` does, in plain torch."""
    data[..., start : start + len(path), :] = data[..., start + path.long(), :]


@torch.library.custom_op("tasc::compact_kv", mutates_args={"data"})
def compact_kv(data: torch.Tensor, start: int, path: torch.Tensor) -> None:
    """Move position ``start + path[j]`` of ``data`` to ``start + j``, in place, for every j.

    ``data`` (..., positions, d), contiguous, of any dtype; ``path`` (k,) int32 on the CPU or on the
    device of ``data``, rising, with ``start + path[-1]`` inside. Nothing in front of ``start`` is
    touched. On the CPU a wrong path raises InputError; on CUDA the caller answers for it, since the
    path is not waited for.
    """
    if data.dim() < 2 or not data.is_contiguous() or path.dtype != torch.int32:
        raise InputError(
            "a cache to compact is contiguous with positions second to last, and its path int32; "
            f"got shape {tuple(data.shape)}, strides {data.stride()}, path of {path.dtype}"
        )
    positions, size = data.shape[-2], data.shape[-1] * data.element_size()
    if data.is_cuda:
        path = path.to(data.device)
        blocks = data.numel() // max(positions * data.shape[-1], 1)
        with torch.cuda.device(data.device):
            stream = torch.cuda.current_stream().cuda_stream
            where = (data.data_ptr(), blocks, positions * size, size, size, start)
            cuda.launch("tasc_compact", *where, path.data_ptr(), len(path), stream)
        return
    view = data.detach().view(torch.uint8).view(-1, positions, size).numpy()
    with refusals():
        _native.compact(view, start, np.ascontiguousarray(path.numpy()))


@compact_kv.register_fake
def _nothing(data: torch.Tensor, start: int, path: torch.Tensor) -> None:  # noqa: ARG001
    return None
