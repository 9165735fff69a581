"""Dynamic draft trees: the most probable paths, within a maximum number of nodes.

A node's value is the product of the probabilities on its path. Nothing here waits for the device.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from tasc.decoding.drafters.heads.draft_vocab.full import DraftVocabulary
from tasc.models.cache import KVCache

# (tokens (f,), hidden states before them (f, d), positions (f,), mask (1, 1, f, keys)) -> states
Read = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def grow(
    read: Read,
    kv_cache: KVCache,
    vocabulary: DraftVocabulary,
    hidden: Tensor,
    *,
    width: int,
    depth: int,
    max_nodes: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return EAGLE-2's tree in the form of ``ranked``: a beam, re-ranked to ``max_nodes``.

    Li et al., "EAGLE-2: Faster Inference of Language Models with Dynamic Draft Trees" (2024),
    section 4: each level expands the ``width`` nodes of highest value to their ``width`` likeliest
    children; of all nodes the best remain. ``hidden`` (1, d) is the head's state after the last
    committed token. ``depth`` levels take ``depth`` forwards of the LM head, and ``depth`` - 1 of
    the head's layer with ``read``. ``kv_cache`` holds the head's keys and values, level after
    level; its length is restored at the end.
    """
    device, begin = hidden.device, kv_cache.length
    width, depth = min(width, max_nodes), min(depth, max_nodes)
    tokens, scores = _children(vocabulary, hidden, hidden.new_zeros(1), width)
    parents = torch.full_like(tokens, -1)
    levels = [(tokens, parents, scores)]
    frontier, total = torch.arange(len(tokens), device=device), len(tokens)
    states = hidden.expand(len(tokens), -1)
    committed = torch.ones(len(tokens), begin, dtype=torch.bool, device=device)
    mask = torch.cat((committed, _eye(len(tokens), device)), dim=1)
    for level in range(1, depth):
        positions = torch.full_like(tokens, begin + level - 1)
        states = read(tokens, states, positions, mask[None, None])
        kv_cache.length += len(tokens)
        offered, values = _children(vocabulary, states, scores, width)
        children = len(offered) // len(tokens)
        levels.append((offered, frontier.repeat_interleave(children), values))
        if level + 1 < depth:
            scores, best = values.topk(min(width, len(values)))
            tokens, origin = offered[best], best // children
            frontier, states = total + best, states[origin]
            mask = torch.cat((mask[origin], _eye(len(best), device)), dim=1)
        total += len(offered)
    kv_cache.length = begin
    return ranked(levels, max_nodes)


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


def _children(
    vocabulary: DraftVocabulary, hidden: Tensor, scores: Tensor, width: int
) -> tuple[Tensor, Tensor]:
    """Return the likeliest tokens after each of ``hidden`` (m, d) and their values, (m · c,)."""
    logits = vocabulary.logits(hidden).float()
    top = logits.topk(min(width, logits.shape[1]))
    values = top.values - logits.logsumexp(-1, keepdim=True) + scores[:, None]
    columns, ids = top.indices.flatten(), vocabulary.ids
    # A column without a token has the value -inf: read it as token 0, and mark it at the end.
    return columns if ids is None else ids[columns].clamp(min=0), values.flatten()


def _eye(n: int, device: torch.device) -> Tensor:
    return torch.eye(n, dtype=torch.bool, device=device)
