"""Linear layers of packed weights: reading them once is nearly the whole cost of a few rows.

Each output is a sum over the inputs in ascending order, whatever the number of rows, so the outputs
of a row are the same bits alone, in a tree and in a batch. torch adds in another order for each
number of rows: only a tenth of its products are the same bits for 13 rows as for one.

Weights may be stored in 8 bits, with a scale for each ``BLOCK`` inputs of an output. The inputs of
such a layer are rounded likewise, each row by itself, so products are of whole numbers, which
processors multiply faster, and their sums are exact. The bits of a row still do not depend on other
rows, nor on the CPU.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch
from torch import nn
from torch.nn import functional

from tasc import _native
from tasc.errors import InputError

DTYPES = torch.float32, torch.bfloat16
BLOCK = 32  # inputs that share a scale
_ROWS = 256  # that are quantised at a time, in a cache
_SPIN = 100  # microseconds that threads spin after a product: the next one follows soon


def quantised(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return ``weight`` (n, k) as int8 (n, k) and scales (n, blocks) bfloat16, one per block.

    A scale is the block's largest magnitude divided by 127, rounded up; ties of weights are rounded
    to even. The scale of a block that is not finite is not finite either.
    """
    parts = [_quantised(rows) for rows in torch.split(weight, _ROWS)]
    return torch.cat([whole for whole, _ in parts]), torch.cat([scales for _, scales in parts])


def _quantised(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    blocks = _blocks(weight.float())
    scales = _rounded_up(blocks.abs().amax(2) / 127)
    whole = (blocks / scales[..., None]).nan_to_num_(0, 0, 0).round_().clamp_(-127, 127)
    return whole.to(torch.int8).flatten(1)[:, : weight.shape[1]], scales.bfloat16()


def dequantised(whole: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """Return the float32 (n, k) that ``whole`` (n, k) and ``scales`` (n, blocks) stand for."""
    wide = _blocks(whole.float()) * scales.float()[..., None]
    return wide.flatten(1)[:, : whole.shape[1]]


def rounded_inputs(x: torch.Tensor) -> torch.Tensor:
    """Return ``x`` (r, k) as a layer in 8 bits reads it, as float32: each block of a row rounded.

    A block's scale is its largest magnitude divided by 127. Blocks of numbers below 2^-100 are 0;
    blocks with a number that is not finite are NaN.
    """
    blocks = _blocks(x.float())
    most = blocks.abs().amax(2, keepdim=True)
    inverse = torch.where(most < 2.0**-100, 0, 127 / most)
    rounded = (blocks * inverse).round() * (most / 127)
    rounded = torch.where(blocks.isfinite().all(2, keepdim=True), rounded, torch.nan)
    return rounded.flatten(1)[:, : x.shape[1]]


def _blocks(x: torch.Tensor) -> torch.Tensor:
    """Return ``x`` (n, k) as (n, blocks, ``BLOCK``), with zeros after the last column."""
    padded = functional.pad(x, (0, -x.shape[1] % BLOCK))
    return padded.view(len(x), -1, BLOCK)


def _rounded_up(scales: torch.Tensor) -> torch.Tensor:
    """Return numbers >= 0 as the next larger float32 that bfloat16 represents."""
    return (scales.view(torch.int32) + 0xFFFF & ~0xFFFF).view(torch.float32)


class PackedLinear(nn.Module):
    """A linear layer for inference on the CPU. It has no parameters, so it cannot be trained."""

    def __init__(self, linear: nn.Linear, *, int8: bool = False) -> None:
        """Pack a copy of the weights of ``linear``, which are float32 or bfloat16.

        With ``int8`` they are rounded to 8 bits, and inputs are when they are multiplied; inputs
        and outputs keep the dtype.
        """
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.dtype = linear.weight.dtype
        weight = linear.weight.detach().contiguous()
        own: torch.Tensor | None = linear.bias
        self.bias = None if own is None else own.detach().float().contiguous()
        self.scales: torch.Tensor | None = None
        self.passes = False  # whether ``forward`` returns its input, which a certified head reads
        self.plain = False  # whether torch multiplies by a copy of the weights
        half = self.dtype == torch.bfloat16
        bias = () if self.bias is None else (self.bias.numpy(),)
        if int8:
            weight, self.scales = quantised(weight)
            scales = self.scales.view(torch.uint16).numpy()
            self.matrix = _native.PackedMatrix(weight.numpy(), scales, half, *bias)
        else:
            rows = (weight.view(torch.uint16) if half else weight).numpy()
            self.matrix = _native.PackedMatrix(rows, *bias)

    @property
    def weight(self) -> torch.Tensor:
        """A copy of the weight (n, k), in the dtype of inputs; of int8, times its scales."""
        dtype = self.dtype if self.scales is None else torch.int8
        weight = torch.empty(self.out_features, self.in_features, dtype=dtype)
        self.matrix.unpack(weight.data_ptr())
        if self.scales is not None:
            weight = dequantised(weight, self.scales).to(self.dtype)
        return weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Multiply x (..., k), of the layer's dtype; return (..., n)."""
        if self.passes:
            return x
        if self.plain:
            return self._plain(x)
        if x.dtype != self.dtype or x.shape[-1] != self.in_features or x.device.type != "cpu":
            raise InputError(
                f"a layer of {self.in_features} inputs in {self.dtype} on the CPU was given "
                f"{tuple(x.shape)} in {x.dtype} on {x.device}"
            )
        x = x.contiguous()
        out = x.new_empty((*x.shape[:-1], self.out_features))
        rows = x.numel() // self.in_features
        self.matrix.multiply(x.data_ptr(), rows, out.data_ptr(), thread_pool())
        return out

    def _plain(self, x: torch.Tensor) -> torch.Tensor:
        bias = None if self.bias is None else self.bias.to(self.dtype)
        if self.scales is not None:
            x = rounded_inputs(x.reshape(-1, self.in_features)).view(x.shape).to(self.dtype)
        return functional.linear(x, self.weight, bias)

    def _save_to_state_dict(
        self,
        destination: dict[str, torch.Tensor],
        prefix: str,
        keep_vars: bool,  # noqa: ARG002 - torch's signature
    ) -> None:
        destination[f"{prefix}weight"] = self.weight
        if self.bias is not None:
            destination[f"{prefix}bias"] = self.bias.to(self.dtype)

    def unpacked(self) -> nn.Linear:
        """Return a linear layer with a copy of the weights."""
        linear = nn.Linear(self.in_features, self.out_features, self.bias is not None, "meta")
        linear.load_state_dict(self.state_dict(), assign=True)
        return linear.requires_grad_(False)


def pack(model: nn.Module, *, int8: bool = False) -> None:
    """Replace the linear layers of ``model`` by packed ones, and free the weights they had.

    Does nothing where ``can_pack`` is false. Layers on other devices, of other dtypes or classes,
    such as quantised ones, stay. An embedding that shares its weight with the LM head keeps it.
    """
    if not can_pack():
        return
    for parent in list(model.modules()):
        for name, layer in list(parent.named_children()):
            if type(layer) is not nn.Linear or layer.weight.device.type != "cpu":
                continue
            if layer.weight.dtype in DTYPES:
                setattr(parent, name, PackedLinear(layer, int8=int8))


def unpack(model: nn.Module) -> bool:
    """Replace packed layers of ``model`` by linear layers; return whether it had any."""
    was_packed = is_packed(model)
    for parent in list(model.modules()):
        for name, layer in list(parent.named_children()):
            if isinstance(layer, PackedLinear):
                setattr(parent, name, layer.unpacked())
    return was_packed


@contextmanager
def whole_inputs(model: nn.Module) -> Iterator[None]:
    """Let layers in 8 bits multiply their inputs without rounding them in the block.

    Where inputs are rounded, a difference in a last bit becomes one of 1/127, so two correct ways
    to compute a model differ by as much as the rounding itself.
    """
    rounded = [
        (parent, name, layer)
        for parent in list(model.modules())
        for name, layer in list(parent.named_children())
        if isinstance(layer, PackedLinear) and layer.scales is not None
    ]
    for parent, name, layer in rounded:
        setattr(parent, name, PackedLinear(layer.unpacked()))
    try:
        yield
    finally:
        for parent, name, layer in rounded:
            setattr(parent, name, layer)


@contextmanager
def plain_products(model: nn.Module) -> Iterator[None]:
    """Let torch multiply by copies of packed weights in the block, as if nothing were packed."""
    layers = [module for module in model.modules() if isinstance(module, PackedLinear)]
    for layer in layers:
        layer.plain = True
    try:
        yield
    finally:
        for layer in layers:
            layer.plain = False


def can_pack() -> bool:
    """Return whether layers are packed on this CPU: it has AVX2, AVX-512 or NEON."""
    return _native.dense_instructions() != "portable"


_threads = 1  # of native kernels


def thread_pool() -> _native.ThreadPool | None:
    """Return the threads for native kernels; None outside of ``native_threads``."""
    return _pool(_threads)


@contextmanager
def native_threads(model: nn.Module) -> Iterator[None]:
    """Give the native kernels torch's threads in the block, and torch one, if ``model`` is packed.

    torch's threads spin for milliseconds after each operation, on the cores that the kernels'
    threads need: forwards over 60 tokens then took twenty times as long.
    """
    global _threads
    before, count = _threads, torch.get_num_threads()
    if count == 1 or not is_packed(model):
        yield
        return
    _threads = count
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(count)
        _threads = before


def is_packed(model: nn.Module) -> bool:
    """Return whether ``model`` has packed layers."""
    return any(isinstance(module, PackedLinear) for module in model.modules())


def is_int8(model: nn.Module) -> bool:
    """Return whether ``model`` has packed layers whose weights have 8 bits."""
    return any(isinstance(m, PackedLinear) and m.scales is not None for m in model.modules())


@cache
def _pool(threads: int) -> _native.ThreadPool | None:
    return _native.ThreadPool(threads, _SPIN) if threads > 1 else None
