"""The likeliest tokens after each node of a tree, on the host."""

import numpy as np
import torch

from tasc import _native
from tasc.decoding.verify.ops import native
from tasc.models.certified_head import Logits, TopLogits


def top_softmax(logits: Logits, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the ``count`` likeliest tokens of each row of ``logits`` (r, V), and probabilities.

    Tokens: (r · count,) int32, best first, padded with -1. Probabilities: float32, within 1 %.
    From another device, one copy moves both to the host. ``TopLogits`` has approximate totals,
    and its probabilities have the same error.
    """
    if isinstance(logits, TopLogits):
        assert logits.totals is not None
        probabilities = np.exp(np.minimum(logits.logits - logits.totals[:, None], 0))
        return logits.ids.ravel(), probabilities.ravel()
    if logits.device.type == "cpu":
        return native(_native.top_softmax, logits, count, 1.0)
    return by_torch(logits, count)


def by_torch(logits: torch.Tensor, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Compute ``top_softmax`` with torch operations, on any device."""
    rows = logits.float()
    top = rows.topk(min(count, rows.shape[1]))
    probabilities = (top.values - rows.logsumexp(-1, keepdim=True)).exp()
    tokens = top.indices.masked_fill(top.values == -torch.inf, -1).int()
    packed = torch.stack((tokens, probabilities.view(torch.int32))).cpu().numpy()
    return packed[0].ravel(), packed[1].ravel().view(np.float32)
