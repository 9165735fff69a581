"""What of a model trains: adapters on some layers or all, over quantised weights, or all of it."""

from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from tasc.errors import InputError, UnavailableError
from tasc.models.load import load_model
from tasc.training.core.precision import tensor_float32
from tasc.training.finetuned import Start
from tasc.training.train import finetune
from tests import pico
from tests.options import FinetuneOptions, replace
from tests.training.runs import stop_after
from tests.training.samples import OPTIONS, ROWS, corpus

WAYS: dict[str, dict[str, Any]] = {
    "full": {"adapter": "none"},
    "full, recomputed": {"adapter": "none", "gradient_checkpointing": True, "bf16": True},
    "8 bits": {"quantize": "8bit"},
    "4 bits, recomputed": {"quantize": "nf4", "gradient_checkpointing": True},
    "some layers": {"target_modules": "q_proj,v_proj", "rank": 4, "alpha": 8, "dropout": 0.1},
    "bfloat16": {"bf16": True},
}


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")
@pytest.mark.parametrize("way", WAYS)
def test_each_way_lowers_the_loss_and_resumes_to_the_same_weights(start, tmp_path, way):
    options = replace(OPTIONS, **WAYS[way])
    whole = finetune(start, corpus(), corpus(1, 12), options, work=tmp_path / "whole")
    assert whole.report.losses[-1] < whole.report.losses[0]
    with pytest.raises(KeyboardInterrupt):
        finetune(
            start, corpus(), corpus(1, 12), options, work=tmp_path / "cut", progress=stop_after(3)
        )
    again = finetune(start, corpus(), corpus(1, 12), options, work=tmp_path / "cut", resume=True)
    assert again.report.losses == whole.report.losses
    expected = dict(whole.model.named_parameters())
    for name, parameter in again.model.named_parameters():
        assert torch.equal(parameter, expected[name]), name


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_all_weights_train_and_a_plain_model_is_left(augmented, tmp_path, dtype):
    base = pico.make_base(tmp_path / "base")
    pico.make_model(base, dtype=dtype)
    options = replace(OPTIONS, adapter="none", epochs=1.0)
    done = finetune(
        Start(str(base), str(augmented), ROWS), corpus(), None, options, work=tmp_path / "work"
    )
    assert done.report.trainable_parameters == done.report.total_parameters
    done.save(tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["model"]
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "out" / "model")
    assert model.dtype == dtype
    assert len(AutoTokenizer.from_pretrained(tmp_path / "out" / "model")) == 322
    before = dict(load_model(str(base)).named_parameters())
    for name, parameter in model.named_parameters():
        assert parameter.shape[0] == 322 or not torch.equal(parameter, before[name]), name
    for parameter, trained in zip(model.parameters(), done.model.parameters(), strict=True):
        assert torch.equal(parameter, trained.to(dtype))


def test_adapters_go_on_the_layers_that_are_named(start, tmp_path):
    options = replace(OPTIONS, target_modules="q_proj,0.mlp.up_proj", epochs=0.3)
    done = finetune(start, corpus(), None, options, work=tmp_path)
    adapted = {name for name, _ in done.model.named_parameters() if "lora_A" in name}
    ends = {name.partition("layers.")[2].partition(".lora_A")[0] for name in adapted}
    assert ends == {"0.self_attn.q_proj", "1.self_attn.q_proj", "0.mlp.up_proj"}


@pytest.mark.parametrize("named", ["proj", "lm_head", "q_proj,nothing"])
def test_a_layer_that_is_not_there_is_refused_with_those_that_are(start, tmp_path, named):
    options = replace(OPTIONS, target_modules=named)
    with pytest.raises(InputError, match=r"no linear layer .* choose from down_proj, gate_proj"):
        finetune(start, corpus(), None, options, work=tmp_path)


def test_bfloat16_is_what_the_products_are_computed_in(start, tmp_path):
    losses = [
        finetune(
            start, corpus(), None, replace(OPTIONS, bf16=bf16, epochs=0.3), work=tmp_path
        ).report.losses[0]
        for bf16 in (False, True)
    ]
    assert losses[0] != losses[1]
    assert losses[0] == pytest.approx(losses[1], rel=0.01)


def test_tf32_is_refused_without_a_cuda_device_and_undone_with_one(start, tmp_path):
    with pytest.raises(UnavailableError, match="TF32 needs a CUDA device"):
        finetune(start, corpus(), None, replace(OPTIONS, tf32=True), work=tmp_path)
    with tensor_float32(True, torch.device("cuda")):
        assert torch.get_float32_matmul_precision() == "high"
    assert torch.get_float32_matmul_precision() == "highest"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"adapter": "none", "rank": 4}, "rank has no effect with adapter=none"),
        (
            {"adapter": "none", "target_modules": "q_proj"},
            "target_modules has no effect with adapter=none",
        ),
        ({"adapter": "none", "quantize": "nf4"}, "quantised weights cannot be trained"),
        ({"adapter": "none", "train_rows": "new"}, "adapter=none trains all rows"),
        ({"adapter": "none", "draft_head": True}, "leave out adapter"),
        ({"quantize": False}, "quantize: got true or false"),
        ({"quantize": "int4"}, "quantize: input should be 'nf4', '8bit' or 'none'"),
        ({"target_modules": "q_proj,"}, "target_modules"),
    ],
)
def test_options_that_contradict_each_other_are_refused(change, said):
    with pytest.raises(InputError, match=said):
        FinetuneOptions(**change)
