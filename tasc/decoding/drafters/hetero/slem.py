"""SLEM: draft text, encode it with the target's tokenizer, and verify it token by token.

Timor et al., arXiv:2502.05202, algorithm 2, with the re-alignment of section 3.2. Departs: the
drafted text is encoded as a continuation of the last output tokens. If no token boundary lies
between the two, it is split greedily, longest token first. Verification takes exact matches, so
drafts carry no distributions.
"""

import numpy as np

from tasc.decoding.core.draft import Draft, chain
from tasc.decoding.core.protocols import NO_NEEDS
from tasc.decoding.drafters.hetero.options import HeteroOptions
from tasc.decoding.drafters.hetero.pair import DraftSession, Pair
from tasc.tokenizer.alignment import Aligned


class Slem:
    """One sequence's drafter."""

    needs = NO_NEEDS

    def __init__(self, pair: Pair, options: HeteroOptions) -> None:
        self.pair, self.options = pair, options

    def start(self, prompt: np.ndarray) -> None:
        self.session = DraftSession(self.pair)
        self.written = Aligned(self.pair.target)
        self.observe(prompt)

    def observe(self, tokens: np.ndarray) -> None:
        written = self.written
        for token in tokens.tolist():
            written.text += self.pair.target.string_of([token], first=not written.text)
            written.ids.append(token)
            written.ends.append(len(written.text))
        self.session.observe(tokens)

    def draft(self, max_nodes: int) -> Draft:
        node = self.session.root() if max_nodes else None
        if node is None:
            return Draft()
        string, ended, likely = self._draft_text(node, max_nodes)
        tokens = self.written.continuation(string) if string else []
        if tokens is None:
            tokens = self.pair.vocabulary.tokenize(string)
        tokens = [*tokens, *([self.pair.target_end] if ended else [])][:max_nodes]
        # The shares of single tokens are unknown: spread evenly.
        paths = likely ** np.linspace(0, 1, len(tokens) + 1)[1:]
        return chain(np.array(tokens, np.int32), probabilities=paths.astype(np.float32))

    def _draft_text(self, node: int, max_tokens: int) -> tuple[bytes, bool, float]:
        """Return the drafted text, whether it ends the output, and its probability."""
        session, pair, o = self.session, self.pair, self.options
        string, likely, count = b"", 1.0, 0
        while True:
            drawn = session.draw(session.distribution(node))
            likely *= session.confidence(node, drawn)
            if not pair.draft_strings[drawn]:
                return string, drawn in pair.draft_ends, likely
            string += pair.draft_strings[drawn]
            count += 1
            full = len(pair.vocabulary.tokenize(string)) > max_tokens
            if full or count == o.lookahead or likely < o.confidence:
                return string, False, likely
            node = session.draft_model.extend([node], [drawn])[0]
