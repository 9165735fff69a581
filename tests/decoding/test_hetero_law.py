"""The theorems of heterogeneous vocabularies on toy ones, by exact enumeration.

Timor et al.: theorem 3.2 (ψ, and that SLRS is lossless), 3.1 and table 2 (α of SLRS and SLEM),
4.1 (TLI and union).
"""

from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tasc.decoding.core.draft import AskedLaws
from tasc.decoding.core.sampling import Sampling
from tasc.decoding.drafters.hetero import ngram as ngram_module
from tasc.decoding.drafters.hetero import spelling as spelling_module
from tasc.decoding.drafters.hetero.ngram import NgramModel, NgramSpeaker
from tasc.decoding.drafters.hetero.options import HeteroOptions, SlrsOptions
from tasc.decoding.drafters.hetero.pair import Partner
from tasc.decoding.drafters.hetero.slrs import Slrs
from tasc.decoding.drafters.hetero.spelling import Rule, Spelling
from tasc.decoding.drafters.hetero.token_level import tli, union
from tasc.decoding.verify import asked, walks
from tasc.vocab import strings as strings_module
from tasc.vocab.strings import CONTINUE
from tests.decoding.toy import psi, toy_pair

strings = st.text("ab", min_size=1, max_size=3).map(str.encode)
vocabularies = st.lists(strings, min_size=1, max_size=6, unique=True)
SAMPLING = Sampling(1.0)
EXACT = 1e-6  # laws are float32


@st.composite
def pairs(draw):
    seed = draw(st.integers(0, 10**6))
    pair = toy_pair(draw(vocabularies), draw(vocabularies), seed, SAMPLING, draw(st.floats(0, 3)))
    size = pair.sizes[0]
    p = np.random.default_rng(seed + 1).dirichlet([draw(st.sampled_from([0.2, 1.0]))] * size)
    return pair, p


def partner_of(pair) -> tuple[Partner, int]:
    partner = Partner(pair)
    return partner, partner.root()


rules = st.sampled_from([Rule(), Rule(lookahead=1), Rule(lookahead=2), Rule(floor=0.05)])


@given(pairs(), rules)
@settings(max_examples=150, deadline=None)
def test_psi_is_the_sum_over_all_that_settles_a_token(case, rule):
    pair, _ = case
    partner, node = partner_of(pair)
    expected = psi(partner, node, lookahead=rule.lookahead, floor=rule.floor)
    assert expected.sum() == pytest.approx(1)
    fresh, start = partner_of(pair)
    for token in range(pair.sizes[0]):
        low, high = 0.0, 1.0 + EXACT
        for closer in Spelling(fresh, rule, start, token).bounds():
            assert low - EXACT <= closer[0] <= expected[token] + EXACT
            assert expected[token] - EXACT <= closer[1] <= high + EXACT
            low, high = closer
        assert low == high == pytest.approx(expected[token], abs=EXACT)


@given(st.integers(0, 10**6), st.integers(1, 3), st.sampled_from([0.0, 0.02, 0.1]))
@settings(max_examples=60, deadline=None)
def test_psi_counts_what_is_drawn_where_spellings_meet(seed, n, floor):
    pair = toy_pair([b"a", b"b", b"ababab"], [b"a", b"b", b"ab", b"ba"], seed, SAMPLING)
    texts = [np.random.default_rng([seed, i]).integers(0, 4, 12) for i in range(3)]
    model = NgramModel(texts, pair.sizes[1], n, pair.sizes[1] - 1)
    pair.speaker = lambda: NgramSpeaker(model)
    partner, node = partner_of(pair)
    expected = psi(partner, node, floor=floor)
    for token in range(pair.sizes[0]):
        *_, (low, high) = Spelling(partner, Rule(floor=floor), node, token).bounds()
        assert low == high == pytest.approx(expected[token], abs=EXACT)


def test_what_is_kept_from_step_to_step_stays_within_a_bound(monkeypatch):
    for module in (strings_module, ngram_module, spelling_module):
        monkeypatch.setattr(module, "KEPT", 40)
    pair = toy_pair([b"a", b"b", b"ababab"], [b"a", b"b", b"ab", b"ba"], 0, SAMPLING)
    model = NgramModel([np.arange(4)] * 3, pair.sizes[1], 4, pair.sizes[1] - 1)
    pair.speaker = lambda: NgramSpeaker(model)
    partner, node = partner_of(pair)
    expected = psi(partner, node)
    for token in range(pair.sizes[0]):
        *_, (low, _) = Spelling(partner, Rule(), node, token).bounds()
        assert low == pytest.approx(expected[token], abs=EXACT)
    assert 0 < sum(len(row) for row in model.rows.values()) <= 40
    assert 0 < sum(len(row) for row in pair.outcomes.known.values()) <= 40
    assert 0 < sum(len(settles) for settles, _ in pair.relevant.values()) <= 40


def threshold(accepts) -> float:
    """Return the largest uniform number that ``accepts``, which is true up to a point."""
    low, high = 0.0, 1.0
    if not accepts(low):
        return 0.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if accepts(middle) else (low, middle)
    return low


def written_out(draft, p) -> tuple[float, np.ndarray]:
    """Return the probability of accepting a draft of one node, and the law after a rejection."""
    law = lambda _node, _path: torch.from_numpy(p)  # noqa: E731
    first = lambda u: walks.rejection_walk(draft, law, np.array([*[u] * len(draft), 0.5]))  # noqa: E731
    accepted = threshold(lambda u: len(first(u)[0])) if len(draft) else 0.0
    seen = []
    with mock.patch.object(walks, "pick", lambda law, _u: seen.append(law.numpy()) or 0):
        first(np.nextafter(1, 0))
    return accepted, seen[-1] / seen[-1].sum()


class Script:
    """Random numbers as written down."""

    def __init__(self, *numbers: float) -> None:
        self.numbers = list(numbers)

    def random(self) -> float:
        return self.numbers.pop(0)


def asked_for(draft, p) -> tuple[float, np.ndarray]:
    """Return the same where laws are asked for."""
    assert isinstance(draft.q, AskedLaws)
    law = lambda _node, _path: torch.from_numpy(p)  # noqa: E731
    accepted = 0.0
    if len(draft):
        token = int(draft.tokens[0])
        accepted = threshold(
            lambda u: asked.below(draft.q.laws[0](token), asked._over(float(p[token]), u))
        )
    keep = [
        threshold(lambda v, t=t: asked.below(draft.q.laws[0](t), (1 - v) * float(p[t])))
        for t in range(len(p))
    ]
    residual = p * keep
    # The walk itself: a proposal that is certain to be taken is what comes back, also after one
    # that is certain to be turned down.
    propose = lambda t: [p[:t].sum() + p[t] / 2, 0.0]  # noqa: E731
    vain = [t for t in range(len(p)) if p[t] > 1e-6 and keep[t] == 0][: accepted < 1 - 1e-6]
    begin = [1 - 1e-16] * len(draft) + [number for t in vain for number in propose(t)]
    for token in np.flatnonzero(residual > 1e-6).tolist():
        script: Any = Script(*begin, *propose(token))
        path, bonus = asked.asked_walk(draft, draft.q, law, script)
        assert bonus == token or len(path)
    rest = residual.sum()
    return accepted, residual / rest if rest > 1e-12 else p


def outcome(drafter, p, drawn, measure) -> tuple[np.ndarray, float]:
    """Return the exact law of the first token and the probability of acceptance.

    ``drawn`` lists what may be drawn first, as (sequence of draft tokens, probability).
    """
    total, alpha = np.zeros(len(p)), 0.0
    for tokens, probability in drawn:
        numbers = iter(tokens)
        with mock.patch.object(Partner, "draw", lambda _self, _law, n=numbers: next(n)):
            drafter.start(np.empty(0, np.int32))
            draft = drafter.draft(1)
        accepted, residual = measure(draft, p)
        if len(draft):
            total[draft.tokens[0]] += probability * accepted
        total += probability * (1 - accepted) * residual
        alpha += probability * accepted
    return total, alpha


def single(drafter):
    """List the first draft tokens and their probabilities."""
    drafter.start(np.empty(0, np.int32))
    law = drafter.law(drafter.partner.root())
    return [] if law is None else [([d], float(q)) for d, q in enumerate(law) if q > 0]


@given(pairs())
@settings(max_examples=150, deadline=None)
def test_tli_and_union_preserve_the_target_and_tli_accepts_more(case):
    pair, p = case
    alphas = []
    for make in (union, tli):
        drafter = make(pair, HeteroOptions())
        law, alpha = outcome(drafter, p, single(drafter), written_out)
        assert law == pytest.approx(p, abs=1e-5)
        alphas.append(alpha)
    assert alphas[0] <= alphas[1] + 1e-6
    inside = pair.to_target >= 0
    q = np.zeros(len(p))
    partner, node = partner_of(pair)
    np.add.at(q, pair.to_target[inside], partner.probabilities(node)[inside])
    assert alphas[0] == pytest.approx(np.minimum(p, q).sum(), abs=1e-5)  # table 2
    assert alphas[1] == pytest.approx(np.minimum(p, q / q.sum()).sum(), abs=1e-5)


def spellings(partner, node, options, string=b"", mass=1.0, depth=1):
    """List every sequence of draft tokens that settles the first target token."""
    pair, law = partner.pair, partner.probabilities(node)
    for draft in np.flatnonzero(law > 0).tolist():
        share = mass * float(law[draft])
        settled = pair.outcomes.after(string)[draft] != CONTINUE or depth == options.lookahead
        if settled or share < options.floor:
            yield [draft], share
        else:
            child = partner.speaker.extend([node], [draft])[0]
            grown = string + pair.spoken[draft]
            for rest, probability in spellings(partner, child, options, grown, share, depth + 1):
                yield [draft, *rest], probability


@given(pairs(), st.sampled_from([{}, {"floor": 0.0}, {"floor": 0.05}, {"lookahead": 1}]))
@settings(max_examples=120, deadline=None)
def test_slrs_preserves_the_target_and_accepts_more_than_slem(case, given_options):
    pair, p = case
    options = SlrsOptions(**{"floor": 0.0} | given_options)
    drafter = Slrs(pair, options)
    partner, node = partner_of(pair)
    drawn = list(spellings(partner, node, options))
    assert sum(q for _, q in drawn) == pytest.approx(1)
    law, alpha = outcome(drafter, p, drawn, asked_for)
    assert law == pytest.approx(p, abs=1e-5)
    likely = psi(partner, node, lookahead=options.lookahead, floor=options.floor)[:-1]
    assert alpha == pytest.approx(np.minimum(p, likely).sum(), abs=1e-5)  # table 2
    assert alpha >= (p * likely).sum() - 1e-9  # SLEM's


def test_a_psi_that_misses_spellings_is_noticed(monkeypatch):
    """The enumeration has the power to see what it is there for."""
    pair = toy_pair([b"ab", b"a", b"b"], [b"a", b"b", b"ab"], 0, SAMPLING)
    partner, node = partner_of(pair)
    drawn = list(spellings(partner, node, SlrsOptions(floor=0.0)))
    p = np.array([0.7, 0.1, 0.1, 0.1])
    drafter = Slrs(pair, SlrsOptions(floor=0.0))
    assert outcome(drafter, p, drawn, asked_for)[0] == pytest.approx(p, abs=1e-6)
    monkeypatch.setattr(Spelling, "bounds", lambda self: iter([(1e-3, 1e-3)]))
    assert outcome(drafter, p, drawn, asked_for)[0] != pytest.approx(p, abs=1e-3)
