"""Drafts under a grammar: forbidden nodes are pruned, and determined text is drafted for free.

Where the grammar leaves one text, its tokens join the draft without counting towards the maximum
number of nodes. A node's probability is renormalised: what the drafter gives to forbidden siblings
goes to the others, and a determined token is as likely as its parent.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tasc.decoding.core.draft import Draft
from tasc.decoding.core.grammar import FORCED, Grammar
from tasc.decoding.core.protocols import Drafter, Factory


def constrained(factory: Factory, grammar: Grammar, *, more: bool) -> Factory:
    """Return a factory of drafters under ``grammar``; see ``Constrained``."""
    return lambda: Constrained(factory(), grammar, more=more)


@dataclass
class _Tree:
    """Nodes in an order in which parents precede their children."""

    tokens: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    paths: list[float] = field(default_factory=list)
    free: list[bool] = field(default_factory=list)

    def add(self, token: int, parent: int, path: float, free: bool) -> int:
        self.tokens.append(token)
        self.parents.append(parent)
        self.paths.append(path)
        self.free.append(free)
        return len(self.tokens) - 1

    def best(self, max_nodes: int) -> Draft:
        """Return the likeliest nodes: ``max_nodes``, and free ones below them up to FORCED."""
        kept, left = set[int](), max_nodes
        most = max(max_nodes, FORCED)
        for node in sorted(range(len(self.tokens)), key=lambda node: (-self.paths[node], node)):
            has_room = len(kept) < most and (self.free[node] or left > 0)
            if has_room and (self.parents[node] < 0 or self.parents[node] in kept):
                kept.add(node)
                left -= not self.free[node]
        paths = np.array(self.paths, np.float32)
        draft = Draft(
            np.array(self.tokens, np.int32), np.array(self.parents, np.int32), probabilities=paths
        )
        return draft.subtree(np.array(sorted(kept), np.int32))


@dataclass(slots=True)
class _Branch:
    """A node to visit: a node of the drafter's tree (-1: none), or determined text."""

    own: int
    token: int
    parent: int
    path: float
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

    def start(self, prompt: np.ndarray) -> None:
        self.matcher = self.grammar.matcher()
        self.drafter.start(prompt)

    def observe(self, tokens: np.ndarray) -> None:
        body = [token for token in tokens.tolist() if token not in self.grammar.ends]
        if self.matcher is not None and self.matcher.try_consume_tokens(body) < len(body):
            self.matcher = None
        self.drafter.observe(tokens)

    def draft(self, max_nodes: int) -> Draft:
        draft = self.drafter.draft(max_nodes + max(self.freed, 12) * self.more if max_nodes else 0)
        if self.matcher is None:
            return draft.subtree(np.arange(min(max_nodes, len(draft)), dtype=np.int32))
        if draft.q is not None:  # rejection sampling is exact only if all of its nodes are verified
            return draft
        tree = self._grown(draft)
        if self.more:
            self.freed = min(sum(tree.free), FORCED)
        return tree.best(max_nodes)

    def _grown(self, draft: Draft) -> _Tree:
        """Walk the tree depth first, and leave the matcher where it was."""
        tree, depth = _Tree(), 0
        paths = _paths(draft)
        children: dict[int, list[int]] = {}
        for node, parent in enumerate(draft.parents.tolist()):
            children.setdefault(parent, []).append(node)
        stack = self._below(draft, paths, children.get(-1, []), _Branch(-1, -1, -1, 1.0, 0))
        while stack:
            branch = stack.pop()
            self.matcher.rollback(depth - branch.depth)
            depth = branch.depth
            node = tree.add(branch.token, branch.parent, branch.path, branch.free)
            if branch.token in self.grammar.ends or len(tree.tokens) > 4 * FORCED:
                continue
            depth += self.matcher.try_consume_tokens([branch.token])
            here = _Branch(branch.own, -1, node, branch.path, depth, branch.rest)
            stack += self._below(draft, paths, children.get(branch.own, []), here)
        self.matcher.rollback(depth)
        return tree

    def _below(
        self, draft: Draft, paths: np.ndarray, nodes: Sequence[int], here: _Branch
    ) -> list[_Branch]:
        """Return the branches after ``here``, the first one last."""
        nodes = nodes if here.own >= 0 or here.parent < 0 else ()
        rest = here.rest or self.grammar.forced(self.matcher)
        above = float(paths[here.own]) if here.own >= 0 else 1.0
        allowed = [node for node in nodes if self._allows(int(draft.tokens[node]))]
        forbidden = sum(float(paths[node]) for node in nodes) - sum(
            float(paths[node]) for node in allowed
        )
        scale = here.path / max(above - forbidden, 1e-9)
        branches, forced = list[_Branch](), -1
        for node in allowed:
            token = int(draft.tokens[node])
            if rest and token == rest[0]:
                forced = node
            else:
                path = min(scale * float(paths[node]), here.path)
                branches.append(_Branch(node, token, here.parent, path, here.depth))
        if rest:
            branches.append(
                _Branch(forced, rest[0], here.parent, here.path, here.depth, rest[1:], free=True)
            )
        return branches[:-1][::-1] + branches[-1:] if rest else branches[::-1]

    def _allows(self, token: int) -> bool:
        if token in self.grammar.ends:
            return bool(self.matcher.is_accepting())
        return bool(self.matcher.validate_tokens([token]))


def _paths(draft: Draft) -> np.ndarray:
    """Return the probability of the path to each node, by rank if the drafter gives none."""
    if draft.probabilities is not None:
        return draft.probabilities
    ranks: np.ndarray = 1 / np.arange(2, len(draft) + 2, dtype=np.float32)
    return ranks
