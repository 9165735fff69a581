"""One tree from n-grams and another drafter: its mixture, its learning, and when it pays."""

import numpy as np
import pytest

from tasc.decoding.core.account import ALLOWANCE, Typical
from tasc.decoding.core.draft import Draft, chain
from tasc.decoding.core.slow import SlowDrafts
from tasc.decoding.drafters import Resources, mix, parse
from tasc.decoding.drafters.ngram.tasc_spec import TascSpec
from tasc.decoding.policy import Policy
from tasc.models.target import Target
from tests.decoding.ngrams import build, draft_of, memory_of, ngram_drafter
from tests.decoding.outputs import generate, resources_of
from tests.decoding.scripted import Fixed, Loop, floats, ints, paths
from tests.letters import OUTPUTS, build_writer


def test_n_grams_go_on_where_a_guess_ends_and_equal_paths_are_one_node():
    # N-grams know nothing of what follows 7.
    made = ngram_drafter([build([[1, 2, 3]] * 3)], [], [7], memory=memory_of([]), match=True)
    made.guess(ints(1, 2, 5), ints(-1, 0, -1), floats(0.6, 0.5, 0.2))
    draft = draft_of(made, 20)
    assert len(set(paths(draft))) == len(draft)
    assert {(1,), (1, 2), (1, 2, 3), (5,)} <= set(paths(draft))
    sure = draft.probabilities
    assert all(sure[i] <= sure[p] for i, p in enumerate(draft.parents) if p >= 0)


def test_a_guess_that_is_no_tree_is_refused_and_a_new_sequence_begins_without_one():
    made = ngram_drafter([build([[1, 2]])], memory=memory_of([]), local=False, match=True)
    for tokens, parents, sure in (
        (ints(1), ints(0), floats(1)),
        (ints(1), ints(-2), floats(1)),
        (ints(1, 2), ints(-1), floats(1)),
        (ints(1), ints(-1), floats()),
    ):
        with pytest.raises(ValueError, match="tree"):
            made.guess(tokens, parents, sure)
    made.guess(ints(3), ints(-1), floats(0.9))
    assert 3 in dict(made.distribution())
    made.start(ints(), True)
    assert 3 not in dict(made.distribution())
    made.guess(ints(3, 4), ints(-1, 0), floats(np.nan, np.inf))  # claims nothing sound
    assert np.isfinite(made.draft(9)[2]).all()


def test_it_is_asked_where_the_tokens_it_adds_are_worth_its_time():
    slow = SlowDrafts()
    assert slow.pays(0.1)  # nothing is known
    slow.record_step(3.0, 2)  # a token takes 1.5 seconds
    for _ in range(60):
        slow.record_draft(0.1, 1.6, seconds=2.0)  # 1.5 tokens more are worth 2.25 seconds
        slow.record_draft(3.0, 4.3, seconds=2.0)  # 1.3 are worth 1.95
    slow.seconds = Typical(2.0, known=True)
    assert slow.gain(0.2) == pytest.approx(1.5, abs=0.02)
    assert slow.pays(0.2)
    assert not slow.pays(3.2)
    slow.record_step(30.0, 2)  # a slower target
    assert slow.pays(3.2)


def test_what_does_not_pay_is_tried_within_an_allowance():
    slow, tried = SlowDrafts(), 0
    slow.seconds.add(20.0)
    for _ in range(10_000):
        slow.record_step(1.0, 1)
        tried += slow.pays(1.0)
    assert 20 * tried == pytest.approx(ALLOWANCE * 10_000, abs=20)


def test_a_draft_takes_no_more_than_max_seconds():
    slow = SlowDrafts()
    assert not slow.pays(0.1, max_seconds=9.0)  # no draft of unknown time within a limit
    slow.record_step(1.0, 2)  # as long as two tokens, it is thought to take
    assert slow.pays(0.1, max_seconds=1.1)
    assert not slow.pays(0.1, max_seconds=0.9)
    slow.seconds.add(0.1)
    assert slow.pays(0.1, max_seconds=0.2)
    assert not slow.pays(0.1, max_seconds=0.05)


def test_the_first_draft_of_a_sequence_may_take_longer_and_is_no_measure():
    slow = SlowDrafts()
    slow.record_step(1.0, 2)
    slow.record_draft(0.1, 1.6, 50.0, first=True)
    slow.record_draft(0.1, 1.6, 0.1)
    assert slow.seconds.value == pytest.approx(0.1)
    assert slow.pays(0.1, max_seconds=60.0, first=True)
    assert not slow.pays(0.1, max_seconds=40.0, first=True)


@pytest.mark.parametrize("always", [False, True])
def test_the_forward_of_a_prompt_is_not_the_pace(clock, always):
    policy, made = Policy(), mixed(Fixed(ints(7)), always=always)
    loop = Loop(policy, made)
    made.start(ints(1))
    for prompt, seconds in ((1, 1000.0), (0, 1.0)):
        loop.draft(8, prompt)
        clock[0] += seconds
        loop.commit(ints(7, 8))
    assert policy.slow.pace.per_token == pytest.approx(0.5)


class Oracle(Fixed):
    """Another drafter: it knows what comes, with ``certainty``, and takes ``seconds``."""

    def __init__(self, clock, said: np.ndarray, seconds: float, certainty: float) -> None:
        super().__init__(said)
        self.clock, self.seconds, self.certainty, self.asked = clock, seconds, certainty, 0

    def draft(self, max_nodes: int) -> Draft:
        self.asked += 1
        self.clock[0] += self.seconds
        some = self.output[self.done : self.done + min(max_nodes, 4)]
        return chain(some, None, floats(*self.certainty ** np.arange(1, len(some) + 1)))


def mixed(other, *, always=False):
    """Return n-grams without a corpus, mixed with ``other``."""
    own = parse("tasc-spec").prepare(Resources([], 0))()
    assert isinstance(own, TascSpec)
    return mix.Mix(own, other, always=always)


def steps_of(clock, seconds: float, *, rounds: int = 4, always: bool = False):
    """Decode tokens that n-grams cannot know, the other drafter can; a forward takes a second."""
    rng, policy, counts = np.random.default_rng(0), Policy(), []
    for _ in range(rounds):
        said = rng.permutation(1000)[:100].astype(np.int32)
        other = Oracle(clock, said, seconds, 0.9)
        loop = Loop(policy, mixed(other, always=always))
        loop.drafters[0].start(ints(2000))
        loop.drafters[0].observe(said[:1])
        at = steps = 1
        while at < len(said):
            begin = clock[0]
            (draft,) = loop.draft(8)
            accepted = len(draft.path_of(said[at:]))
            clock[0] += 1.0
            loop.commit(said[at : at + accepted + 1], seconds=clock[0] - begin)
            at, steps = at + accepted + 1, steps + 1
        counts.append((steps, other.asked))
    return counts


def test_a_drafter_that_knows_is_asked_while_it_is_cheap_and_left_alone_while_it_is_not(clock):
    cheap, dear = steps_of(clock, 0.2), steps_of(clock, 20.0)
    assert cheap[-1][0] <= 100 / 5 + 2  # four tokens and one more a step
    assert cheap[-1][1] >= cheap[-1][0] - 2
    assert dear[-1][0] > 90
    assert sum(asked for _, asked in dear) <= 12
    (*_, (steps, asked)) = steps_of(clock, 20.0, always=True)
    assert asked >= steps - 2


def test_a_small_model_is_asked_as_a_head_is(tokenizer):
    target = Target(build_writer(tokenizer))
    resources = resources_of(target, tokenizer)
    prompt = tokenizer.encode(["say 2"]).tokens
    made, alone = (parse(m).prepare(resources)() for m in ("mix:always=true", "tasc-spec"))
    found, without = (
        generate(target, drafter, prompt, max_new_tokens=8, budget=12) for drafter in (made, alone)
    )
    assert tokenizer.decode(found.tokens.tolist()) == OUTPUTS["2"]
    assert found.tokens.tolist() == without.tokens.tolist()
    assert found.decoding_steps < without.decoding_steps  # the model drafts what it says itself
