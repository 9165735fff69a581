"""Sampling with EAGLE's trees has the distribution of a real model, over all or some tokens."""

import itertools

import numpy as np
import pytest
import torch

from tasc.decoding.core.sampling import Sampling
from tasc.decoding.decode import generate
from tasc.decoding.drafters.heads.draft_vocab.frequent import Frequent
from tasc.decoding.drafters.heads.eagle import EagleOptions
from tasc.decoding.verify import verifier
from tasc.models.draft_head import new_head
from tasc.models.target import Target
from tests.decoding.heads import eagle
from tests.decoding.table import chance
from tests.pico import build_model

VOCABULARY, LENGTH, SEQUENCES = 5, 2, 500


@pytest.fixture(scope="module")
def tiny():
    """A model of five tokens, and the probability of every sequence of two after a prompt."""
    model = build_model(vocabulary=VOCABULARY, hidden=16, layers=1, seed=4)
    prompt = np.array([1, 2], np.int32)
    expected = []
    for sequence in itertools.product(range(VOCABULARY), repeat=LENGTH):
        ids = torch.tensor([*prompt.tolist(), *sequence])[None]
        with torch.no_grad():
            distributions = model(input_ids=ids).logits[0].log_softmax(-1)
        each = [distributions[len(prompt) - 1 + i, token] for i, token in enumerate(sequence)]
        expected.append(float(torch.stack(each).sum().exp()))
    return model, prompt, np.array(expected)


class AtLength:
    """Cuts outputs, so that drafts need not become shorter towards the end."""

    def cut(self, tokens, new):
        return LENGTH if len(tokens) >= LENGTH else None


def sampled(tiny, vocabulary, verify):
    model, prompt, _ = tiny
    drafter = eagle(model, new_head(model), vocabulary, EagleOptions(depth=2, width=3))
    target, counts = Target(model), dict.fromkeys(itertools.product(range(5), repeat=LENGTH), 0)
    for _ in range(SEQUENCES):
        done = generate(
            target, drafter, prompt, max_new_tokens=20, budget=8, verify=verify, stop=AtLength()
        )
        counts[tuple(done.tokens.tolist())] += 1
    return np.array(list(counts.values()))


@pytest.mark.parametrize(
    ("name", "pruned"), [("sampled", False), ("sampled", True), ("multi-branch", True)]
)
def test_sampling_has_the_targets_distribution_whatever_the_draft_vocabulary(tiny, name, pruned):
    lm_head = tiny[0].get_output_embeddings()
    vocabulary = Frequent(lm_head, torch.tensor([1, 3])) if pruned else None
    counts = sampled(tiny, vocabulary, verifier(name, Sampling(1.0, seed=1)))
    assert chance(counts, tiny[2]) > 1e-6


def test_the_test_of_distributions_notices_another_temperature(tiny):
    counts = sampled(tiny, None, verifier("sampled", Sampling(0.5, seed=1)))
    assert chance(counts, tiny[2]) < 1e-6
