"""SLRS: draft tokens are drawn until they settle a target token, which is verified as a string.

Timor et al., "Accelerating LLM Inference with Lossless Speculative Decoding Algorithms for
Heterogeneous Vocabularies", algorithm 3 with the lookahead of section 3.3, once for each token of a
chain: what was drawn beyond a settled token is drawn anew, from a row that is already there.
Departs from the printed algorithm in two ways that keep it exact. A spelling less likely than
``floor`` gives no token, so that few spellings are left to sum (the target then speaks for itself,
with what remains of its law). And once a step has spent its ``nodes`` the chain goes on with TLI.
"""

from collections.abc import Iterator

import numpy as np
import torch

from tasc.decoding.core.draft import AskedLaws, Bounds, Draft
from tasc.decoding.drafters.hetero.options import SlrsOptions
from tasc.decoding.drafters.hetero.pair import Pair, Partner
from tasc.decoding.drafters.hetero.spelling import Rule, Spelling
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
        self.partner: Partner = self.tli.partner

    def observe(self, tokens: np.ndarray) -> None:
        """See Drafter.observe."""
        self.partner.observe(tokens)

    def draft(self, budget: int) -> Draft:
        """See Drafter.draft."""
        speaker = self.partner.speaker
        self.debt = max(0, self.debt + speaker.evaluated - self.options.nodes)
        node = self.partner.root() if budget else None
        chain, laws = Chain(), list[Bounds]()
        while node is not None and len(chain.tokens) < budget:
            if self.debt + speaker.evaluated >= self.options.nodes:
                node = self._by_tli(node, chain, laws)
            else:
                node = self._by_spelling(node, chain, laws)
            if chain.likely and chain.likely[-1] < self.options.confidence:
                break
        return chain.draft(AskedLaws(laws) if laws and self.pair.sampling else None)

    def _by_spelling(self, start: int, chain: Chain, laws: list[Bounds]) -> int | None:
        """Draw one more token; return the node behind it, None where the chain ends."""
        token, drawn, likely = self._walk(start)
        laws.append(lambda asked: Spelling(self.partner, self.rule, start, asked).bounds())
        if token == NOTHING:
            return None
        chain.add(token, likely)
        if token == self.pair.target_end:
            return None
        return self._behind(start, token, drawn)

    def _walk(self, node: int) -> tuple[int, list[int], float]:
        """Draw until a target token is settled; return it, what was drawn, and how likely that is.

        A token may be NOTHING: what was drawn is none of the target's, or too unlikely.
        """
        partner, pair, rule = self.partner, self.pair, self.rule
        string, mass, likely, drawn = b"", 1.0, 1.0, list[int]()
        while True:
            draft = partner.draw(partner.law(node))
            drawn.append(draft)
            before, likely = likely, likely * partner.confidence(node, draft)
            token = int(pair.outcomes.after(string)[draft])
            if token != CONTINUE:
                whole = token != NOTHING and string.startswith(pair.vocabulary.of_id[token])
                # Where the token was there before, the last draw only says where it ends.
                return token, drawn, before if whole and string else likely
            string += pair.spoken[draft]
            if len(drawn) == rule.lookahead:
                return pair.vocabulary.first(string), drawn, likely
            mass *= float(partner.probabilities(node)[draft])
            if mass < rule.floor:
                return NOTHING, drawn, likely
            node = partner.speaker.extend([node], [draft])[0]

    def _behind(self, node: int, token: int, drawn: list[int]) -> int:
        """Return the node behind ``token``, in the spelling that was drawn where there is one."""
        whole, string, used = self.pair.vocabulary.of_id[token], b"", 0
        while used < len(drawn) and len(string) < len(whole):
            string += self.pair.spoken[drawn[used]]
            used += 1
        spelled = drawn[:used] if string == whole else self.pair.drafted.tokenize(whole)
        for draft in spelled:
            node = self.partner.speaker.extend([node], [draft])[0]
        return node

    def _by_tli(self, node: int, chain: Chain, laws: list[Bounds]) -> int | None:
        """Draw one more token from the intersection of the vocabularies."""
        law = self.tli.law(node)
        if law is None:
            return None
        drawn = self.partner.draw(law)
        token = int(self.tli.to_target[drawn])
        laws.append(_written_out(self.tli.over_target(law)))
        chain.add(token, self.partner.confidence(node, drawn))
        ended = token == self.pair.target_end
        return None if ended else self.partner.speaker.extend([node], [drawn])[0]


def _written_out(row: torch.Tensor) -> Bounds:
    def bounds(token: int) -> Iterator[tuple[float, float]]:
        yield float(row[token]), float(row[token])

    return bounds
