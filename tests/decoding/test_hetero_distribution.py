"""The theorems of heterogeneous vocabularies on toy ones, by exact enumeration.

Timor et al.: theorem 3.2 (ψ, and that SLRS is lossless), 3.1 and table 2 (α of SLRS and SLEM),
4.1 (TLI and union).
"""

from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tasc.decoding.core.draft import LazyProposal
from tasc.decoding.core.sampling import Sampling
from tasc.decoding.drafters.hetero import ngram as ngram_module
from tasc.decoding.drafters.hetero import segmentation as segmentation_module
from tasc.decoding.drafters.hetero.ngram import NgramDraftModel, NgramModel
from tasc.decoding.drafters.hetero.options import HeteroOptions, SlrsOptions
from tasc.decoding.drafters.hetero.pair import DraftSession
from tasc.decoding.drafters.hetero.segmentation import Segmentation
from tasc.decoding.drafters.hetero.slrs import Slrs
from tasc.decoding.drafters.hetero.token_level import TokenLevel
from tasc.decoding.verify import reference
from tasc.decoding.verify.rejection import _over, below, verify_lazy
from tasc.vocab import strings as strings_module
from tests.decoding.toy import draws, psi, toy_pair

strings = st.text("ab", min_size=1, max_size=3).map(str.encode)
vocabularies = st.lists(strings, min_size=1, max_size=6, unique=True)
SAMPLING = Sampling(1.0)
EXACT = 1e-6  # distributions are float32


@st.composite
def pairs(draw):
    seed = draw(st.integers(0, 10**6))
    pair = toy_pair(draw(vocabularies), draw(vocabularies), seed, SAMPLING, draw(st.floats(0, 3)))
    size = pair.sizes[0]
    p = np.random.default_rng(seed + 1).dirichlet([draw(st.sampled_from([0.2, 1.0]))] * size)
    return pair, p


def session_of(pair) -> tuple[DraftSession, int]:
    session = DraftSession(pair)
    return session, session.root()


def meeting(texts, seed=0, n=4):
    """Return a pair whose segmentations meet, drafted from n-grams of ``texts``, and the model."""
    pair = toy_pair([b"a", b"b", b"ababab"], [b"a", b"b", b"ab", b"ba"], seed, SAMPLING)
    model = NgramModel(texts, pair.sizes[1], n, pair.sizes[1] - 1)
    pair.draft_model = lambda: NgramDraftModel(model)
    return pair, model


RULES = [SlrsOptions(lookahead=n, floor=p) for n, p in ((0, 0.0), (1, 0.0), (2, 0.0), (0, 0.05))]


@given(pairs(), st.sampled_from(RULES))
@settings(max_examples=150, deadline=None)
def test_psi_is_the_sum_over_all_that_settles_a_token(case, rule):
    pair, _ = case
    session, node = session_of(pair)
    expected = psi(session, node, lookahead=rule.lookahead, floor=rule.floor)
    assert expected.sum() == pytest.approx(1)
    fresh, start = session_of(pair)
    for token in range(pair.sizes[0]):
        low, high = 0.0, 1.0 + EXACT
        for closer in Segmentation(fresh, rule, start, token).bounds():
            assert low - EXACT <= closer[0] <= expected[token] + EXACT
            assert expected[token] - EXACT <= closer[1] <= high + EXACT
            low, high = closer
        assert low == high == pytest.approx(expected[token], abs=EXACT)


@given(st.integers(0, 10**6), st.integers(1, 3), st.sampled_from([0.0, 0.02, 0.1]))
@settings(max_examples=60, deadline=None)
def test_psi_counts_what_is_drawn_where_segmentations_meet(seed, n, floor):
    texts = [np.random.default_rng([seed, i]).integers(0, 4, 12) for i in range(3)]
    pair, _ = meeting(texts, seed, n)
    session, node = session_of(pair)
    expected = psi(session, node, floor=floor)
    for token in range(pair.sizes[0]):
        *_, (low, high) = Segmentation(session, SlrsOptions(floor=floor), node, token).bounds()
        assert low == high == pytest.approx(expected[token], abs=EXACT)


def test_what_is_kept_from_step_to_step_stays_within_a_bound(monkeypatch):
    for module in (strings_module, ngram_module, segmentation_module):
        monkeypatch.setattr(module, "KEPT", 40)
    pair, model = meeting([np.arange(4)] * 3)
    session, node = session_of(pair)
    expected = psi(session, node)
    for token in range(pair.sizes[0]):
        *_, (low, _) = Segmentation(session, SlrsOptions(floor=0.0), node, token).bounds()
        assert low == pytest.approx(expected[token], abs=EXACT)
    assert 0 < sum(len(row) for row in model.rows.values()) <= 40
    assert 0 < sum(len(row) for row in pair.resolver.known.values()) <= 40
    assert 0 < sum(len(resolves) for resolves, _ in pair.relevant.values()) <= 40


def threshold(accepts) -> float:
    """Return the largest uniform number that ``accepts``, which is true up to a point."""
    low, high = 0.0, 1.0
    if not accepts(low):
        return 0.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if accepts(middle) else (low, middle)
    return low


def exact(draft, p) -> tuple[float, np.ndarray]:
    """Return how probably a draft of one node is accepted, and the distribution if it is not."""
    distribution = lambda _node, _path: torch.from_numpy(p)  # noqa: E731

    def first(u):
        uniforms = np.array([*[u] * len(draft), 0.5])
        return reference.rejection_reference(draft, distribution, uniforms)

    accepted = threshold(lambda u: len(first(u)[0])) if len(draft) else 0.0
    seen = []
    with mock.patch.object(
        reference, "pick", lambda distribution, _u: seen.append(distribution.numpy()) or 0
    ):
        first(np.nextafter(1, 0))
    return accepted, seen[-1] / seen[-1].sum()


def asked_for(draft, p) -> tuple[float, np.ndarray]:
    assert isinstance(draft.q, LazyProposal)
    distribution = lambda _node, _path: torch.from_numpy(p)  # noqa: E731
    accepted = 0.0
    if len(draft):
        token = int(draft.tokens[0])
        accepted = threshold(
            lambda u: below(draft.q.distributions[0](token), _over(float(p[token]), u))
        )
    keep = [
        threshold(lambda v, t=t: below(draft.q.distributions[0](t), (1 - v) * float(p[t])))
        for t in range(len(p))
    ]
    residual = p * keep
    # The walk itself: a proposal that is certain to be taken is what comes back, also after one
    # that is certain to be turned down.
    propose = lambda t: [p[:t].sum() + p[t] / 2, 0.0]  # noqa: E731
    vain = [t for t in range(len(p)) if p[t] > 1e-6 and keep[t] == 0][: accepted < 1 - 1e-6]
    begin = [1 - 1e-16] * len(draft) + [number for t in vain for number in propose(t)]
    for token in np.flatnonzero(residual > 1e-6).tolist():
        script: Any = SimpleNamespace(random=iter([*begin, *propose(token)]).__next__)
        path, bonus = verify_lazy(draft, draft.q, distribution, script)
        assert bonus == token or len(path)
    rest = residual.sum()
    return accepted, residual / rest if rest > 1e-12 else p


def outcome(drafter, p, drawn, measure) -> tuple[np.ndarray, float]:
    """Return the exact distribution of the first token and the probability of acceptance.

    ``drawn`` lists what may be drawn first, as (sequence of draft tokens, probability).
    """
    total, alpha = np.zeros(len(p)), 0.0
    for tokens, probability in drawn:
        numbers = iter(tokens)
        with mock.patch.object(
            DraftSession, "draw", lambda _self, _distribution, n=numbers: next(n)
        ):
            drafter.start(np.empty(0, np.int32))
            draft = drafter.draft(1)
        accepted, residual = measure(draft, p)
        if len(draft):
            total[draft.tokens[0]] += probability * accepted
        total += probability * (1 - accepted) * residual
        alpha += probability * accepted
    return total, alpha


def single(drafter):
    drafter.start(np.empty(0, np.int32))
    distribution = drafter.distribution(drafter.session.root())
    likely = () if distribution is None else enumerate(distribution)
    return [([token], float(q)) for token, q in likely if q > 0]


@given(pairs())
@settings(max_examples=150, deadline=None)
def test_tli_and_union_preserve_the_target_and_tli_accepts_more(case):
    pair, p = case
    alphas = []
    for normalise in (False, True):
        drafter = TokenLevel(pair, HeteroOptions(), pair.to_target, normalise)
        distribution, alpha = outcome(drafter, p, single(drafter), exact)
        assert distribution == pytest.approx(p, abs=1e-5)
        alphas.append(alpha)
    assert alphas[0] <= alphas[1] + 1e-6
    inside = pair.to_target >= 0
    q = np.zeros(len(p))
    session, node = session_of(pair)
    np.add.at(q, pair.to_target[inside], session.distribution(node).numpy()[inside])
    assert alphas[0] == pytest.approx(np.minimum(p, q).sum(), abs=1e-5)  # table 2
    assert alphas[1] == pytest.approx(np.minimum(p, q / q.sum()).sum(), abs=1e-5)


@given(pairs(), st.sampled_from([{}, {"floor": 0.0}, {"floor": 0.05}, {"lookahead": 1}]))
@settings(max_examples=120, deadline=None)
def test_slrs_preserves_the_target_and_accepts_more_than_slem(case, given_options):
    pair, p = case
    options = SlrsOptions(**{"floor": 0.0} | given_options)
    drafter = Slrs(pair, options)
    session, node = session_of(pair)
    rule: dict[str, Any] = {"lookahead": options.lookahead, "floor": options.floor}
    drawn = [(path, share) for path, _, share in draws(session, node, **rule)]
    assert sum(q for _, q in drawn) == pytest.approx(1)
    distribution, alpha = outcome(drafter, p, drawn, asked_for)
    assert distribution == pytest.approx(p, abs=1e-5)
    likely = psi(session, node, **rule)[:-1]
    assert alpha == pytest.approx(np.minimum(p, likely).sum(), abs=1e-5)  # table 2
    assert alpha >= (p * likely).sum() - 1e-9  # SLEM's


def test_a_psi_that_misses_segmentations_is_noticed(monkeypatch):
    pair = toy_pair([b"ab", b"a", b"b"], [b"a", b"b", b"ab"], 0, SAMPLING)
    session, node = session_of(pair)
    drawn = [(path, share) for path, _, share in draws(session, node)]
    p = np.array([0.7, 0.1, 0.1, 0.1])
    drafter = Slrs(pair, SlrsOptions(floor=0.0))
    assert outcome(drafter, p, drawn, asked_for)[0] == pytest.approx(p, abs=1e-6)
    monkeypatch.setattr(Segmentation, "bounds", lambda self: iter([(1e-3, 1e-3)]))
    assert outcome(drafter, p, drawn, asked_for)[0] != pytest.approx(p, abs=1e-3)
