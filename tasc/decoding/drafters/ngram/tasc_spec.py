"""TASC-spec: draft from a mixture of corpus and prompt n-grams.

Tsur et al., "Task-Centric Acceleration of Small-Language Models", section 5.2: n-gram models with
contexts of up to n_max tokens, p_mixed = λ p_corp + (1 - λ) p_prompt. The prompt model covers the
prompt and the output so far. If neither side matches, the most frequent tokens are drafted.

Departs, except in ``tasc-spec-paper``:

- Absolute discounting interpolates all orders; in the paper, the longest match decides alone.
- A mark precedes every output, in corpus and sequence, so that the corpus predicts its beginning.
- Finished outputs are a source of their own.
- The ongoing match in each text, of any length, is a source (as in SuffixDecoding,
  arXiv:2411.04975).
- The weight of a source depends on the length of its match, initially e^gain per token, and is
  learnt from each token (AdaGrad on the log-probability, Duchi et al., 2011).
- The likeliest tokens after contexts that the target has scored are a source (``recycling.py``).
- Drafts are best-first trees by path probability; the paper's chain is width 1.

Without a corpus, the other sources remain.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tasc._native import NgramDrafter, NgramIndex, NgramTable, RecycledLogits, SourceWeights
from tasc.decoding.core.protocols import Factory
from tasc.decoding.core.resources import Resources
from tasc.decoding.drafters.ngram.index import build_index, check_counts
from tasc.decoding.drafters.ngram.options import Counts
from tasc.decoding.drafters.ngram.recycling import NgramTrees, RecyclingOptions
from tasc.errors import InputError
from tasc.options.bounds import MOST, within

CONTEXT = 4  # longest context counted in prompt and past outputs; matches cover longer ones


@dataclass(frozen=True)
class TascSpecOptions(Counts):
    """How to count (see Counts) and mix; defaults were tuned in simulation on validation data.

    ``corpus`` and ``prompt`` enable the two sides, ``match`` matches of any length. Nodes with a
    path below ``min_probability`` are dropped. ``adapt`` learns while decoding: the weights; the
    last ``memory`` tokens of finished outputs; and, with ``logits``, the likeliest tokens after
    each scored node.
    """

    lambda_: float = within(0.6, 0, 1)
    gain: float = within(0.5, 0, 10)
    prompt_discount: float = within(0.7, 0, 1)
    width: int = within(0, 0, MOST)
    min_probability: float = within(0.0, 0, 1)
    corpus: bool = True
    prompt: bool = True
    match: bool = True
    adapt: bool = True
    logits: bool = True
    memory: int = within(100_000, 1, MOST)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.corpus or self.prompt):
            raise InputError("corpus=false and prompt=false leave no source: set one to true")


def prepare(resources: Resources, options: TascSpecOptions) -> Factory:
    """Prepare TASC-spec with the saved indexes, or an index of the outputs.

    Raises InputError if there is neither prompt nor corpus to draft from, or a saved index was
    counted with other options.
    """
    indexes = indexes_of(resources, options)
    listens = options.logits and resources.target is not None
    learnt = Learnt(len(indexes), options, logits=listens) if options.adapt else None
    return lambda: TascSpec(indexes, resources.end, options, learnt)


def indexes_of(resources: Resources, options: TascSpecOptions) -> list[NgramIndex]:
    """Return the saved indexes, or an index of the outputs; none without ``corpus`` or outputs."""
    indexes = list(resources.indexes) if options.corpus else []
    for index in indexes:
        check_counts(index, options)
    has_outputs = any(len(output) for output in resources.outputs)
    if options.corpus and not indexes and (has_outputs or not options.prompt):
        indexes = [build_index(resources.outputs, resources.end, options)]
    return indexes


class Learnt:
    """State learnt across sequences: recent outputs, weights of the sources, recycled logits."""

    def __init__(self, corpora: int, options: TascSpecOptions, *, logits: bool) -> None:
        """Begin empty; ``logits``: whether to recycle the target's logits."""
        o = options
        self.memory = Memory(min(o.n_max, CONTEXT), o.memory)
        self.weights = SourceWeights(
            corpora=corpora,
            memory=True,
            prompt=o.prompt,
            lambda_=o.lambda_,
            gain=o.gain,
            match=o.match,
        )
        recycling = RecyclingOptions()
        self.logits = RecycledLogits(recycling.rows, recycling.renewal) if logits else None


class Memory:
    """N-gram counts of recent outputs, within a bounded number of tokens."""

    def __init__(self, n_max: int, limit: int) -> None:
        """Keep at most ``limit`` tokens; beyond that, drop the older half."""
        self.table = NgramTable(n_max)
        self.limit, self.tokens = limit, 0
        self.outputs: deque[np.ndarray] = deque()

    def add(self, output: np.ndarray) -> None:
        """Count ``output`` (T,) int32, including its end token."""
        if len(output) > self.limit:
            return
        self.outputs.append(output)
        self.tokens += len(output)
        if self.tokens <= self.limit:
            self.table.add_output(output)
            return
        while self.tokens > max(self.limit // 2, len(output)):
            self.tokens -= len(self.outputs.popleft())
        self.table.clear()
        for recent in self.outputs:
            self.table.add_output(recent)


class TascSpec(NgramTrees):
    """One sequence's drafter; sequences share indexes and learnt state."""

    def __init__(
        self,
        indexes: Sequence[NgramIndex],
        end: int,
        options: TascSpecOptions,
        learnt: Learnt | None = None,
    ) -> None:
        self.learnt, self.end = learnt, end
        native = NgramDrafter(
            corpora=list(indexes),
            memory=learnt.memory.table if learnt else None,
            weights=learnt.weights if learnt else None,
            prompt=options.prompt,
            n_max=min(options.n_max, CONTEXT) if options.match else options.n_max,
            lambda_=options.lambda_,
            gain=options.gain,
            discount=options.prompt_discount,
            width=options.width,
            min_probability=options.min_probability,
            match=options.match,
            fallback=True,
            end=end,
        )
        super().__init__(native, learnt.logits if learnt else None, mark=options.mark)

    def observe(self, tokens: np.ndarray) -> None:
        super().observe(tokens)
        if self.learnt is not None and len(tokens) and tokens[-1] == self.end:
            self.learnt.memory.add(self.native.take_output())
