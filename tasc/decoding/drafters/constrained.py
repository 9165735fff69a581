"""Drafts under a grammar: forbidden nodes are pruned, and determined text is drafted for free.

Where the grammar leaves one text, its tokens join the draft without counting towards the maximum
number of nodes. A node's probability is renormalised: what the drafter gives to forbidden siblings
goes to the others, and a determined token is as likely as its parent.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tasc.decoding.core.draft import Draft
from tasc.decoding.core.grammar import FORCED, Grammar
from tasc.decoding.core.protocols import (
    Drafter,
    DraftsMore,
    LearnsTogether,
    Needs,
    ReportsSources,
    UsesHiddenStates,
    UsesLogits,
)

if TYPE_CHECKING:
    import torch

    from tasc.models.certified_head import Logits

_OUTSIDE = -2


@dataclass(slots=True)
class _Branch:
    """A node of the tree that grows: a node of the drafter's tree, or determined text."""

    node: int  # in the drafter's tree, _OUTSIDE of it, or -1 for its root
    token: int
    parent: int
    path: float  # probability
    depth: int
    rest: Sequence[int] = ()  # determined tokens after this one
    free: bool = False


class Constrained:
    """A drafter whose drafts satisfy a grammar. Drafts with distributions are left unchanged.

    Nothing is pruned after tokens that the grammar forbids. With ``more``, the drafter is asked for
    more nodes than the maximum, as some will be free.
    """

    def __init__(self, drafter: Drafter, grammar: Grammar, *, more: bool = False) -> None:
        self.drafter, self.grammar, self.more = drafter, grammar, more
        self.freed = 0
        self.matcher: Any = None  # of the sequence; None after tokens that the grammar forbids

    @property
    def needs(self) -> Needs:
        return self.drafter.needs

    def start(self, prompt: np.ndarray) -> None:
        self.matcher = self.grammar.matcher()
        self.drafter.start(prompt)

    def observe(self, tokens: np.ndarray) -> None:
        body = [token for token in tokens.tolist() if token not in self.grammar.ends]
        if self.matcher is not None and self.matcher.try_consume_tokens(body) < len(body):
            self.matcher = None
        self.drafter.observe(tokens)

    def draft(self, max_nodes: int) -> Draft:
        return self._constrain(self.drafter.draft(self._asked(max_nodes)), max_nodes)

    def draft_more(self, max_nodes: int) -> Draft:
        return self._constrain(self._slow.draft_more(self._asked(max_nodes)), max_nodes)

    @property
    def can_draft_more(self) -> bool:
        return self._slow.can_draft_more

    @property
    def reads_prompt(self) -> bool:
        return self._slow.reads_prompt

    @property
    def _slow(self) -> DraftsMore:
        assert isinstance(self.drafter, DraftsMore)
        return self.drafter

    def on_hidden_states(
        self, hidden: "torch.Tensor", logits: "torch.Tensor", path: np.ndarray
    ) -> None:
        assert isinstance(self.drafter, UsesHiddenStates)
        self.drafter.on_hidden_states(hidden, logits, path)

    def on_logits(self, draft: Draft, logits: "Logits") -> None:
        assert isinstance(self.drafter, UsesLogits)
        self.drafter.on_logits(draft, logits)

    def sources(self) -> np.ndarray | None:
        return self.drafter.sources() if isinstance(self.drafter, ReportsSources) else None

    def defer_updates(self) -> None:
        if isinstance(self.drafter, LearnsTogether):
            self.drafter.defer_updates()

    def apply_updates(self) -> None:
        if isinstance(self.drafter, LearnsTogether):
            self.drafter.apply_updates()

    def _asked(self, max_nodes: int) -> int:
        """Return how many nodes the drafter may propose."""
        return max_nodes + max(self.freed, 12) * self.more if max_nodes else 0

    def _constrain(self, draft: Draft, max_nodes: int) -> Draft:
        if self.matcher is None:
            return draft.subtree(np.arange(min(max_nodes, len(draft)), dtype=np.int32))
        if draft.q is not None:  # rejection sampling is exact only if all of its nodes are verified
            return draft
        nodes = self._grown(draft)
        if self.more:
            self.freed = min(sum(node.free for node in nodes), FORCED)
        return _best(nodes, max_nodes)

    def _grown(self, draft: Draft) -> list[_Branch]:
        """Walk the tree depth first, and leave the matcher where it was."""
        likely = draft.probabilities
        if likely is None:  # by rank
            likely = 1 / np.arange(2, len(draft) + 2, dtype=np.float32)
        tokens, paths = draft.tokens.tolist(), likely.tolist()
        children: dict[int, list[int]] = {}
        for node, parent in enumerate(draft.parents.tolist()):
            children.setdefault(parent, []).append(node)
        grown, depth = list[_Branch](), 0
        stack = self._below(tokens, paths, children.get(-1, []), _Branch(-1, -1, -1, 1.0, 0))
        while stack:
            branch = stack.pop()
            self.matcher.rollback(depth - branch.depth)
            depth = branch.depth
            grown.append(branch)
            if branch.token in self.grammar.ends or len(grown) > 4 * FORCED:
                continue
            depth += self.matcher.try_consume_tokens([branch.token])
            here = replace(branch, parent=len(grown) - 1, depth=depth)
            stack += self._below(tokens, paths, children.get(branch.node, []), here)
        self.matcher.rollback(depth)
        return grown

    def _below(
        self, tokens: Sequence[int], paths: Sequence[float], nodes: Sequence[int], here: _Branch
    ) -> list[_Branch]:
        """Return the branches after ``here``, the first one last."""
        rest = here.rest or self.grammar.forced(self.matcher)
        above = paths[here.node] if here.node >= 0 else 1.0
        allowed = [node for node in nodes if self._allows(tokens[node])]
        forbidden = sum(paths[node] for node in nodes) - sum(paths[node] for node in allowed)
        scale = here.path / max(above - forbidden, 1e-9)
        branches, determined = list[_Branch](), _OUTSIDE
        for node in reversed(allowed):
            if rest and tokens[node] == rest[0]:
                determined = node
            else:
                path = min(scale * paths[node], here.path)
                branches.append(_Branch(node, tokens[node], here.parent, path, here.depth))
        if rest:
            branches.append(
                _Branch(
                    determined, rest[0], here.parent, here.path, here.depth, rest[1:], free=True
                )
            )
        return branches

    def _allows(self, token: int) -> bool:
        if token in self.grammar.ends:
            return bool(self.matcher.is_accepting())
        return bool(self.grammar.valid(self.matcher, [token]))


def _best(nodes: Sequence[_Branch], max_nodes: int) -> Draft:
    """Return the likeliest nodes: ``max_nodes``, and free ones below them up to FORCED."""
    chosen, left = set[int](), max_nodes
    for i in sorted(range(len(nodes)), key=lambda i: (-nodes[i].path, i)):
        node = nodes[i]
        has_room = len(chosen) < max(max_nodes, FORCED) and (node.free or left > 0)
        if has_room and (node.parent < 0 or node.parent in chosen):
            chosen.add(i)
            left -= not node.free
    tokens = np.array([node.token for node in nodes], np.int32)
    parents = np.array([node.parent for node in nodes], np.int32)
    paths = np.array([node.path for node in nodes], np.float32)
    tree = Draft(tokens, parents, probabilities=paths)
    return tree.subtree(np.array(sorted(chosen), np.int32))
