"""Drafters with a vocabulary of their own in the loop: distributions of sequences, and caches.

Sequences are compared with exact enumeration as in test_sampling.
"""

from typing import Any

import numpy as np
import pytest
import torch

from tasc.decoding.core.sampling import Sampling
from tasc.decoding.drafters.hetero.neural import NeuralDraftModel
from tasc.decoding.drafters.hetero.options import HeteroOptions, SlrsOptions
from tasc.decoding.drafters.hetero.slem import Slem
from tasc.decoding.drafters.hetero.slrs import Slrs
from tasc.decoding.drafters.hetero.token_level import TokenLevel
from tasc.decoding.verify import reference, rejection, verifier
from tasc.models.target import Target
from tests.decoding.table import FALSE_ALARM, SETTINGS, TableTarget, p_value, sample
from tests.decoding.toy import toy_pair
from tests.pico import build_model
from tests.tiers import spread

TARGET, DRAFT = [b"a", b"b", b"ab"], [b"a", b"b", b"ba", b"aab"]  # and an end token each
SAME = HeteroOptions(confidence=0.2)
MAKE = {
    "slem": lambda pair: Slem(pair, SAME),
    "tli": lambda pair: TokenLevel(pair, SAME, pair.to_target, normalise=True),
    "union": lambda pair: TokenLevel(pair, SAME, pair.to_target, normalise=False),
    "standard": lambda pair: TokenLevel(pair, SAME, pair.same_ids, normalise=False),
    "standard, pruned": lambda pair: TokenLevel(pair, SAME, pair.same_ids, normalise=False),
    "tli, pruned": lambda pair: TokenLevel(pair, SAME, pair.to_target, normalise=True),
    "slem, pruned": lambda pair: Slem(pair, SAME),
    "slrs": lambda pair: Slrs(pair, SlrsOptions(confidence=0.2, floor=0.0)),
    "slrs with a floor": lambda pair: Slrs(pair, SlrsOptions(confidence=0.0, floor=0.1)),
    "slrs then tli": lambda pair: Slrs(pair, SlrsOptions(confidence=0.0, nodes=2)),
}


def drafter(name, sampling):
    same, lost = name.startswith("standard"), 1 if "pruned" in name else None
    pair = toy_pair(TARGET, TARGET if same else DRAFT, 3, sampling, 1.5, lost)
    return MAKE[name](pair)


RULES = ("sampled", "rejection")
PAIRS = [(name, rule) for name in MAKE for rule in RULES]


# Of the four, the quick tier runs each rule under one setting, and each setting with one rule.
@spread("name, rule, setting", MAKE, RULES, SETTINGS, every=2)
def test_sequences_have_the_distribution_of_the_target(name, rule, setting):
    sampling = SETTINGS[setting]
    assert p_value(drafter(name, sampling), rule, sampling, 1000) > FALSE_ALARM


def test_a_draw_outside_of_the_target_that_leaves_no_residual_is_detected(monkeypatch):
    monkeypatch.setattr(reference, "_residual", lambda p, q: p)
    sampling = SETTINGS["cut"]
    assert p_value(drafter("union", sampling), "rejection", sampling) < FALSE_ALARM


@pytest.mark.parametrize("architecture", ["llama", "gpt2"])
def test_rows_of_nodes_are_those_of_a_model_without_a_cache(architecture):
    model = build_model(architecture)
    draft_model = NeuralDraftModel(Target(model))
    rng = np.random.default_rng(0)
    text = rng.integers(1, 320, 9).tolist()

    def expected(tokens):
        with torch.inference_mode():
            return model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0, -1]

    for _ in range(12):
        root = draft_model.follow(text)
        assert torch.allclose(draft_model.row(root), expected(text), atol=2e-3)
        nodes = {root: text}
        for _ in range(3):  # level by level, also below nodes that are not the last
            parents = rng.choice(list(nodes), 3).tolist()
            tokens = rng.integers(1, 320, 3).tolist()
            grown = draft_model.extend(parents, tokens)
            for parent, token, node in zip(parents, tokens, grown, strict=True):
                nodes[node] = [*nodes[parent], token]
                assert draft_model.known(parent, token) == node
        for node, tokens in nodes.items():
            assert torch.allclose(draft_model.row(node), expected(tokens), atol=2e-3)
        # The text goes on along a path of the tree, and turns off it, or loses its end.
        text = list(nodes.values())[int(rng.integers(len(nodes)))]
        text = text[: len(text) - int(rng.integers(0, 3))]
        text += rng.integers(1, 320, int(rng.integers(0, 3))).tolist()


def test_a_text_that_outgrows_the_draft_model_is_followed_by_its_end():
    model = build_model("llama")
    model.config.max_position_embeddings = 64
    draft_model = NeuralDraftModel(Target(model))
    text = np.random.default_rng(0).integers(1, 320, 400).tolist()
    for length in range(40, 400, 7):
        root = draft_model.follow(text[:length])
        assert len(draft_model.committed) <= 48
        assert draft_model.committed == text[:length][-len(draft_model.committed) :]
        draft_model.extend([root], [5])


def test_what_is_drafted_and_comes_true_is_not_evaluated_again():
    draft_model = NeuralDraftModel(Target(build_model("llama")))
    root = draft_model.follow([1, 2, 3])
    (first,) = draft_model.extend([root], [4])
    (second,) = draft_model.extend([first], [5])
    row = draft_model.row(second)
    read = []
    draft_model._read = lambda ids, cached: read.append(cached)
    assert draft_model.row(draft_model.follow([1, 2, 3, 4, 5])) is row
    assert not read


def forwards(monkeypatch, look_at_all: bool) -> int:
    """Return the draft forwards of 100 sequences of SLRS."""
    if look_at_all:
        monkeypatch.setattr(rejection, "below", lambda bounds, limit: list(bounds)[-1][0] < limit)
    sampling = Sampling(0.8, seed=4)
    pair = toy_pair([b"a", b"b", b"abab"], [b"a", b"b", b"ab", b"ba"], 3, sampling, 1.5)
    draft_models: list[Any] = []
    make = pair.draft_model
    pair.draft_model = lambda: draft_models.append(make()) or draft_models[-1]
    slrs = Slrs(pair, SlrsOptions(confidence=0.0, floor=0.0))
    sample(TableTarget(), slrs, verifier("rejection", sampling), 100)
    return sum(s.forwards for s in draft_models)


def test_most_decisions_need_no_segmentation_but_the_one_that_was_drawn(monkeypatch):
    assert forwards(monkeypatch, look_at_all=False) < forwards(monkeypatch, look_at_all=True)
