"""SLRS: draw draft tokens until they commit a target token, which is verified as a string.

Timor et al., arXiv:2502.05202, algorithm 3 with the lookahead of section 3.3, once per token of a
chain. Draws beyond a committed token are repeated from rows that are already there. Departs from
the printed algorithm in two ways that keep it exact: a segmentation below ``floor`` gives no token,
so that fewer are summed (the target then draws from its residual distribution); and once a step has
used up its ``nodes``, the chain continues with TLI.
"""

from tasc.decoding.core.draft import Draft, LazyProposal
from tasc.decoding.drafters.hetero.options import SlrsOptions
from tasc.decoding.drafters.hetero.pair import Pair
from tasc.decoding.drafters.hetero.segmentation import Segmentation
from tasc.decoding.drafters.hetero.token_level import Chain, TokenLevel
from tasc.vocab.strings import CONTINUE, NOTHING


class Slrs(TokenLevel):
    """One sequence's drafter: TLI's, which serves once the nodes of a step are used up."""

    options: SlrsOptions

    def __init__(self, pair: Pair, options: SlrsOptions) -> None:
        super().__init__(pair, options, pair.to_target, normalise=True)
        self.debt = 0  # nodes that verification evaluated beyond the limit of a step

    def draft(self, max_nodes: int) -> Draft:
        draft_model, o = self.session.draft_model, self.options
        self.debt = max(0, self.debt + draft_model.evaluated - o.nodes)
        node = self.session.root() if max_nodes else None
        chain = Chain()
        while node is not None:
            is_spent = self.debt + draft_model.evaluated >= o.nodes
            draw = self._by_tli if is_spent else self._by_segmentation
            drawn = draw(node, chain)
            if drawn is None or len(chain.tokens) == max_nodes or chain.likely[-1] < o.confidence:
                break
            for token in drawn:
                node = draft_model.extend([node], [token])[0]
        sampled = chain.distributions and self.pair.sampling
        return chain.draft(LazyProposal(chain.distributions) if sampled else None)

    def _by_segmentation(self, start: int, chain: Chain) -> list[int] | None:
        """Draw one more token; return its draft tokens, None at the end of the chain."""
        token, drawn, likely = self._draw(start)
        chain.distributions.append(
            lambda token: Segmentation(self.session, self.options, start, token).bounds()
        )
        if token == NOTHING:
            return None
        chain.add(token, likely)
        return None if token == self.pair.target_end else self._spelling(token, drawn)

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

    def _spelling(self, token: int, drawn: list[int]) -> list[int]:
        """Return the draft tokens of ``token``: the drawn ones if one of them ends there."""
        whole, string, used = self.pair.vocabulary.of_id[token], b"", 0
        while used < len(drawn) and len(string) < len(whole):
            string += self.pair.draft_strings[drawn[used]]
            used += 1
        return drawn[:used] if string == whole else self.pair.drafted.tokenize(whole)

    def _by_tli(self, node: int, chain: Chain) -> list[int] | None:
        """Draw one more token from the intersection of the vocabularies."""
        distribution = self.distribution(node)
        if distribution is None:
            return None
        drawn = self.session.draw(distribution)
        token = int(self.to_target[drawn])
        row = self.over_target(distribution)
        chain.distributions.append(lambda token: iter([(float(row[token]), float(row[token]))]))
        chain.add(token, self.session.confidence(node, drawn))
        return None if token == self.pair.target_end else [drawn]
