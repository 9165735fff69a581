"""Drafts of all requests of a step, as SGLang's n-gram worker takes them: trees of exactly n nodes.

The first node is the last token of the sequence; the others follow breadth first, padded with
token 0 under it. A mask says which nodes each one sees: its ancestors and itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tasc.backend.tree import tree_inputs
from tasc.decoding.core.draft import Draft
from tasc.decoding.core.protocols import Drafter
from tasc.decoding.drafters import Factory


@dataclass
class _Request:
    """A request under way: its drafter, and the tokens that this has seen."""

    drafter: Drafter
    seen: list[int] = field(default_factory=list)

    def follow(self, tokens: Sequence[int]) -> None:
        """Take the sequence (L,) as it is now; begin anew where it does not go on from before."""
        known = len(self.seen)
        if not known or list(tokens[:known]) != self.seen:
            self.drafter.start(np.array(tokens[:-1], np.int32))
            known = len(tokens) - 1
        if len(tokens) > known:
            self.drafter.observe(np.array(tokens[known:], np.int32))
        self.seen = list(tokens)


class DraftTrees:
    """What stands in place of SGLang's ``ngram_corpus``: requests are told apart by their names."""

    def __init__(self, factory: Factory, nodes: int) -> None:
        """Draft ``nodes`` - 1 tokens a request; ``factory`` makes the drafter of each."""
        self.factory, self.nodes = factory, nodes
        self.requests: dict[str, _Request] = {}

    def batch_get(
        self, names: Sequence[str], sequences: Sequence[Sequence[int]], *_lengths: Sequence[int]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draft for each request after its whole sequence, the prompt included.

        Returns ids (B · n,) int64 and mask (B · n · n,) bool, n nodes a request.
        """
        for gone in self.requests.keys() - set(names):
            del self.requests[gone]
        made = [self._tree(name, tokens) for name, tokens in zip(names, sequences, strict=True)]
        ids = np.concatenate([tree[0] for tree in made])
        return ids, np.concatenate([tree[1].reshape(-1) for tree in made])

    def batch_put(self, *_: object) -> None:
        """Nothing: tokens are learnt from the sequences that ``batch_get`` is given."""

    def synchronize(self) -> None:
        """Nothing: nobody else writes."""

    def reset(self) -> None:
        """Forget all requests."""
        self.requests = {}

    def erase_match_state(self, names: Sequence[str]) -> None:
        """Forget these requests."""
        for name in names:
            self.requests.pop(name, None)

    def _tree(self, name: str, tokens: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        request = self.requests.get(name)
        if request is None:
            request = self.requests[name] = _Request(self.factory())
        request.follow(tokens)
        return padded(request.drafter.draft(self.nodes - 1), int(tokens[-1]), self.nodes)


def padded(draft: Draft, last: int, nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return ids (nodes,) int64 and mask (nodes, nodes) bool of a draft below ``last``."""
    seen, depths = tree_inputs(draft.parents)
    order, count = np.argsort(depths, kind="stable"), len(depths)  # the root stays first
    ids = np.zeros(nodes, np.int64)
    ids[:count] = np.append(last, draft.tokens)[order]
    mask = np.eye(nodes, dtype=bool)
    mask[:, 0] = True
    mask[:count, :count] = seen[np.ix_(order, order)]
    return ids, mask
