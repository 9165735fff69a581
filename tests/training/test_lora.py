import pytest
import torch
from transformers import AutoModelForCausalLM

from tasc.models.embeddings import extend_embeddings
from tasc.models.folder.tying import is_tied
from tasc.models.load import load_model
from tasc.training.adapters import lora
from tasc.training.adapters.low_rank import BitDropout, LowRank
from tasc.training.adapters.options import AdapterOptions
from tasc.training.adapters.rows import Rows
from tasc.training.core.batch import Batch
from tasc.training.objectives.language import summed_loss
from tests import pico
from tests.training.runs import assert_close
from tests.training.samples import ROWS

IDS = torch.tensor([[1, 2, 3, 320, 321, 5, 9, 320]])
NEW = [320, 321]


def adapted(folder, *, dtype="float32", dropout=0.0, rows=ROWS):
    model = load_model(str(folder), dtype=dtype, quantize="nf4")
    extend_embeddings(model, rows)
    options = AdapterOptions(rank=4, alpha=8, dropout=dropout)
    return lora.attach(model, [row.new_id for row in rows], options)


def disturb(model):
    """Give every trainable tensor a value that training could have given it."""
    torch.manual_seed(1)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data += 0.1 * torch.randn_like(parameter)


def plain(folder, rows=ROWS):
    model = load_model(str(folder), dtype="float32")
    extend_embeddings(model, rows)
    return model


def logits(model):
    with torch.no_grad():
        return model.eval()(IDS).logits


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("architecture", pico.ARCHITECTURES)
@pytest.mark.parametrize(("dtype", "off"), [("float32", 1e-4), ("auto", 0.05)])  # or bfloat16
def test_the_merged_model_computes_what_the_adapter_model_does(
    tmp_path, architecture, tied, dtype, off
):
    folder = pico.make_model(tmp_path / "base", architecture, tied=tied)
    model, merged = adapted(folder, dtype=dtype), plain(folder)
    disturb(model)
    lora.merge_into(model, merged)
    assert_close(merged.eval(), model.eval(), IDS, off)
    merged.save_pretrained(tmp_path / "merged")
    read = AutoModelForCausalLM.from_pretrained(tmp_path / "merged")
    assert is_tied(read) == tied
    assert read.config.vocab_size == 322
    assert torch.equal(logits(read), logits(merged))


@pytest.mark.parametrize(
    ("tied", "added", "matrices"), [(True, ROWS, 1), (False, ROWS, 2), (False, (), 0)]
)
def test_only_adapters_and_new_rows_train(tmp_path, tied, added, matrices):
    model = adapted(pico.make_model(tmp_path, tied=tied), rows=added)
    names = [name for name, p in model.named_parameters() if p.requires_grad]
    assert all("lora_" in name or "trainable_tokens" in name for name in names)
    assert sum("trainable_tokens" in name for name in names) == matrices
    rows = [p for name, p in model.named_parameters() if "trainable_tokens_delta" in name]
    assert [tuple(p.shape) for p in rows] == [(2, 64)] * matrices
    for layer in ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"):
        assert sum(layer in name for name in names) == 4  # A and B in each of two layers
    assert not any("lm_head" in name and "lora" in name for name in names)


@pytest.mark.parametrize("tied", [True, False])
def test_a_step_moves_the_new_rows_of_both_matrices_and_no_other_row(tmp_path, tied):
    folder = pico.make_model(tmp_path, tied=tied)
    model, before, after = adapted(folder), plain(folder), plain(folder)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    summed_loss(model, Batch(IDS, IDS, None), bfloat16=False).backward()
    optimizer.step()
    lora.merge_into(model, after)
    for matrix in ("get_input_embeddings", "get_output_embeddings"):
        old, new = getattr(before, matrix)().weight, getattr(after, matrix)().weight
        assert torch.equal(old[:320], new[:320])
        assert (old[NEW] != new[NEW]).any(1).all()


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("architecture", pico.ARCHITECTURES)
@pytest.mark.parametrize("bfloat16", [True, False])
def test_trained_rows_have_the_gradients_of_peft(tmp_path, architecture, tied, bfloat16):
    model = adapted(pico.make_model(tmp_path, architecture, tied=tied))
    before = logits(model.train())
    disturb(model)
    model.get_input_embeddings().original_module.padding_idx = 321
    made = []
    for kind in (*Rows.__bases__, Rows):
        for module in (m for m in model.modules() if isinstance(m, Rows.__bases__)):
            module.__class__ = kind
        model.zero_grad()
        (loss := summed_loss(model, Batch(IDS, IDS, None), bfloat16=bfloat16)).backward()
        made.append([loss, *(p.grad for p in model.parameters() if p.requires_grad)])
    assert made[0][0] == made[1][0]
    torch.testing.assert_close(*made, rtol=1e-5, atol=2e-2 if bfloat16 else 1e-5)
    with model.disable_adapter():
        assert torch.equal(logits(model), before)


def test_all_layers_get_gradients_after_an_evaluation(tmp_path):
    """bitsandbytes' CPU inference layout would cut the gradient off below the last layer."""
    model = adapted(pico.make_model(tmp_path))
    logits(model)
    summed_loss(model.train(), Batch(IDS, IDS, None), bfloat16=True).backward()
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            assert parameter.grad is not None, name
            assert parameter.grad.abs().sum() > 0, name


def test_trainable_parameters_are_float32_on_a_bfloat16_base(tmp_path):
    folder = pico.make_model(tmp_path, dtype=torch.bfloat16)
    model = adapted(folder, dtype="auto")
    dtypes = {p.dtype for p in model.parameters() if p.requires_grad}
    assert dtypes == {torch.float32}
    assert model.get_input_embeddings().weight.dtype == torch.bfloat16


@pytest.mark.parametrize("rate", [0.05, 0.2, 0.5])
def test_elements_are_dropped_independently_at_the_rate_and_the_mean_is_kept(rate):
    torch.manual_seed(0)
    out = BitDropout(rate)(torch.ones(4, 250_000))
    assert out.mean().item() == pytest.approx(1.0, abs=0.003)
    assert out[out != 0].unique().numel() == 1
    dropped = (out == 0).float()
    assert dropped.mean().item() == pytest.approx(rate, abs=0.003)
    for shift in (1, 2, 3, 4):
        together = (dropped[:, shift:] * dropped[:, :-shift]).mean().item()
        assert together == pytest.approx(rate**2, abs=0.005)


def test_the_mask_follows_from_the_generator_and_passes_gradients():
    x = torch.randn(7, 5, requires_grad=True)
    layer = BitDropout(0.2)
    torch.manual_seed(3)
    first = layer(x)
    torch.manual_seed(3)
    assert torch.equal(layer(x), first)
    first.sum().backward()
    torch.testing.assert_close(x.grad, torch.where(first == 0, 0.0, layer.scale))
    assert layer.eval()(x) is x


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("bfloat16", [True, False])
def test_low_rank_layers_have_the_losses_and_gradients_of_peft(tmp_path, dropout, bfloat16):
    model = load_model(str(pico.make_model(tmp_path)), dtype="float32")
    lora.attach(model, [], AdapterOptions(rank=4, alpha=8, dropout=dropout))
    disturb(model.train())
    layers = [module for module in model.modules() if isinstance(module, LowRank)]
    assert len(layers) == 14
    made, batch = [], Batch(IDS % 320, IDS % 320, None)
    for kind in (*LowRank.__bases__, LowRank):
        for layer in layers:
            layer.__class__ = kind
        model.zero_grad()
        torch.manual_seed(7)  # the same elements are dropped
        (loss := summed_loss(model, batch, bfloat16=bfloat16)).backward()
        made.append([loss, *(p.grad for p in model.parameters() if p.requires_grad)])
    for plain, fused in zip(*made, strict=True):
        assert (plain - fused).norm() <= (0.1 if bfloat16 else 1e-5) * plain.norm()
