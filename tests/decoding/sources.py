"""The slow twin of TASC-spec's sources: counts and matches, and how they are weighed."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tests.decoding.recycling import Recycled
from tests.oracles import MARK, Corpus, Distribution, Table

LENGTHS = 16
IGNORED = 1 / 32  # a source that weighs less is not asked
RESUMED = 4  # tokens of a match that outlives one which disagrees
SAID = 1 / 4  # the share of what the target said, of each length of context
GUESSED = 2.0  # what another drafter's tree weighs to begin with
Match = tuple[int, int]  # the position in a text, and the tokens before it that agree; 0 if resumed


def bucket(length: int) -> int:
    """Lengths that share a weight."""
    limits = (*range(9), 10, 12, 16, 24, 32, 64)
    return next((b for b, most in enumerate(limits) if length <= most), LENGTHS - 1)


@dataclass
class Text:
    """A text, and the match of a sequence in it."""

    samples: Sequence[Sequence[int]]
    end: int
    match: Match | None = None

    def __post_init__(self) -> None:
        self.text = [t for sample in self.samples for t in sample]

    @property
    def predicted(self) -> int | None:
        if self.match is None or self.match[0] >= len(self.text):
            return None
        token = self.text[self.match[0]]
        return None if token == MARK else token

    def positions(self, string: Sequence[int]) -> list[int]:
        """The positions behind ``string``, which lies within one sample, in rising order."""
        found, begin, n = list[int](), 0, len(string)
        for sample in self.samples:
            ends = range(n, len(sample) + 1)
            found += [begin + i for i in ends if list(sample[i - n : i]) == list(string)]
            begin += len(sample)
        return found

    def resume(self) -> Match | None:
        """What is left of the match where it disagrees."""
        if self.match is None or self.match[1] < RESUMED:
            return None
        return self.match[0] + 1, 0


@dataclass
class CorpusText(Text):
    """Matches begin at contexts, of n_max tokens at most, that the corpus holds once."""

    n_max: int = 4

    def follow(self, context: Sequence[int], token: int) -> None:
        grown = [*context, token]
        agrees = token != self.end and self.predicted == token
        known = [
            (n, self.positions(grown[len(grown) - n :]))
            for n in range(min(self.n_max, len(grown)), 0, -1)
        ]
        known = [(n, positions) for n, positions in known if positions] if token != self.end else []
        repeated = next((n for n, positions in known if len(positions) > 1), 0)
        match = None
        if agrees and self.match is not None:
            match = self.match[0] + 1, self.match[1] + 1
        if known and len(known[0][1]) == 1 and (match is None or match[1] < known[0][0]):
            match = known[0][1][0], known[0][0]
        if match is None and repeated < 2 and self.predicted not in (None, self.end):
            match = self.resume()
        self.match = match


@dataclass
class RecentText(Text):
    """Matches begin at the latest position of the longest string that was seen before."""

    longest: int = 4

    def follow(self, context: Sequence[int], token: int) -> None:
        if token < 0:
            self.match = None
            return
        if self.predicted == token and self.match is not None:
            self.match = self.match[0] + 1, self.match[1] + 1
            return
        grown = [*context, token]
        for n in range(min(self.longest, len(grown)), 0, -1):
            if positions := self.positions(grown[len(grown) - n :]):
                resumed = self.resume() if n < 2 else None
                self.match = resumed or (positions[-1], n)
                return
        self.match = self.resume()


@dataclass
class Slow:
    """A drafter's distribution and weights, by definition.

    A corpus, the memory of outputs, the sequence itself, whose prompt is ``prompt``, what the
    target ``said``, and what another drafter guessed.
    """

    corpus: Corpus
    outputs: Sequence[Sequence[int]]
    prompt: Sequence[int]
    end: int
    n_max: int = 4
    lam: float = 0.6
    gain: float = 0.5
    discount: float = 0.7
    output: list[int] = field(default_factory=list)
    told: list[dict[str, float]] = field(default_factory=list)  # of each token: shares of its mass
    said: Recycled = field(default_factory=Recycled)
    guessed: dict[tuple[int, ...], Distribution] = field(default_factory=dict)
    since: list[int] = field(default_factory=list)  # tokens since the guess

    def __post_init__(self) -> None:
        learnt = [[MARK, *output] for output in self.outputs]
        self.memory = Table(learnt, self.n_max, self.discount)
        self.texts: dict[str, CorpusText | RecentText] = {
            "corpus": CorpusText(self.corpus.samples, self.end, None, self.n_max),
            "memory": RecentText(learnt, self.end, None, self.n_max),
            "local": RecentText([[]], self.end, None, self.n_max + 1),
        }
        self.logs: dict[tuple[str, bool, int], float] = {}
        self.squares: dict[tuple[str, bool, int], float] = {}
        shares = {"corpus": self.lam / 2, "memory": self.lam / 2, "local": 1 - self.lam}
        for name, share in shares.items():
            for b in range(1, LENGTHS):
                self.logs[name, False, b] = math.log(share) + self.gain * b
                self.logs[name, True, b] = math.log(share / 4) + self.gain * b
            self.logs[name, True, 0] = self.logs[name, True, 2]
        for n in range(1, 4):
            for longest in range(n, 4):
                self.logs[f"said {n}", False, longest] = math.log(SAID) + self.gain * longest
        for position in range(16):
            self.logs["guess", False, position] = math.log(GUESSED)
        for token in (*self.prompt, MARK):
            self._read(token)
        for name in ("corpus", "memory"):  # what stands before the mark is no context of theirs
            positions = self.texts[name].positions([MARK])
            if len(positions) == 1 or (positions and name == "memory"):
                self.texts[name].match = positions[-1], 1

    def guess(self, tokens: Sequence[int], parents: Sequence[int], paths: Sequence[float]) -> None:
        """Take another drafter's tree: what comes after each of its nodes that has children."""
        self.guessed, self.since = {}, []
        nodes: list[tuple[int, ...]] = []
        for token, parent, path in zip(tokens, parents, paths, strict=True):
            before = nodes[parent] if parent >= 0 else ()
            above = paths[parent] if parent >= 0 else 1.0
            nodes.append((*before, token))
            self.guessed.setdefault(before, {})[token] = path / above

    def distribution(self) -> Distribution:
        mixed: Distribution = {}
        for weight, distribution, _ in self._sources():
            if weight < IGNORED:
                continue
            for token, p in distribution.items():
                mixed[token] = mixed.get(token, 0) + weight * p
        return mixed

    def append(self, token: int) -> None:
        sources = list(self._sources())
        given = [weight * distribution.get(token, 0.0) for weight, distribution, _ in sources]
        self.told.append(_shares(sources, given))
        if len(sources) > 1 and sum(given) > 0:
            for (weight, _, key), p in zip(sources, given, strict=True):
                gradient = p / sum(given) - weight
                self.squares[key] = self.squares.get(key, 1.0) + gradient**2
                self.logs[key] += gradient / math.sqrt(self.squares[key])
        for name in ("corpus", "memory"):
            self.texts[name].follow([MARK, *self.output], token)
        self._read(token)
        self.output.append(token)
        self.since.append(token)

    def _read(self, token: int) -> None:
        local = self.texts["local"]
        local.follow(local.text, token)
        local.text.append(token)
        local.samples = [local.text]

    def _sources(self) -> Iterator[tuple[float, Distribution, tuple[str, bool, int]]]:
        found: list[tuple[tuple[str, bool, int], Distribution]] = []
        sequence, output = self.texts["local"].text, [MARK, *self.output]
        local = Table(self.texts["local"].samples, self.n_max, self.discount)
        for name, text in self.texts.items():
            if text.predicted is not None and text.match is not None:
                found.append(((name, True, bucket(text.match[1])), {text.predicted: 1.0}))
        if row := self.guessed.get(tuple(self.since)):
            sure = min(int(4 * max(row.values())), 3)
            found.append((("guess", False, 4 * min(len(self.since), 3) + sure), row))
        rows = self.said.known([*self.prompt, *self.output])
        found += [((f"said {n}", False, max(rows)), row) for n, row in rows.items()]
        for name, counts, context in (
            ("corpus", self.corpus, output),
            ("memory", self.memory, output),
            ("local", local, sequence),
        ):
            if length := counts.length(context):
                found.append(((name, False, length), counts.distribution(context)))
        if not found:  # the corpus' frequent tokens, which teach nothing
            yield 1.0, self.corpus.distribution(output), ("corpus", False, 0)
        weights = [math.exp(self.logs[key]) for key, _ in found]
        for weight, (key, distribution) in zip(weights, found, strict=True):
            yield weight / sum(weights), distribution, key


def _shares(sources, given) -> dict[str, float]:
    """What each kind of source gave a token, of all that it was given; the sole one all of it."""
    names = {"memory": "past outputs", "local": "prompt", "corpus": "corpus", "guess": "other"}
    kinds = [names.get(key[0], "logits") for _, _, key in sources]
    if len(kinds) == 1:
        return {kinds[0]: 1.0}
    shares = dict.fromkeys(kinds, 0.0)
    for kind, p in zip(kinds, given, strict=True):
        shares[kind] += p / (sum(given) or 1.0)
    return shares
