"""SLEM: text is drafted, and what the target would make of it is verified token by token.

Timor et al., "Accelerating LLM Inference with Lossless Speculative Decoding Algorithms for
Heterogeneous Vocabularies", algorithm 2, with the re-alignment of section 3.2. Departs: the drafted
text is encoded behind the last tokens of the output, and where no token begins between the two it
is cut up longest token first. Tokens are exact matches, so drafts carry no distributions.
"""

import numpy as np

from tasc.decoding.core.draft import Draft
from tasc.decoding.drafters.hetero.options import HeteroOptions
from tasc.decoding.drafters.hetero.pair import DraftSession, Pair
from tasc.decoding.drafters.hetero.token_level import Chain
from tasc.tokenizer.alignment import Aligned


class Slem:
    """One sequence's drafter."""

    def __init__(self, pair: Pair, options: HeteroOptions) -> None:
        """Draft with ``pair``."""
        self.pair, self.options = pair, options

    def start(self, prompt: np.ndarray) -> None:
        """See Drafter.start."""
        self.session = DraftSession(self.pair)
        self.written = Aligned(self.pair.target)
        self.observe(prompt)

    def observe(self, tokens: np.ndarray) -> None:
        """See Drafter.observe."""
        written = self.written
        for token in tokens.tolist():
            written.text += self.pair.target.string_of([token], first=not written.text)
            written.ids.append(token)
            written.ends.append(len(written.text))
        self.session.observe(tokens)

    def draft(self, max_nodes: int) -> Draft:
        """See Drafter.draft."""
        node = self.session.root() if max_nodes else None
        if node is None:
            return Draft()
        string, ended, likely = self._speak(node, max_nodes)
        tokens = self.written.continuation(string) if string else []
        if tokens is None:
            tokens = self.pair.vocabulary.tokenize(string)
        tokens = [*tokens, *([self.pair.target_end] if ended else [])][:max_nodes]
        chain = Chain()
        for token in tokens:  # a draft token's share of it is not known: spread evenly
            chain.add(token, likely ** (1 / len(tokens)))
        return chain.draft(None)

    def _speak(self, node: int, budget: int) -> tuple[bytes, bool, float]:
        """Return the drafted text, whether it ends there, and how likely it is."""
        session, pair, o = self.session, self.pair, self.options
        string, likely, count = b"", 1.0, 0
        while True:
            drawn = session.draw(session.distribution(node))
            likely *= session.confidence(node, drawn)
            if not pair.draft_strings[drawn]:
                return string, drawn in pair.draft_ends, likely
            string += pair.draft_strings[drawn]
            count += 1
            full = len(pair.vocabulary.tokenize(string)) > budget
            if full or count == o.lookahead or likely < o.confidence:
                return string, False, likely
            node = session.draft_model.extend([node], [drawn])[0]
