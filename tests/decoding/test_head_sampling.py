"""Sampling with trees of a draft head is lossless while their vocabulary leaves tokens out."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from tasc.decoding.core.sampling import Sampling
from tasc.decoding.drafters.heads.draft_vocab.microspec import MicroSpec, WindowOptions
from tasc.decoding.drafters.heads.eagle import Eagle, EagleOptions
from tasc.decoding.verify import verifier
from tasc.models.draft_head import new_head
from tasc.models.trees import Tree
from tests.decoding.table import VOCABULARY, TableTarget, chance, exact_distribution, sample
from tests.pico import build_model

SEQUENCES = 500
FALSE_ALARM = 1e-6


class SeenTarget(TableTarget):
    """A table that also shows hidden states, one for each token that was read."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.of = torch.randn(VOCABULARY, width, generator=torch.Generator().manual_seed(3))

    def join(self, prompts: Sequence[np.ndarray], *, hidden: bool) -> torch.Tensor:
        assert hidden, "nobody reads the states"
        self.states = self.of[torch.from_numpy(prompts[0]).long()][None]
        return super().join(prompts, hidden=hidden)

    def score(self, last: Sequence[int], trees: Sequence[Tree]) -> torch.Tensor:
        self.states = self.of[[last[0], *trees[0][0].tolist()]][None]
        return super().score(last, trees)


def eagle(model):
    window = WindowOptions(3, k_pre=0, k_ver=1)
    return Eagle(
        new_head(model, 0),
        model.get_input_embeddings(),
        lambda: MicroSpec(model.get_output_embeddings(), window),
        EagleOptions(depth=2, width=2),
    )


@pytest.mark.parametrize("name", ["sampled", "multi-branch"])
def test_sequences_have_the_distribution_of_the_target(name):
    model = build_model("qwen2", vocabulary=VOCABULARY)
    width = model.get_input_embeddings().weight.shape[1]
    target, sampling = SeenTarget(width), Sampling(0.8, seed=4)
    drafter = eagle(model)
    drafts, draft = [], drafter.draft
    drafter.draft = lambda budget: drafts.append(draft(budget)) or drafts[-1]
    counts = sample(target, drafter, verifier(name, sampling), SEQUENCES)
    assert chance(counts, exact_distribution(target, sampling.distribution)) > FALSE_ALARM
    sizes = {len(set(d.tokens.tolist())) for d in drafts}
    assert 0 < max(sizes) < VOCABULARY, "drafts must be there, and lack some token"
