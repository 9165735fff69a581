"""TASC-spec: a mixture of corpus and prompt n-grams as drafter.

Tsur et al., "Task-Centric Acceleration of Small-Language Models", section 5.2: n-gram models of
contexts up to n_max tokens, p_mixed = λ p_corp + (1 - λ) p_prompt; the prompt model covers the
prompt and what has been generated; where neither side has a hit, the most frequent tokens.

Departs, and ``tasc-spec-paper`` does not: all orders are interpolated by absolute discounting
instead of the longest hit deciding alone; a mark that no text contains stands before every output,
in corpus and sequence, so that the beginning of an answer is predicted from the beginnings of the
corpus; finished outputs are a source of their own; of each text, the match that goes on is a
source, however long it is (as in SuffixDecoding, arXiv:2411.04975); sources weigh by the length of
what they match, e^gain a token to begin with, and learn from each token what they are worth
(AdaGrad on the log-probability, Duchi et al., 2011); the likeliest tokens after contexts that
the target has scored are a source (``recycling.py``); and drafts are best-first trees by path
probability, of which the paper's chain is width 1. Without a corpus the other sources are left.
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

CONTEXT = 4  # tokens that past outputs and the prompt are counted by: matches know the longer ones


@dataclass(frozen=True)
class TascSpecOptions(Counts):
    """How to count (see Counts) and mix; defaults were chosen on validation data, simulated.

    ``corpus`` and ``prompt`` switch the two sides on, ``match`` matches of any length. A node is
    left out when its path is less likely than ``min_probability``. ``adapt`` learns while decoding:
    the weights, and finished outputs, the last ``memory`` tokens of them at most; and, with
    ``logits``, the likeliest tokens of each node that was scored.
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
        """Refuse values outside their range."""
        super().__post_init__()
        if not (self.corpus or self.prompt):
            raise InputError("nothing is left to draft from: leave corpus or prompt on")


def prepare(resources: Resources, options: TascSpecOptions) -> Factory:
    """See Method.prepare: without ``corpus``, no index; saved ones must be counted as asked.

    Raises:
        InputError: neither prompt nor a corpus is there to draft from, or an index does not fit.
    """
    indexes = indexes_of(resources, options)
    listens = options.logits and resources.target is not None
    learnt = Learnt(len(indexes), options, logits=listens) if options.adapt else None
    return lambda: TascSpec(indexes, resources.end, options, learnt)


def indexes_of(resources: Resources, options: TascSpecOptions) -> list[NgramIndex]:
    """Return the saved indexes, or one of the outputs; none where the prompt is all there is."""
    indexes = list(resources.indexes) if options.corpus else []
    for index in indexes:
        check_counts(index, options)
    known = any(len(output) for output in resources.outputs)
    if options.corpus and not indexes and (known or not options.prompt):
        indexes = [build_index(resources.outputs, resources.end, options)]
    return indexes


class Learnt:
    """What a running job has learnt: its last outputs, and what each source is worth."""

    def __init__(self, corpora: int, options: TascSpecOptions, *, logits: bool) -> None:
        """Begin with nothing but ``options``; ``logits``: there is a target to learn from."""
        o = options
        self.memory = Memory(min(o.n_max, CONTEXT), o.memory)
        self.weights = SourceWeights(corpora, True, o.prompt, o.lambda_, o.gain, o.match)
        kept = RecyclingOptions()
        self.logits = RecycledLogits(kept.rows, kept.renewal) if logits else None


class Memory:
    """Finished outputs of a running job, counted within a bounded number of tokens."""

    def __init__(self, n_max: int, limit: int) -> None:
        """Keep at most ``limit`` tokens; when they are exceeded, the older half is forgotten."""
        self.table = NgramTable(n_max)
        self.limit, self.tokens = limit, 0
        self.outputs: deque[np.ndarray] = deque()

    def add(self, output: np.ndarray) -> None:
        """Count ``output`` (T,) int32, its end token included."""
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
        for kept in self.outputs:
            self.table.add_output(kept)


class TascSpec(NgramTrees):
    """One sequence's drafter; indexes and memory are shared."""

    def __init__(
        self,
        indexes: Sequence[NgramIndex],
        end: int,
        options: TascSpecOptions,
        learnt: Learnt | None = None,
    ) -> None:
        """Draft from ``indexes``; ``end`` is the token that ends an output."""
        o = options
        self.learnt, self.end = learnt, end
        native = NgramDrafter(
            list(indexes),
            learnt.memory.table if learnt else None,
            learnt.weights if learnt else None,
            o.prompt,
            min(o.n_max, CONTEXT) if o.match else o.n_max,
            o.lambda_,
            o.gain,
            o.prompt_discount,
            o.width,
            o.min_probability,
            o.match,
            True,
            end,
        )
        super().__init__(native, learnt.logits if learnt else None, mark=o.mark)

    def observe(self, tokens: np.ndarray) -> None:
        """Extend the local table by what the step committed; remember a finished output."""
        super().observe(tokens)
        if self.learnt is not None and len(tokens) and tokens[-1] == self.end:
            self.learnt.memory.add(self.native.take_output())
