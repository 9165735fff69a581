"""How well a plain n-gram table guesses held-out outputs: TASC-spec's promise without a model.

The reference outputs are replayed, so this is what a target that writes them would accept. The
table is the corpus side of section 5.2 of Tsur et al.: longest context first, back-off, most
frequent continuation; no prompt side, no pruning, one chain.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tasc.analysis.ngrams import Ids, ngram_codes
from tasc.data.tokenizer import Encoded
from tasc.errors import InputError

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Replay:
    """What the replay counted.

    Attributes:
        samples: held-out outputs.
        tokens: their tokens, each output's end included.
        accuracy: share of tokens that the table guesses.
        tokens_per_step: tokens of an output by decoding steps; the token that the target adds in
            each step counts.
        draft: longest chain offered in a step.
    """

    samples: int
    tokens: int
    accuracy: float
    tokens_per_step: float
    draft: int


def replay(corpus: Encoded, held_out: Encoded, n_max: int = 4, draft: int = 8) -> Replay:
    """Replay ``held_out`` through the n-gram table (contexts of n_max - 1 tokens) of ``corpus``.

    Raises:
        InputError: one of them has no sample.
    """
    if len(corpus.offsets) < 2 or len(held_out.offsets) < 2:
        raise InputError("nothing to replay: give outputs of the corpus and held-out ones")
    end = 1 + max(int(part.tokens.max(initial=0)) for part in (corpus, held_out))
    known, asked = _with_ends(corpus, end), _with_ends(held_out, end)
    stream = np.concatenate([known, asked])
    hits = _hits(stream, len(known), end, n_max)
    steps = _steps(hits, asked == end, draft)
    return Replay(
        samples=len(held_out.offsets) - 1,
        tokens=len(asked),
        accuracy=float(hits.mean()),
        tokens_per_step=len(asked) / steps,
        draft=draft,
    )


def _with_ends(encoded: Encoded, end: int) -> Ids:
    return np.insert(encoded.tokens.astype(np.int64), encoded.offsets[1:], end)


def _hits(stream: Ids, split: int, end: int, n_max: int) -> Flags:
    """Whether the table of ``stream[:split]`` guesses each token of ``stream[split:]``."""
    places = np.arange(len(stream))
    ends = np.concatenate([[-1], np.flatnonzero(stream == end)])
    depth = places - ends[np.searchsorted(ends, places) - 1] - 1  # tokens before it in its sample
    guess = np.full(len(stream) - split, -1, dtype=np.int64)
    for order in range(n_max - 1, -1, -1):
        usable = places[depth >= order]
        grams = ngram_codes(stream, order + 1)[usable - order]
        codes = ngram_codes(stream, order)[usable - order] if order else np.zeros_like(usable)
        asked = usable >= split
        open_ = np.flatnonzero(asked)[guess[usable[asked] - split] < 0]
        contexts, answers = _table(codes[~asked], grams[~asked], stream[usable[~asked]])
        found = np.searchsorted(contexts, codes[open_]).clip(max=len(contexts) - 1)
        right = contexts[found] == codes[open_] if len(contexts) else np.zeros(len(open_), bool)
        guess[usable[open_[right]] - split] = answers[found[right]]
    hits: Flags = guess == stream[split:]
    return hits


def _table(contexts: Ids, grams: Ids, following: Ids) -> tuple[Ids, Ids]:
    """Return the distinct contexts, ascending, and the most frequent continuation of each."""
    _, first, counts = np.unique(grams, return_index=True, return_counts=True)
    order = np.lexsort((following[first], -counts, contexts[first]))
    held, top = np.unique(contexts[first][order], return_index=True)
    return held, following[first][order][top]


def _steps(hits: Flags, ends: Flags, draft: int) -> int:
    """Count decoding steps: a miss or the end of an output closes a run of accepted tokens.

    A run of L tokens, the corrected one included, takes ceil(L / (draft + 1)) steps.
    """
    closes = np.flatnonzero(~hits | ends)
    lengths = np.diff(closes, prepend=-1)
    return int(np.sum(-(-lengths // (draft + 1))))
