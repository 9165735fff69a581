"""The loss in pieces against its plain definition, with gradients."""

import pytest
import torch
from transformers import Gemma2Config, Gemma2ForCausalLM, GraniteConfig, GraniteForCausalLM

from tasc.training.core.batch import Batch
from tasc.training.objectives import language, pieces
from tests import pico
from tests.training.test_lora import adapted, disturb

SMALL = {
    "vocab_size": 64,
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "pad_token_id": 0,
}


def build_batch():
    generator = torch.Generator().manual_seed(5)
    ids = torch.randint(1, 300, (3, 20), generator=generator)
    labels = ids.clone()
    labels[:, :7] = -100
    labels[1, 15:] = -100
    return Batch(ids, labels, None)


def losses_and_gradients(model, batch):
    made = []
    for loss_of in (language.token_loss, pieces.token_loss):
        model.zero_grad()
        loss = loss_of(model, batch)
        (loss / 3).backward()
        made.append([loss.detach(), *(p.grad for p in model.parameters() if p.requires_grad)])
    return made


@pytest.mark.parametrize("logits", [1 << 24, 7 * 322, 1])  # in one piece, some, one row each
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("architecture", pico.ARCHITECTURES)
def test_loss_and_gradients_of_all_weights_are_the_definition_s(
    monkeypatch, architecture, tied, logits
):
    monkeypatch.setattr(pieces, "_LOGITS", logits)
    model, batch = pico.build_model(architecture, tied=tied), build_batch()
    torch.testing.assert_close(*losses_and_gradients(model, batch), rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        plain, split = language.score(model, batch), pieces.score(model, batch)
    assert split == (pytest.approx(plain[0]), *plain[1:])


@pytest.mark.parametrize("tied", [True, False])
def test_loss_and_gradients_of_adapters_and_rows_are_the_definition_s(tmp_path, monkeypatch, tied):
    monkeypatch.setattr(pieces, "_LOGITS", 7 * 322)
    model = adapted(pico.make_model(tmp_path, tied=tied))
    disturb(model)
    torch.testing.assert_close(*losses_and_gradients(model, build_batch()), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("architecture", pico.ARCHITECTURES)
def test_a_plain_head_is_recognised_and_the_model_is_left_as_it_was(architecture):
    model = pico.build_model(architecture).train()
    assert pieces.learner(model) is not None
    assert model.training
    assert not model.get_output_embeddings()._forward_hooks


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        (GraniteForCausalLM, GraniteConfig(**SMALL, logits_scaling=4.0)),
        (Gemma2ForCausalLM, Gemma2Config(**SMALL, final_logit_softcapping=30.0)),
    ],
)
def test_a_model_that_changes_the_logits_of_its_head_is_trained_by_the_definition(kind, config):
    model = kind(config)
    assert pieces.learner(model) is None
    assert language.learner(model).loss is language.token_loss
