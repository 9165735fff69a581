"""What of a model trains, and for how long: adapters, rows of the embedding, or all of it."""

import json
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from tasc.errors import InputError, UnavailableError
from tasc.models.embeddings import extend_embeddings
from tasc.models.load import load_model
from tasc.tokenizer.loaded import load_tokenizer
from tasc.training.core.precision import tensor_float32
from tasc.training.finetuned import Start
from tasc.training.train import finetune
from tests import pico
from tests.options import FinetuneOptions, replace
from tests.training.runs import assert_same, resumed
from tests.training.samples import OPTIONS, ROWS, corpus

WAYS: dict[str, dict[str, Any]] = {
    "full": {"adapter": "none"},
    "full, recomputed": {"adapter": "none", "gradient_checkpointing": True, "bf16": True},
    "8 bits": {"quantize": "8bit"},
    "4 bits": {"quantize": "nf4", "dtype": "auto"},
    "4 bits, recomputed": {"quantize": "nf4", "gradient_checkpointing": True},
    "some layers": {"target_modules": "q_proj,v_proj", "rank": 4, "alpha": 8, "dropout": 0.1},
    "bfloat16": {"bf16": True},
}
ONE_EPOCH = replace(OPTIONS, epochs=1.0, learning_rate=1e-2, rank=4, checkpoint_steps=0)
NEW = {row.new_id for row in ROWS}


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")
@pytest.mark.parametrize("way", WAYS)
def test_each_way_lowers_the_loss_and_resumes_to_the_same_weights(start, tmp_path, way):
    arguments = (start, corpus(), corpus(1, 12), replace(OPTIONS, **WAYS[way]))
    whole = finetune(*arguments, work=tmp_path / "whole")
    first, last = whole.report.evaluations  # of examples that are trained on
    assert last.loss < first.loss
    again = resumed(finetune, 3, *arguments, work=tmp_path / "cut")
    assert again.report.losses == whole.report.losses
    assert_same(again.model, whole.model)


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
    first, second = (
        finetune(start, corpus(), None, replace(OPTIONS, bf16=bf16, epochs=0.3), work=tmp_path)
        for bf16 in (False, True)
    )
    assert first.report.losses != second.report.losses
    assert first.report.losses == pytest.approx(second.report.losses, rel=0.01)


def test_tf32_is_refused_without_a_cuda_device_and_undone_with_one(start, tmp_path):
    with pytest.raises(UnavailableError, match="TF32 needs a CUDA device"):
        finetune(start, corpus(), None, replace(OPTIONS, tf32=True), work=tmp_path)
    with tensor_float32(True, torch.device("cuda")):
        assert torch.get_float32_matmul_precision() == "high"
    assert torch.get_float32_matmul_precision() == "highest"


def used(folder):
    tokenizer, texts = load_tokenizer(str(folder)), corpus()
    encoded = [tokenizer.encode(column).tokens for column in (texts.prompts, texts.outputs)]
    return set(np.concatenate(encoded).tolist()) | {tokenizer.eos_id}


def moved(base, work, augmented=None, **options):
    """Rows of the merged model's embedding that training has changed."""
    start = Start(str(base), str(augmented or base), ROWS if augmented else ())
    done = finetune(start, corpus(), None, replace(ONE_EPOCH, **options), work=work)
    before = load_model(str(base), dtype="float32")
    extend_embeddings(before, start.added)
    old = before.get_input_embeddings().weight
    new = done.merged().get_input_embeddings().weight
    return set(torch.nonzero((old != new).any(1))[:, 0].tolist())


def test_rows_train_that_are_new_or_used_or_all(base, augmented, tmp_path):
    assert moved(base, tmp_path, augmented, train_rows="new") == NEW
    assert moved(base, tmp_path, train_rows="new") == set()
    assert moved(base, tmp_path, augmented, train_rows="used") == NEW | used(augmented)
    assert moved(base, tmp_path, train_rows="used") == used(base)
    assert len(used(base)) < 200
    assert moved(base, tmp_path, augmented, train_rows="all") == set(range(322))


def test_an_lm_head_with_a_bias_trains_adapters_alone(augmented, tmp_path):
    base = pico.make_base(tmp_path / "base", "phi", tied=False)
    assert moved(base, tmp_path / "work") == set()
    with pytest.raises(InputError, match="a bias"):
        moved(base, tmp_path / "work", augmented)


def test_training_reads_as_many_tokens_as_asked(base, tmp_path):
    start = Start(str(base), str(base))
    first = finetune(start, corpus(), None, ONE_EPOCH, work=tmp_path).report
    (tmp_path / "training.json").write_text(json.dumps(first.to_dict()))
    given = {name: getattr(ONE_EPOCH, name) for name in ONE_EPOCH.model_fields_set - {"epochs"}}
    step = first.tokens / first.steps
    for wanted, tokens in (
        ({"tokens": 2 * first.tokens}, 2 * first.tokens),
        ({"tokens_of": str(tmp_path)}, first.tokens),
    ):
        options = FinetuneOptions(**given, **wanted)
        found = finetune(start, corpus(3), None, options, work=tmp_path / "work").report
        assert abs(found.tokens - tokens) < step


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"tokens": "7"}', '{"tokens": 0}'])
def test_a_folder_without_a_training_report_is_refused(base, tmp_path, content):
    (tmp_path / "training.json").write_text(content)
    options = FinetuneOptions(tokens_of=str(tmp_path))
    with pytest.raises(InputError, match="give a"):
        finetune(Start(str(base), str(base)), corpus(), None, options, work=tmp_path / "work")
