"""N-gram drafters over small corpora, and how they are held to their slow definition."""

from unittest import mock

import numpy as np
import pytest
from hypothesis import assume
from hypothesis import strategies as st

from tasc._native import NgramDrafter, NgramIndex, NgramTable, RecycledLogits, SourceWeights
from tasc.decoding.core.draft import Draft
from tasc.decoding.core.protocols import SOURCES
from tests.decoding import sources
from tests.decoding.recycling import enter, falling
from tests.decoding.scripted import floats, ints
from tests.oracles import MARK, Corpus

END = 9
# What is cut decides what is learnt; what stands at the very cut is rounded to either side.
CUTS = (0.99 / 16, 1.01 / 16)
FIRST_WEIGHTS = {  # of each source, behind which its lengths follow
    **{"corpus": 0, "memory": 8, "local": 9},
    **{"said 1": 20, "said 2": 21, "said 3": 22, "guess": 23},
}
token = st.integers(0, 3)
text = st.lists(token, min_size=1, max_size=12)
texts = st.lists(text, min_size=1, max_size=5)


def build(samples, n_max=4, discount=0.8, strength=1.0, p_min=1, end=END):
    tokens = ints(*[t for sample in samples for t in sample])
    offsets = np.cumsum([0, *map(len, samples)], dtype=np.int64)
    return NgramIndex(tokens, offsets, end, n_max, discount, strength, p_min, True)


def twin(samples, n_max=4, discount=0.8, strength=1.0, p_min=1):
    """Return the slow definition of ``build``."""
    return Corpus([[MARK, *s, END] for s in samples], n_max, p_min, discount, strength)


def memory_of(outputs):
    memory = NgramTable(4)
    for output in outputs:
        memory.add_output(ints(*output))
    return memory


def ngram_drafter(
    indexes, prompt=(), output=(), *, memory=None, weights=None, local=True, n_max=4, lam=0.6,
    gain=0.5, discount=0.7, width=0, least=0.0, match=False, end=END, logits=None,
):  # fmt: skip
    mixture = n_max, lam, gain, discount, width, least, match, True, end
    made = NgramDrafter(indexes, memory, weights, local, *mixture)
    if logits is not None:
        made.recycle(logits)
    made.start(ints(*prompt), True)
    made.observe(ints(*output))
    return made


def draft_of(made, max_nodes):
    tokens, parents, probabilities = made.draft(max_nodes)
    return Draft(tokens, parents, probabilities=probabilities)


def sources_of(made):
    return [SOURCES[i] for i in made.sources()]


def slow_definition(known, outputs, prompt, steps, heard, cut):
    """Return the distribution before each token of ``steps``, and the twin behind the last.

    Sources are followed to shorter contexts down to a weight of ``cut``; 1 / 16 in native code.
    """
    with mock.patch("tests.oracles.CUT", cut), mock.patch.object(sources, "IGNORED", cut / 2):
        slow, distributions = sources.Slow(twin(known), outputs, prompt, END), []
        for context, row in heard:
            slow.said.add(context, falling(row))
        for guess, committed in steps:
            slow.guess(*guess)
            for t in committed:
                distributions.append(slow.distribution())
                slow.append(t)
    return distributions, slow


def check_sources(known, outputs, prompt, steps, heard):
    """Check distributions, weights and sources of steps, each a guess and what is committed."""
    below, above = (slow_definition(known, outputs, prompt, steps, heard, cut) for cut in CUTS)
    assume(below[0] == above[0] and below[1].logs == above[1].logs)
    distributions, slow = iter(below[0]), below[1]
    logits, weights = RecycledLogits(1 << 10, 0.5), SourceWeights(1, True, True, 0.6, 0.5, True)
    for context, row in heard:
        enter(logits, context, [], [], [falling(row)])
    learnt = {"memory": memory_of(outputs), "weights": weights, "logits": logits}
    made = ngram_drafter([build(known)], prompt, match=True, **learnt)
    for (tokens, parents, paths), committed in steps:
        made.guess(ints(*tokens), ints(*parents), floats(*paths))
        for t in committed:
            found, expected = dict(made.distribution()), next(distributions)
            nothing = dict.fromkeys({*found, *expected}, 0)
            assert nothing | found == pytest.approx(nothing | expected, abs=0.03)
            made.observe(ints(t))
    for name, shares in zip(sources_of(made), slow.told, strict=True):
        if max(shares.values()) > 0:
            assert shares[name] >= max(shares.values()) - 0.1
        else:
            assert name == "other"
    for (name, match, bucket), log in slow.logs.items():
        native = weights.weight(FIRST_WEIGHTS[name] + 10 * match, bucket)
        assert np.log(native) == pytest.approx(log, abs=0.1)
