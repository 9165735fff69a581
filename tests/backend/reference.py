"""The slow, obvious merge search: counts everything again in every round. It is the definition."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tasc.backend.base import Alias, Merge, MergeRequest, MergeResult

Ngram = tuple[int, ...]


def merge_search(request: MergeRequest) -> MergeResult:
    """Find merges like ``tasc.backend.merge_search``, for corpora of a few thousand tokens."""
    return _Search(request).run()


@dataclass
class _Sample:
    """tokens[i] is the i-th token now; starts[i] says whether a pre-token starts with it."""

    tokens: list[int]
    starts: list[bool]
    weight: int

    def whole(self, i: int, n: int) -> bool:
        """Whether n tokens from i are one or more whole pre-tokens."""
        return self.starts[i] and (i + n == len(self.tokens) or self.starts[i + n])


@dataclass
class _Search:
    """Algorithm 1 of Tsur et al., section 4.1, departing as tasc.backend.merge_search says."""

    request: MergeRequest
    samples: list[_Sample] = field(default_factory=list)
    strings: list[bytes] = field(default_factory=list)
    used: set[Ngram] = field(default_factory=set)
    merges: list[Merge] = field(default_factory=list)
    aliases: list[Alias] = field(default_factory=list)
    rejected: int = 0

    def __post_init__(self) -> None:
        request = self.request
        self.strings = [
            b"" if i in request.special else bytes(s) for i, s in enumerate(request.vocabulary)
        ]
        for s, weight in enumerate(request.weights.tolist()):
            begin, end = int(request.offsets[s]), int(request.offsets[s + 1])
            starts = [False] * (end - begin)
            if request.boundaries is not None:
                starts = [bool(b) for b in request.boundaries[begin:end]]
            starts[:1] = [True] * len(starts[:1])  # a sample starts a pre-token
            self.samples.append(_Sample(request.tokens[begin:end].tolist(), starts, weight))

    def run(self) -> MergeResult:
        before = self.unigrams()
        while len(self.merges) < self.request.budget and (best := self.best()) is not None:
            ngram, frequency = best
            if frequency * (len(ngram) - 1) < self.request.min_reward:
                break
            self.consider(ngram, frequency)
        return MergeResult(
            merges=tuple(self.merges),
            tokens_before=before.total(),
            h2_before=_renyi2(before),
            h1_before=_shannon(before),
            rejected=self.rejected,
            aliases=tuple(self.aliases),
        )

    def unigrams(self) -> Counter[int]:
        counts: Counter[int] = Counter()
        for sample in self.samples:
            for token in sample.tokens:
                counts[token] += sample.weight
        return counts

    def occurrences(self, sample: _Sample, ngram: Ngram) -> Iterator[int]:
        """Where the n-gram stands: admissible, non-overlapping, left to right."""
        i, n = 0, len(ngram)
        while i + n <= len(sample.tokens):
            if tuple(sample.tokens[i : i + n]) == ngram and self.admissible(sample, i, n):
                yield i
                i += n
            else:
                i += 1

    def admissible(self, sample: _Sample, i: int, n: int) -> bool:
        if self.request.boundaries is None or sample.whole(i, n):
            return True
        return n == 2 and not sample.starts[i + 1]

    def best(self) -> tuple[Ngram, int] | None:
        """The unused n-gram of the largest reward and its frequency."""
        lengths = range(2, self.request.n_max + 1)
        seen = {
            tuple(sample.tokens[i : i + n])
            for sample in self.samples
            for n in lengths
            for i in range(len(sample.tokens) - n + 1)
        }
        ranked = []
        for ngram in seen - self.used:
            if not all(self.strings[t] for t in ngram):
                continue
            count = sum(s.weight * len([*self.occurrences(s, ngram)]) for s in self.samples)
            if count >= self.request.min_frequency:
                n = len(ngram)
                ranked.append((-count * (n - 1), -n, ngram, count))
        return min(ranked)[2:] if ranked else None

    def consider(self, ngram: Ngram, frequency: int) -> None:
        self.used.add(ngram)
        request, base = self.request, len(self.request.vocabulary)
        string = b"".join(self.strings[t] for t in ngram)
        if string in self.strings[:base]:
            return
        if string in self.strings:
            new_id = self.strings.index(string)
            inner = self.replace(ngram, new_id)
            self.aliases.append(Alias(ngram, new_id, frequency, inner, len(self.merges)))
            return
        if request.admit is not None and not request.admit(string):
            return
        pcs = self.conditional_pcs(ngram) if request.conditional else self.pcs(ngram)
        if not pcs < request.alpha_pcs:
            self.rejected += 1
            return
        new_id = len(self.strings)
        self.strings.append(string)
        inner = self.replace(ngram, new_id)
        now = self.unigrams()
        reward = frequency * (len(ngram) - 1)
        self.merges.append(
            Merge(
                ngram, new_id, string, frequency, reward, pcs, now.total(), _renyi2(now),
                _shannon(now), inner,
            )
        )  # fmt: skip

    def extends(self, token: int, last: int) -> bool:
        string, prefix = self.strings[token], self.strings[last]
        return string.startswith(prefix) and len(string) > len(prefix)

    def pcs(self, ngram: Ngram) -> float:
        """Σ p(t') over tokens t' whose string strictly extends the last token's."""
        counts = self.unigrams()
        colliding = sum(count for token, count in counts.items() if self.extends(token, ngram[-1]))
        return colliding / counts.total()

    def conditional_pcs(self, ngram: Ngram) -> float:
        """The same sum with p(t' | t_1 ... t_{n-1}); the end of a sample extends nothing."""
        prefix, n = ngram[:-1], len(ngram)
        seen = colliding = 0
        for sample in self.samples:
            for i in range(len(sample.tokens) - n + 2):
                if tuple(sample.tokens[i : i + n - 1]) != prefix:
                    continue
                seen += sample.weight
                following = sample.tokens[i + n - 1 : i + n]
                colliding += sample.weight * any(self.extends(t, ngram[-1]) for t in following)
        return colliding / seen

    def replace(self, ngram: Ngram, new_id: int) -> int:
        """Put new_id in place of the n-gram; returns the weight of its inner occurrences."""
        inner, n = 0, len(ngram)
        for sample in self.samples:
            positions = [*self.occurrences(sample, ngram)]
            if self.request.boundaries is not None:
                inner += sample.weight * sum(not sample.whole(i, n) for i in positions)
            for i in reversed(positions):
                sample.tokens[i : i + n] = [new_id]
                sample.starts[i + 1 : i + n] = []
        return inner


def _renyi2(counts: Counter[int]) -> float:
    total = counts.total()
    return max(0.0, -math.log2(sum(c * c for c in counts.values()) / total**2)) if total else 0.0


def _shannon(counts: Counter[int]) -> float:
    shares: Sequence[float] = [c / counts.total() for c in counts.values()]
    return max(0.0, -sum(p * math.log2(p) for p in shares))
