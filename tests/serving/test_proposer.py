"""Chains for an engine's rows: the counts of the simulator, whatever becomes of the requests."""

import dataclasses

import numpy as np
import pytest

from tasc.decoding.drafters import Factory, Resources, parse
from tasc.decoding.simulate import References, simulate
from tasc.models.cost_model import CostModel
from tasc.serving.drafts.batch import Step, one_by_one, step_for, together
from tasc.serving.drafts.policy import ChainPolicy
from tasc.serving.drafts.proposer import ChainProposer, Request, Requests, Sizes, keys
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


def learns(text: str) -> bool:
    """Whether drafts depend on what was decoded before."""
    return getattr(parse(text).options, "adapt", False)


@pytest.fixture(scope="module")
def task():
    """Prompts, outputs and known outputs, of the few words that a narrow task is made of."""
    rng = np.random.default_rng(0)
    words = [rng.integers(5, 60, rng.integers(2, 7)).tolist() for _ in range(20)]

    def text(count: int) -> np.ndarray:
        return np.concatenate([words[rng.integers(20)] for _ in range(count)]).astype(np.int32)

    prompts = [text(int(rng.integers(3, 30))) for _ in range(60)]
    outputs = [text(int(rng.integers(1, 9))) for _ in range(60)]
    return prompts, outputs, [text(6) for _ in range(80)]


def make(text: str, known: list[np.ndarray]) -> Factory:
    return parse(text).prepare(Resources(known, END))


def proposer(factory: Factory, step: Step | None = None, most: int = 64) -> ChainProposer:
    made = ChainProposer(factory, END, Sizes(K, 400, most))
    made.step = step or made.step
    return made


def served(task):
    prompts, outputs, _ = task
    return [(p, [*o, END]) for p, o in zip(prompts, outputs, strict=True)]


@pytest.mark.parametrize("text", METHODS)
def test_one_request_at_a_time_counts_as_the_simulator_does(task, text):
    prompts, outputs, known = task
    engine = Engine(proposer(make(text, known)))
    engine.run(served(task))
    found = simulate(make(text, known), References(prompts, outputs, END), K)
    assert dataclasses.astuple(engine.counts) == found.engine_counts
    assert found.engine_counts[2] - found.accepted.sum() == found.ended <= len(outputs)
    assert engine.counts.accepted > 20


@pytest.mark.parametrize("text", [text for text in METHODS if not learns(text)])
def test_moving_rows_change_nothing(task, text):
    _, _, known = task
    alone, many = Engine(proposer(make(text, known))), None
    alone.run(served(task))
    many = Engine(proposer(make(text, known)), 8, np.random.default_rng(1))
    many.run(served(task))
    assert dataclasses.astuple(many.counts) == dataclasses.astuple(alone.counts)


@pytest.mark.parametrize("trouble", [0.0, 0.1])
@pytest.mark.parametrize("text", METHODS)
def test_one_native_call_drafts_what_the_slow_twin_drafts(task, text, trouble):
    _, _, known = task
    factory = make(text, known)
    slow = text.startswith("ngram-trie")
    assert step_for(factory()) is (one_by_one if slow else together)
    answers = []
    for step in (step_for(factory()), step_for(factory(), 3), one_by_one):
        engine = Engine(proposer(make(text, known), step), 24, np.random.default_rng(2))
        engine.run(served(task), trouble)
        answers.append(engine.drafts)
    assert answers[0] == answers[1] == answers[2]
    lengths = [len(chain) for step in answers[0] for chain in step]
    assert np.count_nonzero(lengths) > 50
    assert max(lengths) <= K


@pytest.mark.parametrize("threads", [1, 3])
def test_the_order_of_sequences_changes_no_draft(task, threads):
    """Of those that learn together, too: what a step learns counts behind it."""
    prompts, outputs, known = task
    rng, found = np.random.default_rng(6), []
    for order in (np.arange(len(prompts)), rng.permutation(len(prompts))):
        factory = make("tasc-spec:width=1", known)
        drafters = [factory() for _ in prompts]
        for drafter, prompt in zip(drafters, prompts, strict=True):
            drafter.start(prompt)
        step, drafts = step_for(drafters[0], threads), []
        for begin in (0, 3):
            mine = [outputs[i][begin : begin + 3].tolist() for i in order]
            chains = step([drafters[i] for i in order], mine, [K] * len(order), 0.0)
            drafts.append(dict(zip(order.tolist(), chains, strict=True)))
        found.append(drafts)
    assert found[0] == found[1]


@pytest.mark.parametrize("least", [0.0, 0.3, 1.0])
def test_unlikely_ends_of_chains_are_left_out_alike(task, least):
    prompts, _, known = task
    for text in METHODS:
        drafters = [make(text, known)() for _ in prompts]
        for drafter, prompt in zip(drafters, prompts, strict=True):
            drafter.start(prompt)
        budgets, nothing = [i % 9 for i in range(len(drafters))], [[]] * len(drafters)
        slow = one_by_one(drafters, nothing, budgets, least)
        if not text.startswith("ngram-trie"):
            assert together(drafters, nothing, budgets, least) == slow
        assert all(len(c) <= budget for c, budget in zip(slow, budgets, strict=True))


def test_preempted_requests_go_on_where_they_were(task):
    _, _, known = task
    begun = []

    def counted():
        drafter = make("tasc-spec:width=1", known)()
        start = drafter.start

        def starting(prompt: np.ndarray) -> None:
            begun.append(tuple(prompt.tolist()))
            start(prompt)

        drafter.start = starting
        return drafter

    engine = Engine(proposer(counted), 6, np.random.default_rng(3))
    engine.run(served(task), 0.05)
    whole = {tuple(prompt.tolist()) for prompt in task[0]}
    assert set(begun) <= whole
    assert 50 < len(begun) <= len(whole)  # some are gone before they were read


def test_what_was_forgotten_begins_again_with_its_output_as_prompt(task):
    _, _, known = task
    made = proposer(make("tasc-spec:width=1", known), most=3)
    engine = Engine(made, 6)
    engine.run(served(task))
    assert engine.counts.accepted > 20
    assert len(made.requests) <= 3


def test_two_thousand_requests_leave_no_more_than_was_allowed(task):
    _, _, known = task
    made = proposer(make("prompt-lookup", known), most=16)
    engine = Engine(made, 8, np.random.default_rng(4))
    for _ in range(34):
        engine.run(served(task), 0.1)
        assert len(made.requests) <= 16
    kept = made.requests
    assert sum(map(len, kept.by_key.values())) == len(kept)


def test_the_same_requests_give_the_same_drafts(task):
    _, _, known = task
    runs = []
    for _ in range(2):
        engine = Engine(proposer(make("tasc-spec:width=1", known)), 8, np.random.default_rng(5))
        engine.run(served(task), 0.05)
        runs.append(engine.drafts)
    assert runs[0] == runs[1]


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
    assert (requests.take(short), len(requests)) == (third, 0)


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
    policy = ChainPolicy(CostModel.from_option(0.3))
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
    assert made.propose([[30], [30, 31, 32, END, 9]], [4, 7], tokens[::-1].copy())[0][:2] == [
        31,
        32,
    ]
    assert len(made.requests) == 1
