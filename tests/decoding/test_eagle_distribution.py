"""Sampling with EAGLE's trees has the distribution of a real model, whatever tokens are drafted."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch

from tasc.decoding.core.sampling import Sampling
from tasc.decoding.drafters.heads.draft_vocab.frequent import Frequent
from tasc.decoding.drafters.heads.draft_vocab.full import Full
from tasc.decoding.drafters.heads.draft_vocab.microspec import MicroSpec, WindowOptions
from tasc.decoding.drafters.heads.eagle import EagleOptions
from tasc.decoding.verify import verifier
from tasc.models.draft_head import new_head
from tasc.models.target import Target
from tests.decoding.heads import eagle
from tests.decoding.table import LENGTH, PROMPT, VOCABULARY, chance, sample
from tests.pico import build_model

DRAFT_VOCABULARIES: dict[str, Any] = {
    "full": Full,
    "frequent": lambda lm_head: Frequent(lm_head, torch.tensor([1, 3])),
    "microspec": lambda lm_head: MicroSpec(lm_head, WindowOptions(3, k_pre=0, k_ver=1)),
}


@pytest.fixture(scope="module")
def tiny():
    """A model of few tokens, and the probability of every sequence of LENGTH after PROMPT."""
    model = build_model(vocabulary=VOCABULARY, hidden=16, layers=1, seed=4)
    sequences = torch.tensor([*itertools.product(range(VOCABULARY), repeat=LENGTH)])
    prompts = torch.from_numpy(PROMPT).long().expand(len(sequences), -1)
    with torch.no_grad():
        logits = model(input_ids=torch.cat([prompts, sequences], 1)).logits
    each = logits[:, len(PROMPT) - 1 : -1].log_softmax(-1).gather(2, sequences[..., None])
    return model, each.sum((1, 2)).exp().double().numpy()


def sampled(tiny, vocabulary, name, temperature=1.0):
    """Return the p-value of 500 sequences, and the numbers of different tokens of their drafts."""
    model, expected = tiny
    vocabulary = DRAFT_VOCABULARIES[vocabulary](model.get_output_embeddings())
    drafter = eagle(model, new_head(model), vocabulary, EagleOptions(depth=2, width=3))
    drafts, draft = [], drafter.draft
    drafter.draft = lambda max_nodes: drafts.append(draft(max_nodes)) or drafts[-1]
    verify = verifier(name, Sampling(temperature, seed=1))
    counts = sample(Target(model), drafter, verify, 500)
    return chance(counts, expected), {len(np.unique(d.tokens)) for d in drafts}


# "sampled" draws the same whatever is drafted, which test_lossless shows of these drafters.
@pytest.mark.parametrize("name", [pytest.param("sampled", marks=pytest.mark.slow), "multi-branch"])
@pytest.mark.parametrize("vocabulary", DRAFT_VOCABULARIES)
def test_sampling_has_the_targets_distribution_whatever_the_draft_vocabulary(
    tiny, vocabulary, name
):
    probability, sizes = sampled(tiny, vocabulary, name)
    assert probability > 1e-6
    assert max(sizes) > 0
    assert (max(sizes) < VOCABULARY) == (vocabulary != "full"), "drafts lack some token"


def test_the_test_of_distributions_notices_another_temperature(tiny):
    assert sampled(tiny, "full", "sampled", 0.5)[0] < 1e-6
