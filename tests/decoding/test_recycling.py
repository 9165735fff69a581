"""What the target said, kept for drafts: rows, bounds, likeliest tokens, and who learns when."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tasc._native import RecycledLogits
from tasc.decoding.core.draft import Draft
from tasc.decoding.drafters import Resources, parse
from tasc.decoding.drafters.ngram.tasc_spec import TascSpec
from tasc.decoding.drafters.ngram.top_softmax import by_torch, top_softmax
from tasc.models.cost_model import SUCCESSORS
from tests.decoding.ngrams import token
from tests.decoding.outputs import generate
from tests.decoding.recycling import KEPT, Recycled, enter, falling
from tests.decoding.scripted import ints


@st.composite
def steps(draw):
    """A context, a tree behind it, and what was said after each of its nodes."""
    n = draw(st.integers(0, 6))
    rows = st.lists(st.integers(0, 20), min_size=1, max_size=KEPT, unique=True)
    return (
        draw(st.lists(token, max_size=4)),
        draw(st.lists(token, min_size=n, max_size=n)),
        [draw(st.integers(-1, i - 1)) for i in range(n)],
        draw(st.lists(rows, min_size=n + 1, max_size=n + 1)),
    )


@given(st.lists(steps(), min_size=1, max_size=5), st.sampled_from([0.0, 0.2, 0.5, 1.0]))
@settings(max_examples=200, deadline=None)
def test_rows_equal_the_slow_definition(entered, renewal):
    native, slow = RecycledLogits(1 << 10, renewal), Recycled(renewal)
    for context, tokens, parents, rows in entered:
        said = [falling(row) for row in rows]
        enter(native, context, tokens, parents, said)
        slow.add_tree(context, tokens, parents, said)
        assert native.check_integrity() is None
    assert len(native) == len(slow.rows)
    for context, row in slow.rows.items():
        found = native.row(ints(*context))
        probabilities = [p for _, p in found]
        assert probabilities == pytest.approx(list(row.values()), rel=1e-5)
        for t, p in found:  # of equal means, which differ by rounding, either may be the last
            assert row.get(t, min(row.values())) == pytest.approx(p, rel=1e-5)


def test_a_table_keeps_so_many_rows_and_the_latest_ones():
    native = RecycledLogits(64, 0.5)
    for i in range(1000):
        enter(native, [i], [], [], [{i + 1: 0.5}])
        assert native.row(ints(i)) == [(i + 1, 0.5)]
    assert native.check_integrity() is None
    assert len(native) == 64
    kept = [i for i in range(1000) if native.row(ints(i))]
    assert len(kept) == 64
    assert np.mean(kept) > 900


def test_a_tree_that_is_none_is_refused():
    for tokens, parents, word in (
        ([2], [0], "a node's parent must be -1 or an earlier node"),
        ([2, 3], [-1, 0], "needs as many successors"),
    ):
        with pytest.raises(ValueError, match=word):
            enter(RecycledLogits(64, 0.5), [1], tokens, parents, [{1: 0.5}] * 2)
    with pytest.raises(ValueError, match="at most 2\\^28 rows"):
        RecycledLogits(1 << 29, 0.5)


@pytest.mark.parametrize("routine", [top_softmax, by_torch])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("size", [3, 512, 5000])
def test_the_likeliest_tokens_are_those_of_a_softmax(routine, dtype, size):
    logits = torch.randn(9, size, generator=torch.Generator().manual_seed(size)) * 4
    logits[0, 1:] = -torch.inf
    rows = logits.to(dtype)
    tokens, probabilities = (part.reshape(9, -1) for part in routine(rows, SUCCESSORS))
    expected = rows.double().softmax(-1)
    there = tokens >= 0
    assert there.sum(1).tolist() == [1, *[min(size, SUCCESSORS)] * 8]
    assert (probabilities[~there] == 0).all()
    for row in range(9):
        known = tokens[row][there[row]]
        best = expected[row].sort(descending=True).values[: len(known)].numpy()
        assert len(set(known.tolist())) == len(known)
        assert expected[row][known.astype(np.int64)].numpy() == pytest.approx(best)
        assert probabilities[row][there[row]] == pytest.approx(best, rel=0.01)


class Watched:
    """A drafter that notes what it was shown of a step."""

    def __init__(self, drafter: Any) -> None:
        self.own, self.seen, self.needs = drafter, [], drafter.needs
        self.start, self.observe = drafter.start, drafter.observe

    def draft(self, max_nodes):
        self.drafted: Draft = self.own.draft(max_nodes)
        return self.drafted

    def on_logits(self, draft, logits):
        self.seen.append((len(draft), logits.shape))
        if len(self.seen) > 1:
            assert draft is self.drafted
        self.own.on_logits(draft, logits)


def test_every_step_is_read_and_what_it_said_is_drafted_from(target):
    factory = parse("recycling").prepare(Resources([], 0, target=target))
    drafter = Watched(factory())
    prompt = ints(*range(5, 25))
    first = generate(target, drafter, prompt, max_new_tokens=30, budget=12)
    assert drafter.seen[0] == (0, (1, target.model.config.vocab_size))
    assert [n for n, _ in drafter.seen[1:]] == first.drafted
    assert all(shape[0] == n + 1 for n, shape in drafter.seen)
    again = generate(target, factory(), prompt, max_new_tokens=30, budget=12)
    assert again.tokens.tolist() == first.tokens.tolist()
    assert len(again.accepted) < len(first.accepted)  # shared: another sequence has heard it all
    alone = parse("recycling").prepare(Resources([], 0, target=target))()
    assert generate(target, alone, prompt, max_new_tokens=30).accepted == first.accepted


def made(text, **given):
    """Return a drafter without a corpus; what it has learnt is looked at."""
    drafter = parse(text).prepare(Resources([], 0, **given))()
    assert isinstance(drafter, TascSpec)
    assert drafter.learnt is not None
    return drafter, drafter.learnt


def test_what_a_token_was_chosen_by_does_not_count_for_it(target):
    """Else the source would always have been right, and weigh more than it is worth."""
    drafter, learnt = made("tasc-spec", target=target)
    drafter.start(ints(7, 5))
    drafter.observe(ints(7))  # the prompt predicts 5
    before = [learnt.weights.weight(20, longest) for longest in (1, 3)]
    logits = torch.zeros(1, 320)
    logits[0, 7] = 20.0
    drafter.on_logits(Draft(), logits)
    drafter.observe(ints(7))
    assert [learnt.weights.weight(20, longest) for longest in (1, 3)] == before
    assert learnt.logits is not None
    assert learnt.logits.row(ints(7, 5, 7))[0][0] == 7
    drafter.observe(ints(7))  # now the row of the last token was there before
    assert learnt.weights.weight(20, 1) > before[0]


def test_without_a_target_there_is_no_such_source(target):
    assert made("tasc-spec")[1].logits is None
    assert made("tasc-spec:logits=false", target=target)[1].logits is None
    assert made("tasc-spec", target=target)[1].logits is not None
