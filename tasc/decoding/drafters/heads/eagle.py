"""EAGLE-2's drafter: a trained head that reads the target's hidden states and grows a tree.

A node's value is the product of the probabilities on its path.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from tasc.decoding.core.draft import Draft
from tasc.decoding.core.protocols import Needs
from tasc.decoding.drafters.heads.draft_vocab.full import DraftVocabulary, Unchanging
from tasc.errors import InputError
from tasc.models.cache import tree_cache
from tasc.models.draft_head import DraftHead
from tasc.options.bounds import MOST_NODES, Bounded, within


@dataclass(frozen=True)
class EagleOptions(Bounded):
    """A tree of ``depth`` levels; each expands ``width`` nodes to ``width`` children each."""

    depth: int = within(6, 1, 64)
    width: int = within(10, 1, MOST_NODES)


class Eagle:
    """One sequence's drafter; sequences share the head and the target's embedding.

    The head reads pairs of committed positions: the target's hidden state at i, the token at i + 1.
    Its own states last for one tree. It reads when a draft is requested, so that steps without a
    draft cost nothing. On a device, the host waits for the finished tree only.
    """

    needs = Needs(hidden_states=True, drafts_first=False)

    def __init__(
        self,
        head: DraftHead,
        embedding: nn.Module,
        vocabulary: Callable[[], DraftVocabulary],
        options: EagleOptions,
    ) -> None:
        self.head, self.embedding, self.options = head, embedding, options
        self.vocabulary = vocabulary()
        self.device = next(head.parameters()).device
        self.start(np.empty(0, np.int32))

    def start(self, prompt: np.ndarray) -> None:
        self.prompt = prompt
        self.step: tuple[Tensor, Tensor, np.ndarray] | None = None  # of on_hidden_states
        self.pending: list[tuple[Tensor, np.ndarray]] = []  # states (k, d), next tokens (k,)
        self.prefilled = False
        self.cache, self.kv_cache = tree_cache([0], len(prompt) + 256)
        self.last = torch.empty(0)  # (1, d): the head's state after the last committed token

    def on_hidden_states(self, hidden: Tensor, rows: Tensor, path: np.ndarray) -> None:
        self.step = (hidden, rows, path)

    def observe(self, tokens: np.ndarray) -> None:
        """Store the committed pairs. Raises InputError without hidden states of the step."""
        if self.step is None:
            raise InputError(
                "a draft head reads the target's hidden states: give a model to decode with"
            )
        hidden, rows, path = self.step
        self.step = None
        if not self.prefilled:
            self._observe_prompt(hidden, path, tokens)
        elif len(path) == 0:  # a step without a draft, which must cost next to nothing
            # A captured graph overwrites these states in the next step, so copy them.
            self.pending.append((hidden[: len(tokens)].clone(), tokens))
        else:
            self.pending.append((hidden[self._committing(path, tokens)], tokens))
        if not isinstance(self.vocabulary, Unchanging):
            committing = self._committing(path, tokens)
            self.vocabulary.observe(self._to_device(tokens), rows, committing)

    def _observe_prompt(self, hidden: Tensor, path: np.ndarray, tokens: np.ndarray) -> None:
        self.prefilled = True
        length, after = len(self.prompt), np.append(self.prompt[1:], tokens)
        self.vocabulary.start(self._to_device(self.prompt), hidden[:length])
        committing = self._to_device(np.append(np.arange(length), length + path)[: len(after)])
        self.pending.append((hidden[committing], after))

    @torch.inference_mode()
    def draft(self, max_nodes: int) -> Draft:
        if max_nodes < 1 or not self.prefilled:
            return Draft()
        self._catch_up()
        tree = self._grow(max_nodes)
        self.vocabulary.drafted(tree[0])
        return _to_host(*tree)

    def _grow(self, max_nodes: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return EAGLE-2's tree in the form of ``ranked``: a beam, re-ranked to ``max_nodes``.

        Li et al., "EAGLE-2: Faster Inference of Language Models with Dynamic Draft Trees" (2024),
        section 4: each level expands the ``width`` nodes of highest value to their ``width``
        likeliest children; of all nodes the best remain. ``depth`` levels take ``depth`` forwards
        of the LM head, and ``depth`` - 1 of the head's layer, whose keys and values are in the
        cache until the end.
        """
        width, depth = min(self.options.width, max_nodes), min(self.options.depth, max_nodes)
        begin, device = self.kv_cache.length, self.device
        tokens, scores = self._children(self.last, self.last.new_zeros(1), width)
        levels = [(tokens, torch.full_like(tokens, -1), scores)]
        nodes, total = torch.arange(len(tokens), device=device), len(tokens)
        states = self.last.expand(len(tokens), -1)
        alone = partial(torch.eye, dtype=torch.bool, device=device)  # a node sees itself only
        committed = torch.ones(len(tokens), begin, dtype=torch.bool, device=device)
        mask = torch.cat((committed, alone(len(tokens))), dim=1)
        for level in range(1, depth):
            positions = torch.full_like(tokens, begin + level - 1)
            states = self._forward(tokens, states, positions, mask[None, None])
            self.kv_cache.length += len(tokens)
            offered, values = self._children(states, scores, width)
            per_node = len(offered) // len(tokens)
            levels.append((offered, nodes.repeat_interleave(per_node), values))
            if level + 1 < depth:
                scores, best = values.topk(min(width, len(values)))
                tokens, origin = offered[best], best // per_node
                nodes, states = total + best, states[origin]
                mask = torch.cat((mask[origin], alone(len(best))), dim=1)
            total += len(offered)
        self.kv_cache.length = begin
        return ranked(levels, max_nodes)

    def _children(self, hidden: Tensor, scores: Tensor, width: int) -> tuple[Tensor, Tensor]:
        """Return the likeliest tokens after ``hidden`` (m, d) and their values, (m · c,) each."""
        logits = self.vocabulary.logits(hidden).float()
        top = logits.topk(min(width, logits.shape[1]))
        values = top.values - logits.logsumexp(-1, keepdim=True) + scores[:, None]
        columns, ids = top.indices.flatten(), self.vocabulary.ids
        # A column without a token has the value -inf: read it as token 0, and mark it at the end.
        return columns if ids is None else ids[columns].clamp(min=0), values.flatten()

    def _catch_up(self) -> None:
        """Let the head read the tokens committed since the last draft."""
        if not self.pending:
            return
        states, committed = zip(*self.pending, strict=True)
        hidden, tokens = torch.cat(states), self._to_device(np.concatenate(committed))
        self.pending.clear()
        begin, count = self.kv_cache.length, len(tokens)
        positions = torch.arange(begin, begin + count, device=self.device)
        out = self._forward(tokens, hidden, positions, None)
        self.kv_cache.fill([count]) if begin == 0 else self.kv_cache.keep([range(count - 1)])
        self.last = out[-1:]

    def _forward(
        self, tokens: Tensor, hidden: Tensor, positions: Tensor, mask: Tensor | None
    ) -> Tensor:
        """Run the head's layer on one sequence: (q, d) from tokens (q,) and hidden (q, d)."""
        embedded = self.embedding(tokens)[None]
        return self.head(embedded, hidden[None], positions[None], mask, self.cache)[0]  # type: ignore[no-any-return]

    def _committing(self, path: np.ndarray, tokens: np.ndarray) -> Tensor:
        """Return the rows that committed ``tokens``: the root's, then those of ``path``."""
        return self._to_device(np.append(np.int32(0), path + 1)[: len(tokens)])

    def _to_device(self, integers: np.ndarray) -> Tensor:
        """Return tokens or rows as int64 on the device, without waiting for it."""
        return torch.from_numpy(integers.astype(np.int64)).to(self.device, non_blocking=True)


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


def _to_host(tokens: Tensor, parents: Tensor, values: Tensor) -> Draft:
    """Copy a tree to the host, in one transfer, without the nodes that are no token."""
    packed = torch.stack((tokens.int(), parents.int(), values.float().view(torch.int32)))
    tree = packed.cpu().numpy()
    real = tree[0] >= 0  # descendants of an unreal node are unreal, too
    # The last entry serves parent -1.
    position = np.append(np.cumsum(real, dtype=np.int32) - 1, np.int32(-1))
    paths = np.exp(tree[2, real].view(np.float32))
    return Draft(tree[0, real], position[tree[1, real]], probabilities=paths)
