"""A target's and a drafter's vocabulary, and a sequence in the tokens of both."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from tasc.decoding.core.sampling import Sampling
from tasc.decoding.drafters.hetero.neural import NeuralDraftModel
from tasc.decoding.drafters.hetero.ngram import NgramDraftModel
from tasc.decoding.verify.reference import pick
from tasc.tokenizer.alignment import Aligned, Encoding, split_incomplete
from tasc.vocab.strings import Strings, TokenResolver

DraftModel = NeuralDraftModel | NgramDraftModel  # with the same methods


@dataclass(eq=False)
class Pair:
    """What all sequences share. Tokens of the two vocabularies are compared as byte strings.

    Without ``sampling``, drafts take the most likely token.
    """

    target: Encoding
    draft: Encoding
    target_end: int
    draft_ends: list[int]
    sizes: tuple[int, int]  # numbers of logits, of the target and the drafter
    draft_model: Callable[[], DraftModel]  # makes the draft model of one sequence
    sampling: Sampling | None = None

    def __post_init__(self) -> None:
        self.sequences = 0  # that have a generator
        # cache of segmentation.relevant, by spelled bytes and token
        self.relevant: dict[tuple[bytes, int], tuple[np.ndarray, list[int]]] = {}
        self.relevant_size = 0  # number of draft tokens in the cache

    @cached_property
    def draft_strings(self) -> list[bytes]:
        """The strings of draft ids with logits, empty for ids without a token."""
        return [*self.draft.strings, *[b""] * self.sizes[1]][: self.sizes[1]]

    @cached_property
    def vocabulary(self) -> Strings:
        """The strings of target ids with logits."""
        return Strings(self.target.strings[: self.sizes[0]])

    @cached_property
    def drafted(self) -> Strings:
        """The strings of draft ids with logits."""
        return Strings(self.draft_strings)

    @cached_property
    def to_target(self) -> np.ndarray:
        """The target token (V_D,) int64 with the string of each draft token, -1 for none."""
        ids = np.array([self.vocabulary.ids.get(s, -1) if s else -1 for s in self.draft_strings])
        ids[self.draft_ends] = self.target_end
        return ids.astype(np.int64)

    @cached_property
    def same_ids(self) -> np.ndarray:
        """``to_target`` for a pair with one vocabulary."""
        ids = np.arange(self.sizes[1], dtype=np.int64)
        return np.where(ids < self.sizes[0], ids, -1)

    @cached_property
    def resolver(self) -> TokenResolver:
        """The target tokens that draft tokens commit."""
        ends = dict.fromkeys(self.draft_ends, self.target_end)
        return TokenResolver(self.vocabulary, self.draft_strings, ends)

    def random(self) -> np.random.Generator:
        """Return a generator for one more sequence, independent of its verifier's."""
        self.sequences += 1
        seed = self.sampling.seed if self.sampling else 0
        return np.random.default_rng([seed, self.sequences, 0xD4AF7])


class DraftSession:
    """The draft model on one sequence: it follows the target's text and draws draft tokens."""

    def __init__(self, pair: Pair) -> None:
        self.pair, self.random = pair, pair.random()
        self.draft_model = pair.draft_model()
        self.text = Aligned(pair.draft)
        self.pending = b""  # the bytes of an incomplete character
        self.begun = False
        self.distributions: dict[int, torch.Tensor] = {}

    def observe(self, tokens: np.ndarray) -> None:
        """Read target tokens (k,) int32; ignore end tokens and tokens without text."""
        string = self.pair.target.string_of(tokens.tolist(), first=not self.begun)
        self.begun = self.begun or bool(string)
        whole, self.pending = split_incomplete(self.pending + string)
        if whole:
            self.text.extend(whole)

    def root(self) -> int | None:
        """Return the node of the text so far; None if the draft model cannot represent it."""
        ids = self.pair.draft.byte_ids
        if not all(byte in ids for byte in self.pending):
            return None
        text = [*self.pair.draft.opening, *self.text.ids, *(ids[byte] for byte in self.pending)]
        self.distributions = {}
        return self.draft_model.follow(text or self.pair.draft_ends[:1])

    def distribution(self, node: int) -> torch.Tensor:
        """Return the sampling distribution after ``node``: (V_D,) float64 on the CPU."""
        distribution = self.distributions.get(node)
        if distribution is None:
            row, sampling = self.draft_model.row(node), self.pair.sampling
            if sampling is None:
                distribution = torch.zeros(len(row), dtype=torch.float64)
                distribution[int(row.argmax())] = 1
            else:
                distribution = sampling.distribution(row).double().cpu()
            self.distributions[node] = distribution
        return distribution

    def draw(self, distribution: torch.Tensor) -> int:
        return pick(distribution, self.random.random())

    def confidence(self, node: int, token: int) -> float:
        """Return the draft model's own probability of ``token`` after ``node``."""
        return float(self.draft_model.row(node).float().softmax(-1)[token])
