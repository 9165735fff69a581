"""LoRA layers that keep less for the backward pass and pass over the input less often than PEFT's.

Outputs and gradients are PEFT's, up to the order of additions.
"""

import numpy as np
import torch
from peft.tuners.lora import layer as peft_layers
from torch import Tensor
from torch.autograd.function import FunctionCtx
from torch.nn.functional import linear

ADAPTER = "default"  # PEFT's name of the only adapter


class BitDropout(torch.nn.Module):
    """Inverted dropout that draws four mask elements from each random 64-bit number.

    The distribution is that of ``nn.Dropout``, with the rate rounded to 1/65536. ``nn.Dropout``
    draws a number per element, which takes a quarter of a LoRA training step on a CPU.
    """

    def __init__(self, rate: float) -> None:
        """Drop each element with probability ``rate``, in [0, 1)."""
        super().__init__()
        dropped = round(rate * 65536)
        self.threshold = dropped - 32768  # int16 values below it are dropped
        self.scale = 65536 / (65536 - dropped)

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return x
        return x * self.mask(x).to(x.dtype).mul_(self.scale)

    def mask(self, x: Tensor) -> Tensor:
        """Draw a mask in the shape of ``x``, int8: 0 for elements that are dropped, else 1.

        The seed is from torch's generator; the numbers are from one that is five times as fast.
        """
        seed = int(torch.randint(2**62, ()))
        numbers = np.random.SFC64(seed).random_raw(-(-x.numel() // 4))
        remaining = numbers.view(np.int16)[: x.numel()] >= self.threshold
        return torch.from_numpy(remaining.view(np.int8)).view(x.shape).to(x.device)


class LowRank(peft_layers.Linear):  # type: ignore[misc]
    """PEFT's layer for linear layers on a CPU.

    PEFT's keeps a float32 copy of its input after dropout, and the mask of the dropout in float32.
    """

    def forward(self, x: Tensor, *args: object, **kwargs: object) -> Tensor:
        """Return (..., out) of ``x`` (..., in)."""
        base, dropout = self.base_layer, self.lora_dropout[ADAPTER]
        autocast = torch.is_autocast_enabled(x.device.type)
        mixed = base.weight.dtype != torch.float32 and not autocast
        if self.disable_adapters or self.merged or mixed or args or kwargs:
            out: Tensor = super().forward(x, *args, **kwargs)
            return out
        drops = isinstance(dropout, BitDropout) and dropout.training
        mask = dropout.mask(x) if drops else None
        scale = self.scaling[ADAPTER] * (dropout.scale if drops else 1.0)
        down, up = self.lora_A[ADAPTER].weight, self.lora_B[ADAPTER].weight
        inputs = x, base.weight, base.bias, down, up, mask, scale
        result: Tensor = _LowRankSum.apply(*inputs)  # type: ignore[no-untyped-call]
        return result


class _LowRankSum(torch.autograd.Function):
    """x Wᵀ + b + scale (x ⊙ mask) Aᵀ Bᵀ, with gradients for x, A and B."""

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        x: Tensor,  # (..., in)
        weight: Tensor,  # W (out, in), frozen
        bias: Tensor | None,  # b (out,), frozen
        down: Tensor,  # A (rank, in)
        up: Tensor,  # B (out, rank)
        mask: Tensor | None,  # int8, in the shape of x
        scale: float,
    ) -> Tensor:
        device = x.device.type
        autocast = torch.is_autocast_enabled(device)
        dtype = torch.get_autocast_dtype(device) if autocast else weight.dtype
        rows = x.to(dtype).flatten(0, -2)
        drawn = None if mask is None else mask.flatten(0, -2)
        with torch.autocast(device, enabled=False):
            masked = rows if drawn is None else rows * drawn
            inner = masked @ down.to(dtype).T
            out = linear(rows, weight.to(dtype), None if bias is None else bias.to(dtype))
            out.addmm_(inner, up.to(dtype).T, alpha=scale)
        ctx.save_for_backward(rows, weight, down, up, drawn, inner)  # type: ignore[arg-type]
        ctx.scale, ctx.shape, ctx.input_dtype = scale, x.shape, x.dtype  # type: ignore[attr-defined]
        return out.view(*x.shape[:-1], len(weight))

    @staticmethod
    def backward(ctx: FunctionCtx, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        rows, weight, down, up, drawn, inner = ctx.saved_tensors  # type: ignore[attr-defined]
        dtype = rows.dtype
        outer = gradients[0].to(dtype).flatten(0, -2)
        of_inner = (outer @ up.to(dtype)).mul_(ctx.scale)  # type: ignore[attr-defined]
        of_up = (outer.T @ inner).to(up.dtype).mul_(ctx.scale)  # type: ignore[attr-defined]
        masked = rows if drawn is None else rows * drawn
        of_down = (of_inner.T @ masked).to(down.dtype)
        del masked
        of_x = None
        if ctx.needs_input_grad[0]:  # type: ignore[attr-defined]
            through = of_inner @ down.to(dtype)
            if drawn is not None:
                through.mul_(drawn)
            through.addmm_(outer, weight.to(dtype))
            of_x = through.view(ctx.shape).to(ctx.input_dtype)  # type: ignore[attr-defined]
        return of_x, None, None, of_down, of_up, None, None
