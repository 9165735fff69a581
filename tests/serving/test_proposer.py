"""Chains for an engine's rows: the counts of the simulator, whatever becomes of the requests."""

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasc._native import sequence_tails
from tasc.decoding.drafters import Factory, Resources, parse
from tasc.decoding.drafters.ngram import tasc_spec
from tasc.decoding.drafters.ngram.index import build_index
from tasc.decoding.policy import Policy
from tasc.decoding.simulate import References, simulate
from tasc.models.cost_model import CostModel
from tasc.serving.drafts.batch import Step, one_by_one, step_for, together
from tasc.serving.drafts.proposer import TAIL, ChainProposer, Request, Requests, Sizes, keys
from tests.serving.engine import Engine

END, K = 0, 8
METHODS = (
    "tasc-spec:width=1,adapt=false",
    "tasc-spec:width=1",
    "tasc-spec:width=1,memory=300,corpus=false",
    "tasc-spec-paper",
    "prompt:width=1",
    "corpus:width=1",
    "suffix:width=1",
    "suffix:width=1,min_probability=0.4",
    "prompt-lookup",
    "ngram-trie:num_draft=1",
)


rng = np.random.default_rng(0)
WORDS = [rng.integers(5, 60, rng.integers(2, 7)) for _ in range(20)]


def text(count: int) -> np.ndarray:
    """A text of the few words that a narrow task is made of."""
    return np.concatenate([WORDS[rng.integers(20)] for _ in range(count)]).astype(np.int32)


PROMPTS = [text(int(rng.integers(3, 30))) for _ in range(60)]
OUTPUTS = [text(int(rng.integers(1, 9))) for _ in range(60)]
KNOWN = [text(6) for _ in range(80)]
REQUESTS = [(prompt, [*output, END]) for prompt, output in zip(PROMPTS, OUTPUTS, strict=True)]


def make(method: str, known: Sequence[np.ndarray] = KNOWN) -> Factory:
    return parse(method).prepare(Resources([*known], END))


def proposer(factory: Factory, step: Step | None = None, most: int = 64) -> ChainProposer:
    made = ChainProposer(factory, END, Sizes(K, 400, most))
    made.step = step or made.step
    return made


def begun(factory: Factory, prompts: Sequence[np.ndarray] = PROMPTS) -> list[Any]:
    drafters = [factory() for _ in prompts]
    for drafter, prompt in zip(drafters, prompts, strict=True):
        drafter.start(prompt)
    return drafters


@pytest.mark.parametrize("method", METHODS)
def test_one_request_at_a_time_counts_as_the_simulator_does(method):
    engine = Engine(proposer(make(method)))
    engine.run(REQUESTS)
    found = simulate(make(method), References(PROMPTS, OUTPUTS, END), K)
    assert dataclasses.astuple(engine.counts) == found.engine_counts
    assert found.engine_counts[2] - found.accepted.sum() == found.ended <= len(OUTPUTS)
    assert engine.counts.accepted > 20
    if not getattr(
        parse(method).options, "adapt", False
    ):  # drafts depend on nothing decoded before
        moving = Engine(proposer(make(method)), 8, np.random.default_rng(1))
        moving.run(REQUESTS)
        assert moving.counts == engine.counts


@pytest.mark.parametrize("trouble", [0.0, 0.1])
@pytest.mark.parametrize("method", METHODS)
def test_one_native_call_drafts_what_the_slow_twin_drafts(method, trouble):
    factory = make(method)
    slow = method.startswith("ngram-trie")
    assert step_for(factory()) is (one_by_one if slow else together)
    answers = []
    for step in (step_for(factory()), step_for(factory(), 3), one_by_one):
        engine = Engine(proposer(make(method), step), 24, np.random.default_rng(2))
        engine.run(REQUESTS, trouble)
        answers.append(engine.drafts)
    assert answers[0] == answers[1] == answers[2]
    lengths = [len(chain) for step in answers[0] for chain in step]
    assert np.count_nonzero(lengths) > 50
    assert max(lengths) <= K


@pytest.mark.parametrize("threads", [1, 3])
def test_the_order_of_sequences_changes_no_draft(threads):
    """Of those that learn together, too: what a step learns counts behind it."""
    rng, found = np.random.default_rng(6), []
    for order in (np.arange(len(PROMPTS)), rng.permutation(len(PROMPTS))):
        drafters = begun(make("tasc-spec:width=1"))
        step, drafts = step_for(drafters[0], threads), []
        for begin in (0, 3):
            mine = [OUTPUTS[i][begin : begin + 3].tolist() for i in order]
            chains = step([drafters[i] for i in order], mine, [K] * len(order), 0.0)
            drafts.append(dict(zip(order.tolist(), chains, strict=True)))
        found.append(drafts)
    assert found[0] == found[1]


@pytest.mark.parametrize("least", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("method", METHODS)
def test_unlikely_ends_of_chains_are_left_out_alike(method, least):
    drafters = begun(make(method))
    budgets, nothing = [i % 9 for i in range(len(drafters))], [[]] * len(drafters)
    slow = one_by_one(drafters, nothing, budgets, least)
    if not method.startswith("ngram-trie"):
        assert together(drafters, nothing, budgets, least) == slow
    assert all(len(c) <= budget for c, budget in zip(slow, budgets, strict=True))


def test_preempted_requests_go_on_where_they_were():
    prompts = []

    def counted():
        drafter = make("tasc-spec:width=1")()
        start = drafter.start

        def starting(prompt: np.ndarray) -> None:
            prompts.append(tuple(prompt.tolist()))
            start(prompt)

        drafter.start = starting
        return drafter

    engine = Engine(proposer(counted), 6, np.random.default_rng(3))
    engine.run(REQUESTS, 0.05)
    whole = {tuple(prompt.tolist()) for prompt in PROMPTS}
    assert set(prompts) <= whole
    assert 50 < len(prompts) <= len(whole)  # some are gone before they were read


@pytest.mark.parametrize(("method", "most"), [("tasc-spec:width=1", 3), ("prompt-lookup", 16)])
def test_what_was_forgotten_begins_again_with_its_output_as_prompt(method, most):
    """Of two thousand requests, no more are remembered than is allowed."""
    made = proposer(make(method), most=most)
    engine = Engine(made, 8, np.random.default_rng(4))
    for _ in range(34):
        engine.run(REQUESTS, 0.1)
        assert made.requests.count <= most
    assert sum(map(len, made.requests.by_key.values())) == made.requests.count
    assert engine.counts.accepted > 20


def test_equal_sequences_have_drafters_of_their_own():
    requests, tokens = Requests(3), np.stack([np.arange(200), np.arange(1, 201)]).astype(np.int32)
    first, second, third, fourth = (Request(None, None) for _ in range(4))
    whole, short, shorter, alike = keys(tokens, [0, 0, 0, 1], [200, 90, 30, 199])
    assert (whole[1], len({whole, short, shorter, alike})) == (alike[1], 4)
    requests.put(whole, first)
    requests.put(whole, second)
    requests.put(short, third)
    assert requests.take(alike) is None  # the same end, but another length
    requests.put(shorter, fourth)
    assert requests.take(whole) is second  # the first was used longest ago
    assert requests.take(whole) is None
    assert requests.take(shorter) is fourth
    assert (requests.take(short), requests.count) == (third, 0)


def test_drafts_end_where_the_sequence_must():
    factory = make("prompt-lookup:n_max=1", [])
    made = ChainProposer(factory, END, Sizes(K, 12, 4))
    tokens = np.array([[7, 8, 9, 7, 8, 9, 7, 8, 0, 0, 0, 0]], np.int32)
    assert made.propose([[8]], [8], tokens) == [[9, 7, 8]]
    tokens[0, 8:11] = [9, 7, 8]
    assert made.propose([[9, 7, 8]], [11], tokens) == [[]]
    assert made.propose([[]], [0], tokens) == [[]]
    assert made.propose([], [], tokens) == []


def test_a_probe_is_not_proposed_and_ends_the_pause():
    """The text repeats itself, so probes hit."""
    policy = Policy(CostModel.from_option(0.3), assumed=True)
    factory = make("tasc-spec:width=1,corpus=false", [])
    made = ChainProposer(factory, END, Sizes(K, 400, 4), policy)
    text = np.tile(np.array([[7, 8, 9, 11, 12, 13]], np.int32), (1, 40))
    assert made.propose([[7]], [7], text)[0]
    policy.account.pause, policy.account.balance = 500, 0.0
    for waited in range(20):
        known = 8 + waited
        draft = made.propose([[int(text[0, known - 1])]], [known], text)[0]
        if draft:
            break
    assert 4 < waited < 16
    assert draft == text[0, known : known + len(draft)].tolist()


def test_an_ended_output_is_learnt_before_the_others_draft():
    made = proposer(make("tasc-spec:width=1,corpus=false", []))
    tokens = np.zeros((2, 40), np.int32)
    tokens[0, :6], tokens[1, :4] = [5, 5, 30, 31, 32, END], [6, 7, 8, 30]
    chains = made.propose([[30], [30, 31, 32, END, 9]], [4, 7], tokens[::-1].copy())
    assert chains[0][:2] == [31, 32]
    assert made.requests.count == 1


token = st.integers(0, 4)
to_array = partial(np.array, dtype=np.int32)
starts = st.lists(st.lists(token, max_size=12).map(to_array), min_size=1, max_size=4)
output = st.lists(token, min_size=1, max_size=12).map(to_array)
corpus = st.lists(output, min_size=1, max_size=8)
tasc_options = st.builds(
    partial(tasc_spec.TascSpecOptions, width=1, adapt=True),
    n_max=st.integers(1, 6),
    min_probability=st.sampled_from([0.0, 0.05, 0.3]),
    gain=st.sampled_from([0.0, 0.5]),
    prompt_discount=st.sampled_from([0.0, 0.5, 0.7]),
)


@given(corpus, st.lists(corpus, max_size=2), starts, tasc_options, st.sampled_from([0.0, 0.2, 0.7]))
@settings(max_examples=100, deadline=None)
def test_a_chain_is_the_first_path_of_the_tree(ended, corpora, prompts, options, least):
    """Ties included: texts of few words have many continuations of one probability."""
    end, options = 5, dataclasses.replace(options, corpus=bool(corpora))
    indexes = [build_index(outputs, end, options) for outputs in corpora]
    factory = tasc_spec.prepare(Resources([], end, indexes=indexes), options)
    learnt = factory()
    for output in ended:
        learnt.start(np.array([1], np.int32))
        learnt.observe(np.append(output, np.int32(end)))
    drafters = begun(factory, prompts)
    for budget in (0, 1, 7):
        budgets, nothing = [budget] * len(drafters), [[]] * len(drafters)
        slow = one_by_one(drafters, nothing, budgets, least)
        assert together(drafters, nothing, budgets, least) == slow


def slow_keys(tokens, rows, lengths):
    pairs = zip(rows, lengths, strict=True)
    return [(n, tokens[row, max(n - TAIL, 0) : n].astype(np.int32).tobytes()) for row, n in pairs]


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_sequences_are_told_apart_as_slowly(dtype):
    tokens = np.random.default_rng(0).integers(0, 9, (5, 200)).astype(dtype)
    rows, lengths = [4, 0, 0, 3, 1], [200, 64, 65, 0, 7]
    assert keys(tokens, rows, lengths) == slow_keys(tokens, rows, lengths)
    assert keys(tokens[:, ::2], [2], [90]) == slow_keys(tokens[:, ::2], [2], [90])
    assert keys(tokens, [], []) == []


@pytest.mark.parametrize(("rows", "lengths"), [([5], [1]), ([0], [201]), ([0, 1], [3])])
def test_what_lies_outside_the_rows_is_refused(rows, lengths):
    with pytest.raises(ValueError, match="row"):
        sequence_tails(np.zeros((5, 200), np.int32), rows, lengths, 64)


def test_drafters_of_ended_sequences_begin_others():
    made = []

    def factory():
        made.append(make("tasc-spec:width=1,corpus=false", [])())
        return made[-1]

    rng = np.random.default_rng(1)
    engine = Engine(proposer(factory, most=4), 2)
    engine.run((rng.integers(4, 9, 9), [*rng.integers(4, 9, 12), END]) for _ in range(20))
    assert len(made) <= 1 + 4  # one tells how drafters are asked
