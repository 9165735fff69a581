"""Sources of TASC-spec besides counts: long matches, past outputs, and their weights."""

from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

import tests.oracles
from tasc._native import NgramDrafter, NgramTable, RecycledLogits, SourceWeights
from tasc.decoding.core.protocols import SOURCES
from tasc.decoding.drafters import Resources, parse
from tasc.decoding.simulate import References, simulate
from tests.decoding import sources
from tests.decoding.test_ngram_draft import END, build, twin
from tests.decoding.test_recycling import enter, falling

token = st.integers(0, 3)
text = st.lists(token, min_size=1, max_size=12)
texts = st.lists(text, min_size=1, max_size=5)
REST = (0.6, 0.5, 0.7, 0, 0.0, True, True, END)


def drafter(known, outputs, prompt, *, local=True, learns=True, logits=None):
    """One with a corpus and a memory, what was said, and the weights that it learns."""
    memory = NgramTable(4)
    for output in outputs:
        memory.add_output(np.array(output, np.int32))
    weights = SourceWeights(1, True, local, 0.6, 0.5, True)
    learnt = weights if learns else None
    index = build(known)
    made = NgramDrafter([index], memory, learnt, local, 4, 0.6, 0.5, 0.7, 0, 0.0, True, True, END)
    if logits is not None:
        made.recycle(logits)
    made.start(np.array(prompt, np.int32), True)
    return made, weights


def named(sources):
    return [SOURCES[i] for i in sources]


def test_a_drafter_tells_what_each_token_was_drafted_from():
    made, _ = drafter([[5, 6, 7]], [[8, 9]], [])
    kinds = {"corpus": [5, 6, 7], "past outputs": [8, 9], "prompt": [1, 2, 3]}
    for source, output in kinds.items():
        made.start(np.array([1, 2, 3, 4], np.int32), True)
        made.observe(np.array(output, np.int32))
        assert named(made.sources())[1:] == [source] * (len(output) - 1)


def test_a_mixture_that_learns_nothing_tells_no_source_and_a_single_one_itself():
    tokens = np.array([5, 6], np.int32)
    for known, local, source in (([[5]], True, "other"), ([], True, "prompt")):
        indexes = [build(known)] if known else []
        made = NgramDrafter(indexes, None, None, local, 4, *REST)
        made.start(tokens, True)
        made.observe(tokens)
        assert named(made.sources()) == [source] * 2
    made = NgramDrafter([build([[5]])], None, None, False, 4, *REST)
    made.start(tokens, True)
    made.observe(tokens)
    assert named(made.sources()) == ["corpus"] * 2


said = st.lists(st.tuples(text, st.lists(token, min_size=1, max_size=4, unique=True)), max_size=6)


# What is cut decides what is learnt; what stands at the very cut is rounded to either side.
CUTS = (0.99 / 16, 1.01 / 16)


@contextmanager
def cutting(cut):
    """Follow sources to shorter contexts down to a weight of ``cut``; 1 / 16 in native code."""
    original = tests.oracles.CUT, sources.IGNORED
    tests.oracles.CUT, sources.IGNORED = cut, cut / 2
    try:
        yield
    finally:
        tests.oracles.CUT, sources.IGNORED = original


def slow_definition(known, outputs, prompt, output, heard, cut):
    """Return the distribution before each token of ``output``, and the twin behind the last."""
    with cutting(cut):
        slow, distributions = sources.Slow(twin(known), outputs, prompt, END), []
        for context, row in heard:
            slow.said.add(context, falling(row))
        for t in output:
            distributions.append(slow.distribution())
            slow.append(t)
    return distributions, slow


@given(texts, texts, text, text, said)
@example([[0]], [[1]], [0, 1, 2, 3, 0, 1, 2, 0], [0, 1, 2, 0, 0, 1], [])
@settings(max_examples=200, deadline=None)
def test_distribution_and_weights_equal_the_slow_definition(known, outputs, prompt, output, heard):
    below, above = (slow_definition(known, outputs, prompt, output, heard, cut) for cut in CUTS)
    assume(below[0] == above[0] and below[1].logs == above[1].logs)
    distributions, slow = below
    logits = RecycledLogits(1 << 10, 0.5)
    for context, row in heard:
        enter(logits, context, [], [], [falling(row)])
    made, weights = drafter(known, outputs, prompt, logits=logits)
    for t, expected in zip(output, distributions, strict=True):
        found = dict(made.distribution())
        for each in set(found) | set(expected):
            assert found.get(each, 0) == pytest.approx(expected.get(each, 0), abs=0.03)
        made.observe(np.array([t], np.int32))
    assert len(made.sources()) == len(output)
    for name, shares in zip(named(made.sources()), slow.told, strict=True):
        if max(shares.values()) > 0:
            assert shares[name] >= max(shares.values()) - 0.1
        else:
            assert name == "other"
    first = {"corpus": 0, "memory": 8, "local": 9, "said 1": 20, "said 2": 21, "said 3": 22}
    first["guess"] = 23
    for (name, match, bucket), log in slow.logs.items():
        native = weights.weight(first[name] + 10 * match, bucket)
        assert np.log(native) == pytest.approx(log, abs=0.1)


@pytest.mark.parametrize("length", [0, 1, 8, 9, 10, 11, 12, 16, 17, 33, 64, 65, 255])
def test_lengths_share_weights_as_defined(length):
    assert SourceWeights.bucket(length) == sources.bucket(length)


@given(texts, texts, text, st.integers(1, 12))
@settings(max_examples=100, deadline=None)
def test_a_node_is_as_likely_as_where_its_path_was_read(known, outputs, output, budget):
    """Where the sequence itself is no source: else it grows by what is read."""
    made, _ = drafter(known, outputs, [], local=False, learns=False)
    made.observe(np.array(output, np.int32))
    tokens, parents, probabilities = made.draft(budget)
    paths: list[list[int]] = []
    for node, (t, parent) in enumerate(zip(tokens.tolist(), parents.tolist(), strict=True)):
        before = paths[parent] if parent >= 0 else []
        paths.append([*before, t])
        read, _ = drafter(known, outputs, [], local=False, learns=False)
        read.observe(np.array([*output, *before], np.int32))
        above = float(probabilities[parent]) if parent >= 0 else 1.0
        expected = above * dict(read.distribution())[t]
        assert probabilities[node] <= expected + 1e-6
        assert probabilities[node] == pytest.approx(expected, abs=above / 16 + 1e-6)


def random_texts(count, length, seed, ids=400):
    rng = np.random.default_rng(seed)
    return [rng.integers(10, 10 + ids, length).astype(np.int32) for _ in range(count)]


def per_step(method, prompts, outputs, known=(), budget=12):
    factory = parse(method).prepare(Resources(list(known), END))
    return simulate(factory, References(prompts, outputs, END), budget).tokens_per_step


def test_copying_is_learnt_and_goes_on_behind_a_token_that_differs():
    outputs = random_texts(40, 60, 0)
    prompts = [output.copy() for output in outputs]
    for i, prompt in enumerate(prompts):
        prompt[30] = 5 + i % 5  # one token is wrong, and in no text
    known = random_texts(100, 60, 1)
    default = per_step("tasc-spec", prompts, outputs, known)
    assert default > 1.1 * per_step("prompt-lookup:chain=0", prompts, outputs)
    assert default > 1.1 * per_step("tasc-spec:adapt=false,match=false", prompts, outputs, known)


def test_a_corpus_of_another_task_is_unlearnt():
    rng = np.random.default_rng(2)
    words = [rng.integers(10, 40, 5) for _ in range(8)]
    outputs = [
        np.concatenate([words[i] for i in rng.integers(8, size=12)]).astype(np.int32)
        for _ in range(40)
    ]
    other = [np.random.default_rng(i).permutation(30).astype(np.int32) + 10 for i in range(300)]
    prompts = [np.array([1], np.int32)] * len(outputs)
    none, shifted = (per_step("tasc-spec", prompts, outputs, known) for known in ([], other))
    assert shifted > 0.97 * none
    assert shifted > 1.2 * per_step("tasc-spec:adapt=false", prompts, outputs, other)


def test_without_a_corpus_prompt_and_past_outputs_are_left():
    outputs = random_texts(5, 20, 3) * 4
    prompts = random_texts(20, 4, 4)
    assert per_step("tasc-spec", prompts, outputs) > 3
    assert per_step("tasc-spec", prompts, outputs) == per_step(
        "tasc-spec:corpus=false", prompts, outputs, random_texts(5, 20, 5)
    )


def test_of_a_context_with_many_continuations_the_latest_are_looked_at():
    memory = NgramTable(4)
    made = NgramDrafter([], memory, None, False, 4, 0.6, 0.5, 0.7, 0, 0.0, False, True, 2000)
    for i in range(100):
        memory.add_output(np.array([1000, i], np.int32))
    memory.add_output(np.array([1000, 3], np.int32))  # seen early, and again
    assert memory.check_integrity() is None
    made.start(np.array([], np.int32), True)
    made.observe(np.array([1000], np.int32))
    tokens, _, _ = made.draft(60)
    assert sorted(tokens.tolist()) == [3, *range(69, 100)]
