"""SLRS: draw draft tokens until they commit a target token, which is verified as a string.

Timor et al., arXiv:2502.05202, algorithm 3 with the lookahead of section 3.3, once per token of a
chain. Draws beyond a committed token are repeated from rows that are already there. Departs from
the printed algorithm in two ways that keep it exact: a segmentation below ``floor`` gives no token,
so that fewer are summed (the target then draws from its residual distribution); and once a step has
used up its ``nodes``, the chain continues with TLI.
"""

import numpy as np

from tasc.decoding.core.draft import Bounds, Draft, LazyProposal
from tasc.decoding.drafters.hetero.options import SlrsOptions
from tasc.decoding.drafters.hetero.pair import DraftSession, Pair
from tasc.decoding.drafters.hetero.segmentation import Segmentation
from tasc.decoding.drafters.hetero.token_level import Chain, TokenLevel
from tasc.vocab.strings import CONTINUE, NOTHING


class Slrs:
    """One sequence's drafter."""

    def __init__(self, pair: Pair, options: SlrsOptions) -> None:
        self.pair, self.options = pair, options
        self.tli = TokenLevel(pair, options, pair.to_target, normalise=True)
        self.debt = 0  # nodes that verification evaluated beyond the limit of a step

    def start(self, prompt: np.ndarray) -> None:
        self.tli.start(prompt)
        self.session: DraftSession = self.tli.session

    def observe(self, tokens: np.ndarray) -> None:
        self.session.observe(tokens)

    def draft(self, max_nodes: int) -> Draft:
        draft_model = self.session.draft_model
        self.debt = max(0, self.debt + draft_model.evaluated - self.options.nodes)
        node = self.session.root() if max_nodes else None
        chain, distributions = Chain(), list[Bounds]()
        while node is not None and len(chain.tokens) < max_nodes:
            if self.debt + draft_model.evaluated >= self.options.nodes:
                node = self._by_tli(node, chain, distributions)
            else:
                node = self._by_segmentation(node, chain, distributions)
            if chain.likely and chain.likely[-1] < self.options.confidence:
                break
        return chain.draft(
            LazyProposal(distributions) if distributions and self.pair.sampling else None
        )

    def _by_segmentation(self, start: int, chain: Chain, distributions: list[Bounds]) -> int | None:
        """Draw one more token; return the node after it, None at the end of the chain."""
        token, drawn, likely = self._draw(start)
        distributions.append(
            lambda token: Segmentation(self.session, self.options, start, token).bounds()
        )
        if token == NOTHING:
            return None
        chain.add(token, likely)
        if token == self.pair.target_end:
            return None
        return self._node_after(start, token, drawn)

    def _draw(self, node: int) -> tuple[int, list[int], float]:
        """Draw until a target token is committed; return it, the draws, and their probability.

        The token is NOTHING if the draws form no target token, or are too unlikely.
        """
        session, pair, o = self.session, self.pair, self.options
        string, mass, likely, drawn = b"", 1.0, 1.0, list[int]()
        while True:
            draft = session.draw(session.distribution(node))
            drawn.append(draft)
            before, likely = likely, likely * session.confidence(node, draft)
            token = int(pair.resolver.after(string)[draft])
            if token != CONTINUE:
                whole = token != NOTHING and string.startswith(pair.vocabulary.of_id[token])
                # If the token was complete before the last draw, that draw only marks its end.
                return token, drawn, before if whole and string else likely
            string += pair.draft_strings[draft]
            if len(drawn) == o.lookahead:
                return pair.vocabulary.first(string), drawn, likely
            mass *= float(session.distribution(node)[draft])
            if mass < o.floor:
                return NOTHING, drawn, likely
            node = session.draft_model.extend([node], [draft])[0]

    def _node_after(self, node: int, token: int, drawn: list[int]) -> int:
        """Return the node after ``token``, by the drawn segmentation if it ends there."""
        whole, string, used = self.pair.vocabulary.of_id[token], b"", 0
        while used < len(drawn) and len(string) < len(whole):
            string += self.pair.draft_strings[drawn[used]]
            used += 1
        segmentation = drawn[:used] if string == whole else self.pair.drafted.tokenize(whole)
        for draft in segmentation:
            node = self.session.draft_model.extend([node], [draft])[0]
        return node

    def _by_tli(self, node: int, chain: Chain, distributions: list[Bounds]) -> int | None:
        """Draw one more token from the intersection of the vocabularies."""
        distribution = self.tli.distribution(node)
        if distribution is None:
            return None
        drawn = self.session.draw(distribution)
        token = int(self.tli.to_target[drawn])
        row = self.tli.over_target(distribution)
        distributions.append(lambda token: iter([(float(row[token]), float(row[token]))]))
        chain.add(token, self.session.confidence(node, drawn))
        ended = token == self.pair.target_end
        return None if ended else self.session.draft_model.extend([node], [drawn])[0]
