import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasc._native import Acceptance
from tests.decoding.scripted import ints
from tests.oracles import SlowAcceptance, most_worthwhile

EXTRA = np.array([0.0, 0.1, 0.1, 0.4, 0.4, 0.5, 0.9, 0.9, 1.5, 1.5, 1.6])


@st.composite
def drafts(draw):
    """A small tree, the probabilities of its paths or None, and what was committed."""
    n = draw(st.integers(1, 9))
    parents = [draw(st.integers(-1, i - 1)) for i in range(n)]
    tokens = draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))
    claims = draw(st.lists(st.sampled_from([0.05, 0.3, 0.5, 0.9, 1.0]), min_size=n, max_size=n))
    path = []
    for i, parent in enumerate(parents):
        path.append(claims[i] * (path[parent] if parent >= 0 else 1.0))
    known = np.array(path, np.float32) if draw(st.booleans()) else None
    committed = draw(st.lists(st.integers(0, 2), min_size=1, max_size=5))
    return ints(*tokens), ints(*parents), known, ints(*committed)


@given(st.lists(drafts(), min_size=1, max_size=6))
@settings(max_examples=200, deadline=None)
def test_native_counts_equal_the_slow_definition(sequence):
    native, slow = Acceptance(), SlowAcceptance()
    for tokens, parents, given_, committed in sequence:
        claims = None if given_ is None else given_.tolist()
        expected = slow.estimate(parents.tolist(), claims)
        found = native.estimate(tokens, parents, given_)
        assert found.tolist() == pytest.approx(expected)
        nodes = native.worthwhile(tokens, parents, given_, EXTRA, 0.5, 0.0, 9.0)
        kept = set(nodes.tolist())
        assert all(parents[i] < 0 or parents[i] in kept for i in kept), "a parent is missing"
        assert nodes.tolist() == sorted(kept)
        gain = 0.5 * found[nodes].sum() - EXTRA[len(nodes)]
        assert gain == pytest.approx(
            most_worthwhile(parents.tolist(), expected, EXTRA.tolist(), 0.5)
        )
        native.learn(tokens, parents, given_, committed)
        slow.learn(tokens.tolist(), parents.tolist(), claims, committed.tolist())


def test_claims_are_corrected_by_what_became_of_them():
    acceptance, draft = Acceptance(), (ints(5, 6), ints(-1, 0), np.array([0.8, 0.4], np.float32))
    assert acceptance.estimate(*draft).tolist() == pytest.approx([0.8, 0.4])
    acceptance.learn(*draft, ints(3))  # the first node failed; of the second nothing was learned
    first = 2 * 0.8 / 3
    assert acceptance.estimate(*draft).tolist() == pytest.approx([first, first * 0.5])
    acceptance.learn(*draft, ints(5))  # right, and the second is deeper than what was committed
    first = 0.8 * (1 + 2 * 0.8) / (0.98 * 0.8 + 0.8 + 2 * 0.8)
    assert acceptance.estimate(*draft).tolist() == pytest.approx([first, first * 0.5])
    acceptance.learn(*draft, ints(5, 6))
    assert acceptance.estimate(*draft)[1] > first * 0.5


def test_prices_bound_what_is_chosen():
    acceptance, draft = Acceptance(), (ints(5, 6), ints(-1, 0), np.array([0.9, 0.8], np.float32))

    def choose(pace=1.0, per_node=0.0, limit=9.0):
        return acceptance.worthwhile(*draft, EXTRA[[0, 2, 3]], pace, per_node, limit).tolist()

    assert choose() == [0, 1]
    assert choose(limit=0.2) == [0]
    assert choose(limit=0.05) == []
    assert choose(pace=0.1) == []
    assert choose(per_node=0.55) == [0]
    with pytest.raises(ValueError, match="end before"):
        acceptance.worthwhile(*draft, EXTRA[:2], 1.0, 0.0, 9.0)


def test_a_malformed_draft_is_refused():
    acceptance = Acceptance()
    with pytest.raises(ValueError, match="as many"):
        acceptance.estimate(ints(1, 2), ints(-1), None)
    with pytest.raises(ValueError, match="as many"):
        acceptance.learn(ints(1), ints(-1), np.zeros(2, np.float32), ints(1))
    with pytest.raises(ValueError, match="earlier node"):
        acceptance.estimate(ints(1, 2), ints(-1, 1), None)
    with pytest.raises(TypeError):
        acceptance.estimate(ints(1), ints(-1), np.zeros(1))  # type: ignore[arg-type]
