"""A model of which each process holds a share: parameters, gradients and moments of the optimizer.

torch's ``fully_shard`` (FSDP2) takes each layer, and then what is around them. A layer is gathered
for its forward and for its backward; its gradients are added up over the processes, and each keeps
its share of the sums. So a forward or a backward is something that all processes do at once.
"""

import os
from collections.abc import Mapping

import torch
from torch import Tensor, distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from tasc.errors import InputError
from tasc.training import processes
from tasc.training.objectives.language import innermost


def is_wanted(fsdp: bool) -> bool:
    """Say whether to shard: where ``fsdp`` says so, or accelerate launch was configured to.

    Raises:
        InputError: ``fsdp``, and this process is alone.
    """
    alone = processes.group().size == 1
    if fsdp and alone:
        raise InputError(
            "fsdp shares a model out among processes, and this is one: add --processes 2, or "
            "leave out --fsdp"
        )
    return fsdp or (not alone and os.environ.get("ACCELERATE_USE_FSDP") == "true")


def shard(model: nn.Module) -> None:
    """Leave to each process its share of a model that all of them hold.

    Raises:
        InputError: it has 8-bit weights.
    """
    if any(type(parameter).__name__ == "Int8Params" for parameter in model.parameters()):
        # Gathered, such a weight is a plain one: "'Parameter' object has no attribute 'CB'".
        raise InputError(
            "weights in 8 bits lose their scales when they are sharded: take --quantize nf4 with "
            "--fsdp, or leave out --fsdp"
        )
    device = next(model.parameters()).device
    mesh = init_device_mesh(device.type, (distributed.get_world_size(),))
    layers = getattr(innermost(model), "_no_split_modules", None) or ()
    parts = [part for part in model.modules() if type(part).__name__ in layers]
    for part in (*parts, model):
        held = fully_shard(part, mesh=mesh)
        # Sums, not means: the loss is divided by the targets of the whole step already.
        held.set_gradient_divide_factor(1.0)
        held.set_force_sum_reduction_for_comms(True)  # what gloo has, too


def is_sharded(model: nn.Module) -> bool:
    """Say whether ``shard`` was there."""
    return isinstance(model, FSDPModule)


@torch.no_grad()
def gathered(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors whole, on the CPU, to the first process, and none to the others."""
    found = {}
    for name, tensor in tensors.items():
        whole = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
        if processes.group().first:
            found[name] = whole.detach().cpu()
    return found


@torch.no_grad()
def hand_out(whole: Mapping[str, Tensor], into: Mapping[str, Tensor]) -> None:
    """Undo ``gathered``: each process gets its share of what the first has.

    What is whole is put back in the first alone, which alone reports and writes.
    """
    first = processes.group().first
    for name, tensor in into.items():
        if isinstance(tensor, DTensor):
            held = whole[name] if first else torch.empty(tensor.shape, dtype=tensor.dtype)
            here = held.to(tensor.device)
            tensor.copy_(distribute_tensor(here, tensor.device_mesh, tensor.placements))
        elif first:
            tensor.copy_(whole[name])


def share(whole: Tensor, like: Tensor) -> Tensor:
    """Return what this process holds of a tensor; all of it where ``like`` is whole as well."""
    if not isinstance(like, DTensor) or whole.shape != like.shape:
        return whole
    here = whole.to(like.device)
    # Without a source: each takes its own part of what it has.
    return distribute_tensor(here, like.device_mesh, like.placements, src_data_rank=None)
