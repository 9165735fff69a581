"""Sampling with trees of a draft head is lossless while their vocabulary leaves tokens out."""

import numpy as np
import pytest
import torch

from tasc.models.draft_head import new_head
from tasc.models.medusa import new_medusa
from tasc.spec.drafters.heads.eagle import Eagle, EagleOptions
from tasc.spec.drafters.heads.medusa import Medusa
from tasc.spec.drafters.heads.vocabulary import Frequent
from tasc.spec.microspec.vocabulary import MicroSpec, WindowOptions
from tasc.spec.sampling import Sampling
from tasc.spec.verify import verifier
from tests.pico import build_model
from tests.spec.table import VOCABULARY, TableTarget, chance, exact_law, sample

SEQUENCES = 500
FALSE_ALARM = 1e-6


class SeenTarget(TableTarget):
    """A table that also shows hidden states, one for each token that was read."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.states = torch.randn(VOCABULARY, width, generator=torch.Generator().manual_seed(3))

    def prefill(self, prompt: np.ndarray, room: int, *, hidden: bool = False) -> torch.Tensor:
        self.hidden = self.states[torch.from_numpy(prompt).long()]
        return super().prefill(prompt, room)

    def score(self, last: int, tokens: np.ndarray, parents: np.ndarray) -> torch.Tensor:
        self.hidden = self.states[[last, *tokens.tolist()]]
        return super().score(last, tokens, parents)


def eagle(model):
    window = WindowOptions(3, k_pre=0, k_ver=1)
    return Eagle(
        new_head(model, 0),
        model.get_input_embeddings(),
        lambda: MicroSpec(model.get_output_embeddings(), window),
        EagleOptions(depth=2, width=2),
    )


def medusa(model):
    heads = new_medusa(model, 2)
    torch.nn.init.normal_(heads.weight, std=0.5, generator=torch.Generator().manual_seed(5))
    some = torch.arange(0, VOCABULARY, 2)
    return Medusa(
        heads, lambda: Frequent(model.get_output_embeddings(), some), EagleOptions(width=2)
    )


@pytest.mark.parametrize("make", [eagle, medusa])
@pytest.mark.parametrize("name", ["sampled", "multi-branch"])
def test_sequences_have_the_law_of_the_target(name, make):
    model = build_model("qwen2", vocabulary=VOCABULARY)
    width = model.get_input_embeddings().weight.shape[1]
    target, sampling = SeenTarget(width), Sampling(0.8, seed=4)
    drafter = make(model)
    drafts, draft = [], drafter.draft
    drafter.draft = lambda budget: drafts.append(draft(budget)) or drafts[-1]
    counts = sample(target, drafter, verifier(name, sampling), SEQUENCES)
    assert chance(counts, exact_law(target, sampling.law)) > FALSE_ALARM
    sizes = {len(set(d.tokens.tolist())) for d in drafts}
    assert 0 < max(sizes) < VOCABULARY, "drafts must be there, and lack some token"
