"""The dynamic draft tree of EAGLE-2: a beam of the most probable paths, re-ranked to a budget.

Li et al., "EAGLE-2: Faster Inference of Language Models with Dynamic Draft Trees" (2024), section
4: a level expands the ``width`` nodes of highest value, the product of the probabilities on the
path, to their ``width`` likeliest children each; of all nodes the best are kept. The head's keys
and values of a level lie behind those of the levels before it.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from tasc.models.cache import Storage
from tasc.spec.drafters.eagle.vocabulary import DraftVocabulary

# (tokens (f,), hidden states before them (f, d), position, mask (f, keys)) -> states (f, d)
Read = Callable[[Tensor, Tensor, int, Tensor], Tensor]


def grow(
    read: Read,
    storage: Storage,
    vocabulary: DraftVocabulary,
    hidden: Tensor,
    *,
    width: int,
    depth: int,
    budget: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return tokens, parents and log-probabilities (n,) of the ``budget`` best nodes.

    Parents come first. ``hidden`` (1, d) is the head's state after the last settled token;
    ``depth`` levels make as many forwards of the LM head, and one less of the head's layer, which
    ``read`` carries out.
    ``storage`` holds the head's keys and values; its length is as before afterwards.
    """
    device, begin = hidden.device, storage.length
    width, depth = min(width, budget), min(depth, budget)
    tokens, scores = _children(vocabulary, hidden, hidden.new_zeros(1), width)
    parents = torch.full_like(tokens, -1)
    levels = [(tokens, parents, scores)]
    frontier, total = torch.arange(len(tokens), device=device), len(tokens)
    states, mask = hidden.expand(len(tokens), -1), _seen(len(tokens), begin, device)
    for level in range(1, depth):
        states = read(tokens, states, begin + level - 1, mask)
        storage.length += len(tokens)
        found, values = _children(vocabulary, states, scores, width)
        children = len(found) // len(tokens)
        levels.append((found, frontier.repeat_interleave(children), values))
        if level + 1 < depth:
            scores, best = values.topk(min(width, len(values)))
            tokens, origin = found[best], best // children
            frontier, states = total + best, states[origin]
            mask = torch.cat((mask[origin], _eye(len(best), device)), dim=1)
        total += len(found)
    storage.length = begin
    return _ranked(levels, budget)


def _children(
    vocabulary: DraftVocabulary, hidden: Tensor, scores: Tensor, width: int
) -> tuple[Tensor, Tensor]:
    """Return the likeliest tokens after each of ``hidden`` (m, d) and their values, (m · c,)."""
    logits = vocabulary.logits(hidden).float()
    top = logits.topk(min(width, logits.shape[1]))
    values = top.values - logits.logsumexp(-1, keepdim=True) + scores[:, None]
    columns, ids = top.indices.flatten(), vocabulary.ids
    # A column without a token has the value -inf: it is read as any token, and dropped at the end.
    return columns if ids is None else ids[columns].clamp(min=0), values.flatten()


def _ranked(
    levels: list[tuple[Tensor, Tensor, Tensor]], budget: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Keep the nodes of highest value; a parent is worth no less than its child, and goes first."""
    tokens, parents, values = (torch.cat(part) for part in zip(*levels, strict=True))
    kept = values.sort(descending=True, stable=True).indices[:budget]
    kept = kept[values[kept] > -torch.inf].sort().values
    place = torch.full((len(values) + 1,), -1, device=values.device)  # the last is parent -1's
    place[kept] = torch.arange(len(kept), device=values.device)
    return tokens[kept], place[parents[kept]], values[kept]


def _eye(n: int, device: torch.device) -> Tensor:
    return torch.eye(n, dtype=torch.bool, device=device)


def _seen(n: int, length: int, device: torch.device) -> Tensor:
    """The first level's mask (n, length + n): all that was settled, and each node itself."""
    return torch.cat((torch.ones(n, length, dtype=torch.bool, device=device), _eye(n, device)), 1)
