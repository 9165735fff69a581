"""Stand-ins of one and two layers: what they tell of a whole model."""

import pytest
import torch

from tasc.models import probe
from tasc.models.probe import Probe
from tests.pico import ARCHITECTURES, OTHERS, build_model


@pytest.mark.parametrize("architecture", [*ARCHITECTURES, *OTHERS])
def test_every_architecture_has_stand_ins_of_its_own_layers(architecture, monkeypatch):
    config = build_model(architecture, layers=5).config
    found = Probe(config)
    assert [model.config.num_hidden_layers for model in found.models] == [1, 2]
    assert config.num_hidden_layers == 5

    def layers(run, model):
        run(model)  # it does run
        return 7.0 + 3 * model.config.num_hidden_layers

    monkeypatch.setattr(probe, "_seconds", layers)
    assert found.forward(2, 3) == 7 + 3 * 5
    assert found.training_step(2, 6, 4, frozen=True, bfloat16=False) == 7 + 3 * 5


@pytest.mark.parametrize("frozen", [True, False])
def test_frozen_layers_get_no_gradients(frozen, monkeypatch):
    found, learning = Probe(build_model().config), []
    monkeypatch.setattr(
        torch.nn.Module,
        "zero_grad",
        lambda model: learning.append(
            {name for name, held in model.named_parameters() if held.grad is not None}
        ),
    )
    found.training_step(2, 6, 4, frozen=frozen, bfloat16=False)
    assert "model.embed_tokens.weight" in learning[0]
    assert any("layers." in name for name in learning[0]) != frozen


def test_a_probe_leaves_the_random_numbers_alone():
    torch.manual_seed(3)
    before = torch.get_rng_state()
    Probe(build_model().config).forward(1, 1)
    assert torch.equal(torch.get_rng_state(), before)
