"""Two toy vocabularies over a, b and c, a draft model that is a table, and all it can draw."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from tasc.decoding.core.sampling import Sampling
from tasc.decoding.drafters.hetero.pair import DraftSession, Pair
from tasc.vocab.strings import CONTINUE, NOTHING, Strings

END = b""


class ToyEncoding:
    """Longest token first; the last id ends a text. See Encoding."""

    def __init__(self, strings: list[bytes]) -> None:
        self.strings = [*strings, END]
        self.end = len(strings)
        self.opening: list[int] = []
        self.byte_ids = {s[0]: i for i, s in enumerate(strings) if len(s) == 1}
        self.known = Strings(self.strings)

    def encode(self, string: bytes) -> tuple[list[int], list[int]]:
        ids = self.known.tokenize(string)
        return ids, np.cumsum([len(self.strings[i]) for i in ids]).tolist()

    def string_of(self, ids: list[int], first: bool = False) -> bytes:
        return b"".join(self.strings[i] for i in ids)


class TableSpeaker:
    """ProposalProbs depend on the last two tokens; a node is a path. ``forwards`` counts calls."""

    def __init__(self, table: torch.Tensor) -> None:
        self.table, self.forwards = table, 0
        self.children: dict[tuple[int, int], int] = {}

    def follow(self, ids: Sequence[int]) -> int:
        self.paths = [tuple(ids)]
        self.children = {}
        return 0

    def known(self, parent: int, token: int) -> int | None:
        return self.children.get((parent, token))

    def extend(self, parents: Sequence[int], tokens: Sequence[int]) -> list[int]:
        self.forwards += 1
        for key in zip(parents, tokens, strict=True):
            if key not in self.children:
                self.children[key] = len(self.paths)
                self.paths.append((*self.paths[key[0]], key[1]))
        return [self.children[key] for key in zip(parents, tokens, strict=True)]

    def row(self, node: int) -> torch.Tensor:
        before = ([0, 0] + [t + 1 for t in self.paths[node]])[-2:]
        return self.table[before[0], before[1]]

    @property
    def evaluated(self) -> int:
        return len(self.children)


def toy_pair(
    target: list[bytes],
    draft: list[bytes],
    seed: int,
    sampling: Sampling | None,
    flat: float = 1.0,
    lost: int | None = None,
) -> Pair:
    """Pair two vocabularies, each with an end token more, and a random table over the draft's.

    The draft token ``lost`` is never drafted, as one that FR-Spec prunes.
    """
    a: Any = ToyEncoding(target)
    b: Any = ToyEncoding(draft)
    size = len(b.strings)
    logits = np.random.default_rng(seed).normal(0, flat, (size + 1, size + 1, size))
    table = torch.from_numpy(logits.astype(np.float32))
    if lost is not None:
        table[..., lost] = -torch.inf
    kind: Any = TableSpeaker
    return Pair(a, b, a.end, [b.end], (len(a.strings), size), lambda: kind(table), sampling)


def draws(
    session: DraftSession, node: int, lookahead: int = 0, floor: float = 0.0
) -> Iterator[tuple[list[int], int, float]]:
    """Yield (draft tokens, target token or NOTHING, probability) of each way to commit a token."""
    yield from _draws(session, node, lookahead, floor, b"", 1.0, [])


def _draws(session, node, lookahead, floor, string, mass, before):
    pair = session.pair
    tokens = pair.vocabulary.ids
    for draft, probability in enumerate(session.distribution(node).tolist()):
        share, path = mass * probability, [*before, draft]
        if share == 0:
            continue
        if not pair.draft_strings[draft]:
            yield path, (pair.vocabulary.first(string) if string else pair.target_end), share
            continue
        grown = string + pair.draft_strings[draft]
        committed = not any(t != grown and t.startswith(grown) for t in tokens)
        fits = [t for t in tokens if grown.startswith(t)]
        token = tokens[max(fits, key=len)] if fits else NOTHING
        assert (pair.resolver.after(string)[draft] == CONTINUE) == (not committed)
        if committed or len(path) == lookahead:
            yield path, token, share
        elif share < floor:
            yield path, NOTHING, share
        else:
            child = session.draft_model.extend([node], [draft])[0]
            yield from _draws(session, child, lookahead, floor, grown, share, path)


def psi(session: DraftSession, node: int, **rule) -> np.ndarray:
    """Return the probability (V_T + 1,) of each target token; the last one: of none."""
    found = np.zeros(session.pair.sizes[0] + 1)
    for _, token, share in draws(session, node, **rule):
        found[token if token >= 0 else -1] += share
    return found
