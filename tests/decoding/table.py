"""A target whose distributions are a table, drafters of every kind, and all outputs enumerated."""

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from scipy import stats

from tasc.decoding.core.draft import Draft, ProposalProbs
from tasc.decoding.core.protocols import NO_NEEDS, Drafter, Verifier
from tasc.decoding.core.sampling import Sampling
from tasc.decoding.decode import Request, generate_all
from tasc.decoding.verify import verifier
from tasc.models.inputs import Tree

VOCABULARY = 4
LENGTH = 3
SEQUENCES = 2000
PROMPT = np.array([1, 2], np.int32)
FALSE_ALARM = 1e-6
_SEEN: dict[tuple[Sampling, bytes], torch.Tensor] = {}


class Remembering(Sampling):
    """Makes the distribution of a row once: thousands of draws are from the few of a table."""

    def distribution(self, row: torch.Tensor) -> torch.Tensor:
        key = self, row.numpy().tobytes()
        if key not in _SEEN:
            _SEEN[key] = super().distribution(row)
        return _SEEN[key]


KERNEL, CUT = Remembering(0.8, seed=1), Remembering(1.2, top_k=3, top_p=0.9, seed=2)
SETTINGS = {"kernel": KERNEL, "cut": CUT}


class TableTarget:
    """Stands in for Target: the logits after a sequence depend on its last two tokens."""

    device = torch.device("cpu")
    states: torch.Tensor | None = None
    chains_only = False
    head = None
    model = torch.nn.Identity()

    def __init__(self, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.logits = torch.from_numpy(rng.normal(0, 1.5, (VOCABULARY,) * 3).astype(np.float32))

    def check(self, prompt: np.ndarray, room: int) -> None:
        pass

    def begin(self, capacity: int, size: int) -> None:
        pass

    def leave(self, sequence: int) -> None:
        pass

    def join(self, prompts: Sequence[np.ndarray], *, hidden: bool) -> torch.Tensor:
        self.sequence = prompts[0].tolist()
        return self.logits[self.sequence[-2], self.sequence[-1]][None]

    def can_read(self, prompt: np.ndarray) -> bool:
        return True

    def read(self, prompt: np.ndarray, tree: Tree, *, hidden: bool) -> torch.Tensor:
        self.sequence = prompt[:-1].tolist()
        return self.score([int(prompt[-1])], [tree])

    def score(self, last: Sequence[int], trees: Sequence[Tree]) -> torch.Tensor:
        self.pending = [(self.sequence[-1], last[0])]
        for token, parent in zip(*(part.tolist() for part in trees[0]), strict=True):
            self.pending.append((self.pending[parent + 1][1], token))
        return torch.stack([self.logits[a, b] for a, b in self.pending])[None]

    def keep(self, paths: Sequence[np.ndarray]) -> None:
        self.sequence += [self.pending[i][1] for i in (0, *(n + 1 for n in paths[0].tolist()))]


class AtLength:
    """Cuts outputs, so that drafts need not become shorter towards the end."""

    def cut(self, tokens: list[int], new: int) -> int | None:
        return LENGTH if len(tokens) >= LENGTH else None


class TreeDrafter:
    """Draws a tree of given branching from distributions of its own, far from the target's.

    ``replacement`` says how siblings are drawn, None that they are the likeliest without chance.
    With ``lies`` the draft claims the opposite of ``replacement``.
    """

    def __init__(
        self,
        branching: Sequence[int],
        replacement: bool | None,
        rng: np.random.Generator,
        lies: bool = False,
    ) -> None:
        self.needs = NO_NEEDS
        self.branching, self.replacement, self.rng, self.lies = branching, replacement, rng, lies
        self.distributions = np.random.default_rng(7).dirichlet([0.6] * VOCABULARY, VOCABULARY)

    def start(self, prompt: np.ndarray) -> None:
        self.last = int(prompt[-1])

    def observe(self, tokens: np.ndarray) -> None:
        self.last = int(tokens[-1])

    def draft(self, max_nodes: int) -> Draft:
        tokens: list[int] = []
        parents: list[int] = []
        of = [-1]
        level = [-1]
        for branches in self.branching:
            grown = []
            for node in level:
                if len(tokens) + branches > max_nodes:
                    continue
                before = tokens[node] if node >= 0 else self.last
                of[node + 1] = -1 if self.replacement is None else before
                for token in self._siblings(self.distributions[before], branches):
                    grown.append(len(tokens))
                    tokens.append(token)
                    parents.append(node)
                    of.append(-1)
            level = grown
        distributions = None
        if self.replacement is not None:
            rows = torch.from_numpy(self.distributions.astype(np.float32))
            distributions = ProposalProbs(
                rows, np.array(of, np.int32), self.replacement != self.lies
            )
        return Draft(np.array(tokens, np.int32), np.array(parents, np.int32), distributions)

    def _siblings(self, distribution: np.ndarray, count: int) -> list[int]:
        if self.replacement is None:
            return np.argsort(-distribution)[:count].tolist()
        return self.rng.choice(VOCABULARY, count, replace=self.replacement, p=distribution).tolist()


def exact_distribution(
    target: TableTarget, distribution: Callable[[torch.Tensor], torch.Tensor]
) -> np.ndarray:
    """Return the probability of every sequence of LENGTH tokens after PROMPT, in product order."""
    result = []
    for sequence in itertools.product(range(VOCABULARY), repeat=LENGTH):
        (a, b), probability = PROMPT.tolist(), 1.0
        for token in sequence:
            probability *= float(distribution(target.logits[a, b])[token])
            a, b = b, token
        result.append(probability)
    return np.array(result)


def sample(
    target: Any, drafter: Drafter, verify: Verifier, sequences: int = SEQUENCES, **options
) -> np.ndarray:
    """Count every sequence of LENGTH tokens in ``sequences`` generations."""
    counts: Counter[tuple[int, ...]] = Counter()
    for _ in range(sequences):
        request = Request(PROMPT, lambda: drafter, verify=verify, stop=AtLength(), **options)
        (done,) = generate_all(target, [request], max_new_tokens=32)  # the target is a stand-in
        counts[tuple(done.tokens.tolist())] += 1
    every = itertools.product(range(VOCABULARY), repeat=LENGTH)
    return np.array([counts[sequence] for sequence in every])


def chance(counts: np.ndarray, distribution: np.ndarray) -> float:
    """Return the p-value of ``counts`` under ``distribution``: Pearson's χ², rare resolver pooled.

    An outcome of probability zero that occurred makes it zero.
    """
    expected = distribution / distribution.sum() * counts.sum()
    if counts[expected == 0].sum():
        return 0.0
    rare = expected < 5
    observed = np.append(counts[~rare], counts[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum())
    keep = expected > 0
    return float(stats.chisquare(observed[keep], expected[keep]).pvalue)


def p_value(drafter: Drafter, rule: str, sampling: Sampling, sequences: int = SEQUENCES) -> float:
    """Return the p-value of sequences that a verifier draws of a TableTarget."""
    target = TableTarget()
    counts = sample(target, drafter, verifier(rule, sampling), sequences)
    return chance(counts, exact_distribution(target, sampling.distribution))
