"""The width of a batch's drafts: what was accepted lately, for the time of a step."""

import numpy as np
import pytest

from tasc.decoding.batch_width import EVERY, FIRST, MOST_NODES, BatchWidth
from tasc.decoding.core.draft import Draft, chain
from tests.decoding.scripted import ints

SECONDS = 0.010 + 0.001 * np.arange(MOST_NODES + 1)  # of steps of n nodes per sequence


def after(*drafts, seconds=SECONDS, steps=1):
    batch = BatchWidth()
    for draft, max_nodes, tokens in drafts:
        batch.record(draft, max_nodes, ints(*tokens))
    for _ in range(steps):
        batch.begin(seconds)
    return batch


def test_an_unknown_width_is_the_first_one():
    assert after().width == FIRST
    assert BatchWidth().price.tolist() == [0.0] * (FIRST + 1) + [1e9] * (MOST_NODES - FIRST)


@pytest.mark.parametrize(
    ("tokens", "width"),
    [((4, 5, 6, 7, 8), 4), ((4, 5, 9), 2), ((4, 9), 1), ((9,), 0)],
)
def test_the_width_commits_the_most_tokens_per_second(tokens, width):
    """Of a chain of four: (1 + accepted) / seconds is largest there."""
    steep = 0.010 + 0.006 * np.arange(MOST_NODES + 1)
    batch = after(*[(chain(ints(4, 5, 6, 7)), 8, tokens)] * 3, seconds=steep)
    rates = [(1 + min(n, len(tokens) - 1)) / steep[n] for n in range(9)]
    assert batch.width == int(np.argmax(rates)) == width


def test_a_branch_counts_from_the_node_that_was_accepted():
    tree = Draft(ints(4, 7, 5), ints(-1, -1, 0))  # the third node is the second token's
    batch = after(*[(tree, 8, (4, 5, 9))] * 3)
    once = batch.accepted[1]
    assert batch.accepted[:5].tolist() == pytest.approx([0, once, once, 2 * once, 2 * once])
    assert batch.width == 3


def test_a_wider_draft_is_tried_every_16_steps():
    learnt = [(chain(ints(4, 5)), 2, (4, 5, 6))] * 3
    widths = [after(*learnt, steps=n).width for n in range(1, EVERY + 1)]
    assert widths == [2] * (EVERY - 1) + [4]


def test_what_changes_is_noticed():
    learnt = [(chain(ints(4, 5, 6, 7)), 4, (4, 5, 6, 7, 8))] * 50
    assert after(*learnt).width == 4
    assert after(*learnt, *[(chain(ints(4, 5, 6, 7)), 4, (9,))] * 400).width == 0
