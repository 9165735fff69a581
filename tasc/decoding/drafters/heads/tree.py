"""Dynamic draft trees: the most probable paths, within a maximum number of nodes.

A node's value is the product of the probabilities on its path. Nothing here waits for the device.
"""

import torch
from torch import Tensor

from tasc.decoding.drafters.heads.draft_vocab.full import DraftVocabulary


def ranked(
    levels: list[tuple[Tensor, Tensor, Tensor]], max_nodes: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return tokens, parents and log-probabilities (n,) of the ``max_nodes`` best nodes.

    Parents precede their children, since their value is no lower. Nodes with the value -inf, from
    columns without a token, get the token -1, and so do their descendants.
    """
    tokens, parents, values = (torch.cat(part) for part in zip(*levels, strict=True))
    best = values.sort(descending=True, stable=True).indices[:max_nodes].sort().values
    # The last entry serves parent -1.
    position = torch.full((len(values) + 1,), -1, device=values.device)
    position[best] = torch.arange(len(best), device=values.device)
    scores = values[best]
    return tokens[best].masked_fill(scores == -torch.inf, -1), position[parents[best]], scores


def children(
    vocabulary: DraftVocabulary, hidden: Tensor, scores: Tensor, width: int
) -> tuple[Tensor, Tensor]:
    """Return the likeliest tokens after each of ``hidden`` (m, d) and their values, (m · c,)."""
    logits = vocabulary.logits(hidden).float()
    top = logits.topk(min(width, logits.shape[1]))
    values = top.values - logits.logsumexp(-1, keepdim=True) + scores[:, None]
    columns, ids = top.indices.flatten(), vocabulary.ids
    # A column without a token has the value -inf: read it as token 0, and mark it at the end.
    return columns if ids is None else ids[columns].clamp(min=0), values.flatten()


def own_columns(n: int, device: torch.device) -> Tensor:
    """Return the mask (n, n) in which each of ``n`` nodes sees itself only."""
    return torch.eye(n, dtype=torch.bool, device=device)
