"""Sources of TASC-spec besides counts: long matches, past outputs, and their weights."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tasc._native import SourceWeights
from tasc.decoding.drafters import Resources, parse
from tasc.decoding.simulate import References, simulate
from tests.decoding import sources
from tests.decoding.ngrams import (
    END,
    build,
    check_sources,
    draft_of,
    memory_of,
    ngram_drafter,
    sources_of,
    text,
    texts,
    token,
)
from tests.decoding.outputs import random_prompts
from tests.decoding.scripted import ints, paths


def test_a_drafter_tells_what_each_token_was_drafted_from():
    weights = SourceWeights(1, True, True, 0.6, 0.5, True)
    given_ = {"memory": memory_of([[8, 9]]), "weights": weights, "match": True}
    made = ngram_drafter([build([[5, 6, 7]])], **given_)
    kinds = {"corpus": [5, 6, 7], "past outputs": [8, 9], "prompt": [1, 2, 3]}
    for source, output in kinds.items():
        made.start(ints(1, 2, 3, 4), True)
        made.observe(ints(*output))
        assert sources_of(made)[1:] == [source] * (len(output) - 1)


def test_a_mixture_that_learns_nothing_tells_no_source_and_a_single_one_itself():
    one = [build([[5]])]
    for indexes, local, source in (
        (one, True, "other"),
        ([], True, "prompt"),
        (one, False, "corpus"),
    ):
        made = ngram_drafter(indexes, [5, 6], [5, 6], local=local, match=True)
        assert sources_of(made) == [source] * 2


said = st.lists(st.tuples(text, st.lists(token, min_size=1, max_size=4, unique=True)), max_size=6)


@st.composite
def guesses(draw):
    """A tree without equal siblings, and the probabilities of its paths."""
    n = draw(st.integers(0, 8))
    nodes: list[tuple[int, int, float]] = []
    for i in range(n):
        parent, said = draw(st.integers(-1, i - 1)), draw(token)
        if (parent, said) not in [(p, t) for t, p, _ in nodes] and parent < len(nodes):
            above = nodes[parent][2] if parent >= 0 else 1.0
            nodes.append((said, parent, above * draw(st.sampled_from([0.05, 0.3, 0.6, 0.9]))))
    return [list(column) for column in zip(*nodes, strict=True)] or [[], [], []]


NOTHING = [[], [], []]
steps = st.lists(st.tuples(guesses() | st.just(NOTHING), text), min_size=1, max_size=3)


@given(texts, texts, text, steps, said)
@example([[0]], [[1]], [0, 1, 2, 3, 0, 1, 2, 0], [(NOTHING, [0, 1, 2, 0, 0, 1])], [])
@settings(max_examples=300, deadline=None)
def test_distribution_and_weights_equal_the_slow_definition(known, outputs, prompt, steps, heard):
    check_sources(known, outputs, prompt, steps, heard)


@pytest.mark.parametrize("length", [0, 1, 8, 9, 10, 11, 12, 16, 17, 33, 64, 65, 255])
def test_lengths_share_weights_as_defined(length):
    assert SourceWeights.bucket(length) == sources.bucket(length)


@given(texts, texts, text, st.integers(1, 12))
@settings(max_examples=100, deadline=None)
def test_a_node_is_as_likely_as_where_its_path_was_read(known, outputs, output, budget):
    """Where the sequence itself is no source: else it grows by what is read."""

    def read(*behind):
        own = {"memory": memory_of(outputs), "local": False, "match": True}
        return ngram_drafter([build(known)], [], [*output, *behind], **own)

    draft = draft_of(read(), budget)
    for node, ((*before, t), parent) in enumerate(zip(paths(draft), draft.parents, strict=True)):
        above = float(draft.probabilities[parent]) if parent >= 0 else 1.0
        expected = above * dict(read(*before).distribution())[t]
        assert draft.probabilities[node] <= expected + 1e-6
        assert draft.probabilities[node] == pytest.approx(expected, abs=above / 16 + 1e-6)


def random_texts(count, length, seed):
    return [tokens + 9 for tokens in random_prompts(*[length] * count, seed=seed)]


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
    prompts = [ints(1)] * len(outputs)
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
    memory = memory_of([[1000, i] for i in (*range(100), 3)])  # 3 is seen early, and again
    assert memory.check_integrity() is None
    made = ngram_drafter([], [], [1000], memory=memory, local=False, end=2000)
    assert sorted(made.draft(60)[0].tolist()) == [3, *range(69, 100)]
