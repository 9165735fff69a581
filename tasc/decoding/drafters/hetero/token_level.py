"""Drafters of target tokens: TLI, union, and standard speculative decoding.

Timor et al., arXiv:2502.05202, algorithms 4, 1 and 5. They differ in the map from draft tokens to
target tokens, and in whether a draw may fall outside of it.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from tasc.decoding.core.draft import Draft, LazyProposal, chain
from tasc.decoding.core.protocols import NO_NEEDS
from tasc.decoding.drafters.hetero.options import HeteroOptions
from tasc.decoding.drafters.hetero.pair import DraftSession, Pair


@dataclass
class Chain:
    """A chain that grows token by token.

    ``distributions``: rows (V,) float32, or bounds, that its tokens were drawn from. There may be
    one more of them than tokens, if the last one gave no token.
    """

    tokens: list[int] = field(default_factory=list)
    likely: list[float] = field(default_factory=list)
    distributions: list[Any] = field(default_factory=list)

    def add(self, token: int, probability: float) -> float:
        self.tokens.append(token)
        self.likely.append(probability * (self.likely[-1] if self.likely else 1.0))
        return self.likely[-1]

    def draft(self, q: torch.Tensor | LazyProposal | None) -> Draft:
        likely = np.array(self.likely, np.float32)
        return chain(np.array(self.tokens, np.int32), q, likely)


class TokenLevel:
    """One sequence's drafter: a chain of draft tokens that are also target tokens."""

    needs = NO_NEEDS

    def __init__(
        self, pair: Pair, options: HeteroOptions, to_target: np.ndarray, normalise: bool
    ) -> None:
        """Map draft tokens by ``to_target`` (V_D,) int64, -1 for none.

        A draw of such a token is rejected; with ``normalise``, none is drawn.
        """
        self.pair, self.options = pair, options
        self.to_target, self.normalise = torch.from_numpy(to_target), normalise
        self.inside = self.to_target >= 0

    def start(self, prompt: np.ndarray) -> None:
        self.session = DraftSession(self.pair)
        self.session.observe(prompt)

    def observe(self, tokens: np.ndarray) -> None:
        self.session.observe(tokens)

    def draft(self, max_nodes: int) -> Draft:
        node = self.session.root() if max_nodes else None
        if node is None:
            return Draft()
        drawing = Chain()
        most = min(max_nodes, self.options.lookahead or max_nodes)
        while (distribution := self.distribution(node)) is not None:
            drawing.distributions.append(self.over_target(distribution))
            drawn = self.session.draw(distribution)
            token = int(self.to_target[drawn])
            if token < 0:
                break
            likely = drawing.add(token, self.session.confidence(node, drawn))
            ended = token == self.pair.target_end
            if ended or len(drawing.tokens) == most or likely < self.options.confidence:
                break
            node = self.session.draft_model.extend([node], [drawn])[0]
        rows = drawing.distributions
        return drawing.draft(torch.stack(rows) if rows and self.pair.sampling else None)

    def distribution(self, node: int) -> torch.Tensor | None:
        """Return the distribution to draw from after ``node``, (V_D,) float64; None if empty."""
        if not self.normalise:
            return self.session.distribution(node)
        if self.pair.sampling is None:  # the most likely token that the target has
            row = self.session.draft_model.row(node).float().cpu()
            row = row.masked_fill(~self.inside, -torch.inf)
            best = torch.zeros(len(row), dtype=torch.float64)
            best[int(row.argmax())] = 1
            return best if self.inside.any() else None
        distribution = self.session.distribution(node) * self.inside
        mass = float(distribution.sum())
        return distribution / mass if mass > 0 else None

    def over_target(self, distribution: torch.Tensor) -> torch.Tensor:
        """Return ``distribution`` (V_D,) over target tokens, (V_T,) float32."""
        row = torch.zeros(self.pair.sizes[0], dtype=torch.float64)
        row.index_add_(0, self.to_target[self.inside], distribution[self.inside])
        return row.float()
