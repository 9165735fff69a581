"""SLRS: draft tokens are drawn until they commit a target token, which is verified as a string.

Timor et al., "Accelerating LLM Inference with Lossless Speculative Decoding Algorithms for
Heterogeneous Vocabularies", algorithm 3 with the lookahead of section 3.3, once for each token of a
chain: what was drawn beyond a committed token is drawn anew, from a row that is already there.
Departs from the printed algorithm in two ways that keep it exact. A segmentation less likely than
``floor`` gives no token, so that few segmentations are left to sum (the target then speaks for
itself, with what remains of its distribution). And once a step has spent its ``nodes`` the chain
goes on with TLI.
"""

from collections.abc import Iterator

import numpy as np
import torch

from tasc.decoding.core.draft import Bounds, Draft, LazyProposal
from tasc.decoding.drafters.hetero.options import SlrsOptions
from tasc.decoding.drafters.hetero.pair import DraftSession, Pair
from tasc.decoding.drafters.hetero.segmentation import Rule, Segmentation
from tasc.decoding.drafters.hetero.token_level import Chain, TokenLevel, tli
from tasc.vocab.strings import CONTINUE, NOTHING


class Slrs:
    """One sequence's drafter."""

    def __init__(self, pair: Pair, options: SlrsOptions) -> None:
        """Draft with ``pair``."""
        self.pair, self.options = pair, options
        self.rule = Rule(options.lookahead, options.floor)
        self.tli: TokenLevel = tli(pair, options)
        self.debt = 0  # what a verification evaluated beyond the step's nodes

    def start(self, prompt: np.ndarray) -> None:
        """See Drafter.start."""
        self.tli.start(prompt)
        self.session: DraftSession = self.tli.session

    def observe(self, tokens: np.ndarray) -> None:
        """See Drafter.observe."""
        self.session.observe(tokens)

    def draft(self, max_nodes: int) -> Draft:
        """See Drafter.draft."""
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
        """Draw one more token; return the node behind it, None where the chain ends."""
        token, drawn, likely = self._draw(start)
        distributions.append(
            lambda asked: Segmentation(self.session, self.rule, start, asked).bounds()
        )
        if token == NOTHING:
            return None
        chain.add(token, likely)
        if token == self.pair.target_end:
            return None
        return self._behind(start, token, drawn)

    def _draw(self, node: int) -> tuple[int, list[int], float]:
        """Draw until a target token is resolved; return it, what was drawn, and how likely that is.

        A token may be NOTHING: what was drawn is none of the target's, or too unlikely.
        """
        session, pair, rule = self.session, self.pair, self.rule
        string, mass, likely, drawn = b"", 1.0, 1.0, list[int]()
        while True:
            draft = session.draw(session.distribution(node))
            drawn.append(draft)
            before, likely = likely, likely * session.confidence(node, draft)
            token = int(pair.resolver.after(string)[draft])
            if token != CONTINUE:
                whole = token != NOTHING and string.startswith(pair.vocabulary.of_id[token])
                # Where the token was there before, the last draw only says where it ends.
                return token, drawn, before if whole and string else likely
            string += pair.draft_strings[draft]
            if len(drawn) == rule.lookahead:
                return pair.vocabulary.first(string), drawn, likely
            mass *= float(session.probabilities(node)[draft])
            if mass < rule.floor:
                return NOTHING, drawn, likely
            node = session.draft_model.extend([node], [draft])[0]

    def _behind(self, node: int, token: int, drawn: list[int]) -> int:
        """Return the node behind ``token``, by the segmentation that was drawn if there is one."""
        whole, string, used = self.pair.vocabulary.of_id[token], b"", 0
        while used < len(drawn) and len(string) < len(whole):
            string += self.pair.draft_strings[drawn[used]]
            used += 1
        spelled = drawn[:used] if string == whole else self.pair.drafted.tokenize(whole)
        for draft in spelled:
            node = self.session.draft_model.extend([node], [draft])[0]
        return node

    def _by_tli(self, node: int, chain: Chain, distributions: list[Bounds]) -> int | None:
        """Draw one more token from the intersection of the vocabularies."""
        distribution = self.tli.distribution(node)
        if distribution is None:
            return None
        drawn = self.session.draw(distribution)
        token = int(self.tli.to_target[drawn])
        distributions.append(_written_out(self.tli.over_target(distribution)))
        chain.add(token, self.session.confidence(node, drawn))
        ended = token == self.pair.target_end
        return None if ended else self.session.draft_model.extend([node], [drawn])[0]


def _written_out(row: torch.Tensor) -> Bounds:
    def bounds(token: int) -> Iterator[tuple[float, float]]:
        yield float(row[token]), float(row[token])

    return bounds
