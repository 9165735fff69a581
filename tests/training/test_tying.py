"""Checkpoints whose config.json is wrong about the LM head, trained, merged and exported.

The expected logits are those of a model with two matrices whose weights are computed here, in
plain torch, from the files of the checkpoint and of the adapter.
"""

import itertools
import json

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

import tasc
from tasc.errors import InputError
from tasc.models.folder.tying import is_tied
from tasc.models.load import load_model
from tasc.training.finetuned import Start
from tasc.training.train import finetune
from tasc.vocab.search.embedding_cost import embedding_cost
from tests.checkpoints import DTYPES, Checkpoint
from tests.options import replace
from tests.tiers import spread
from tests.training import samples
from tests.training.runs import resumed
from tests.training.samples import ROWS, corpus

OPTIONS = replace(samples.OPTIONS, dtype="auto", rank=4, alpha=8, merge=True)
TOLERANCE = {"float32": 1e-5, "bfloat16": 0.05, "float16": 0.01}  # of the largest logit
IDS = torch.tensor([[1, 2, 3, 320, 321, 5, 9, 320]])
PREFIX = "base_model.model."
SIXTEEN = [
    Checkpoint(tied, says_tied, has_head, dtype)
    for tied, says_tied, has_head in itertools.product([True, False], repeat=3)
    for dtype in ("float32", "bfloat16")
]
TRAINABLE = [each for each in SIXTEEN if not each.has_no_head]
HEADLESS = [each for each in SIXTEEN if each.has_no_head]
CONTRARY = Checkpoint(tied=False, says_tied=True, has_head=True)
HALF = Checkpoint(tied=False, says_tied=True, has_head=True, dtype="float16")


def trained(folder, augmented, work, options=OPTIONS):
    start = Start(str(folder), str(augmented), ROWS)
    return finetune(start, corpus(), None, options, work=work)


def matrices(folder):
    """Embedding and head of a checkpoint, which is its embedding if there is no other."""
    weights = load_file(folder / "model.safetensors")
    embedding = weights["model.embed_tokens.weight"].float()
    return embedding, weights.get("lm_head.weight", embedding).float()


def extended(matrix):
    """The matrix with the means of the base tokens' rows as new rows."""
    new = [matrix[list(row.base_ids)].mean(0) for row in ROWS]
    return torch.cat([matrix, torch.stack(new)])


def untied(folder, **weights):
    """The model of a checkpoint with two matrices; ``weights`` replace its own."""
    values = json.loads((folder / "config.json").read_text())
    size = len(weights["model.embed_tokens.weight"])
    values |= {"tie_word_embeddings": False, "vocab_size": size, "dtype": "float32"}
    config = AutoConfig.for_model(**values)
    model = AutoModelForCausalLM.from_config(config).eval()
    own = {k: v.float() for k, v in load_file(folder / "model.safetensors").items()}
    model.load_state_dict(own | weights)
    return model


def defined(checkpoint, folder, adapter):
    """The trained model by definition: rows replaced, and (alpha / rank) B A added to layers."""
    embedding, head = map(extended, matrices(folder))
    tensors = {name.removeprefix(PREFIX): x for name, x in load_file(adapter).items()}
    rows = sorted(
        json.loads((adapter.parent / "adapter_config.json").read_text())["trainable_token_indices"][
            "embed_tokens"
        ]
    )
    trained = {name: x for name, x in tensors.items() if "trainable_tokens_delta" in name}
    (of_embedding,) = [x for name, x in trained.items() if "embed_tokens" in name]
    of_head = [x for name, x in trained.items() if "lm_head" in name]
    assert len(of_head) == (not checkpoint.means_tied)
    embedding[rows] = of_embedding
    head[rows] = of_head[0] if of_head else of_embedding
    weights = {"model.embed_tokens.weight": embedding, "lm_head.weight": head}
    own = load_file(folder / "model.safetensors")
    for name, down in tensors.items():
        if name.endswith("lora_A.weight"):
            layer = name.removesuffix(".lora_A.weight")
            up = tensors[f"{layer}.lora_B.weight"]
            weights[f"{layer}.weight"] = own[f"{layer}.weight"].float() + 8 / 4 * up @ down
    return untied(folder, **weights)


def logits(model, ids=IDS):
    with torch.no_grad():
        return model.eval()(input_ids=ids).logits.float()


def assert_near(found, expected, dtype):
    off = (found - expected).abs().max()
    assert off <= TOLERANCE[dtype] * expected.abs().max()


def assert_says_what_it_is(folder, *, tied):
    values = json.loads((folder / "config.json").read_text())
    assert values["tie_word_embeddings"] is tied
    assert ("lm_head.weight" in load_file(folder / "model.safetensors")) is not tied


@spread("checkpoint", TRAINABLE, every=3)
def test_a_merged_model_is_the_checkpoint_with_what_was_trained(checkpoint, augmented, tmp_path):
    folder, out = checkpoint.save(tmp_path / "base"), tmp_path / "out"
    result = trained(folder, augmented, tmp_path / "work")
    result.save(out)
    expected = defined(checkpoint, folder, out / "adapter" / "adapter_model.safetensors")
    assert_near(logits(result.model.float()), logits(expected), "bfloat16")
    read = AutoModelForCausalLM.from_pretrained(out / "model")
    assert read.dtype == DTYPES[checkpoint.dtype]
    assert is_tied(read) == checkpoint.means_tied
    assert_near(logits(read.float()), logits(expected), checkpoint.dtype)
    assert_says_what_it_is(out / "model", tied=checkpoint.means_tied)


@spread("checkpoint, engine", TRAINABLE, ["vllm", "transformers", "sglang"], every=9)
def test_an_export_of_a_checkpoint_says_what_its_weights_are(checkpoint, engine, tmp_path):
    folder, out = checkpoint.save(tmp_path / "base"), tmp_path / "out"
    out.mkdir()
    tasc.export(tasc.ExportOptions(model=str(folder), to=engine)).save(out)
    values = json.loads((out / "config.json").read_text())
    assert values["tie_word_embeddings"] is checkpoint.means_tied
    embedding, head = matrices(folder)
    expected = untied(folder, **{"model.embed_tokens.weight": embedding, "lm_head.weight": head})
    ids = torch.arange(1, 9)[None]
    found = logits(AutoModelForCausalLM.from_pretrained(out).float(), ids)
    assert_near(found, logits(expected, ids), "float32")


@spread("checkpoint", TRAINABLE, every=3)
def test_llama_cpp_gets_the_head_of_a_checkpoint(checkpoint, tmp_path):
    pytest.importorskip("conversion", reason="the extra llama-cpp is not installed")
    gguf = pytest.importorskip("gguf")
    folder, out = checkpoint.save(tmp_path / "base"), tmp_path / "out"
    out.mkdir()
    options = {"model": str(folder), "to": "llama-cpp", "weights": "f32"}
    tasc.export(tasc.ExportOptions(**options)).save(out)
    tensors = {t.name: t.data for t in gguf.GGUFReader(out / "model.gguf").tensors}
    embedding, head = matrices(folder)
    torch.testing.assert_close(torch.tensor(tensors["token_embd.weight"]), embedding)
    written = tensors.get("output.weight", tensors["token_embd.weight"])
    torch.testing.assert_close(torch.tensor(written), head)
    read = load_model(str(out / "model.gguf"))
    torch.testing.assert_close(read.get_output_embeddings().weight.data.float(), head)
    assert read.config.tie_word_embeddings is ("output.weight" not in tensors)


@pytest.mark.parametrize("checkpoint", [*HEADLESS, Checkpoint(True, None, False)], ids=str)
def test_a_promised_head_that_is_not_there_is_refused(checkpoint, augmented, tmp_path):
    folder = checkpoint.save(tmp_path / "base")
    told = "has no LM head: .*lm_head.weight.*set it to true if the head is the embedding"
    for work in (
        lambda: load_model(str(folder)),
        lambda: trained(folder, augmented, tmp_path / "work"),
        lambda: tasc.export(tasc.ExportOptions(model=str(folder), to="vllm")),
    ):
        with pytest.raises(InputError, match=told) as refusal:
            work()
        assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("checkpoint", [CONTRARY, HALF], ids=str)
@pytest.mark.parametrize(
    "change", [{"quantize": "nf4"}, {"quantize": "8bit"}, {"train_rows": "all"}]
)
def test_other_ways_to_train_keep_the_head_apart(checkpoint, change, augmented, tmp_path):
    folder, out = checkpoint.save(tmp_path / "base"), tmp_path / "out"
    trained(folder, augmented, tmp_path / "work", replace(OPTIONS, **change)).save(out)
    assert_says_what_it_is(out / "model", tied=False)
    after, before = matrices(out / "model"), map(extended, matrices(folder))
    unused = sorted(set(range(320)) - rows_of(out / "adapter"))
    for matrix, old in zip(after, before, strict=True):
        torch.testing.assert_close(matrix[unused], old[unused])
    assert not torch.equal(after[0][:320], after[1][:320])


def rows_of(adapter):
    config = json.loads((adapter / "adapter_config.json").read_text())
    return {*config["trainable_token_indices"]["embed_tokens"]}


def test_all_weights_of_a_contrary_checkpoint_train_as_two_matrices(augmented, tmp_path):
    folder = CONTRARY.save(tmp_path / "base")
    options = replace(samples.OPTIONS, adapter="none")
    result = trained(folder, augmented, tmp_path / "work", options)
    result.save(tmp_path / "out")
    read = AutoModelForCausalLM.from_pretrained(tmp_path / "out/model")
    assert_near(logits(read), logits(result.model), "float32")
    assert_says_what_it_is(tmp_path / "out/model", tied=False)


def test_a_resumed_training_of_a_contrary_checkpoint_gives_the_same_bits(augmented, tmp_path):
    folder = CONTRARY.save(tmp_path / "base")
    arguments = (Start(str(folder), str(augmented), ROWS), corpus(), None, OPTIONS)
    whole = finetune(*arguments, work=tmp_path / "whole").merged()
    again = resumed(finetune, 3, *arguments, work=tmp_path / "again").merged()
    torch.testing.assert_close(again.state_dict(), whole.state_dict(), rtol=0, atol=0)


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")
def test_peft_alone_loads_the_adapter_of_a_contrary_checkpoint(augmented, tmp_path):
    folder, out = CONTRARY.save(tmp_path / "base"), tmp_path / "out"
    trained(folder, augmented, tmp_path / "work").save(out)
    base = AutoModelForCausalLM.from_pretrained(folder)
    base.config.tie_word_embeddings = False  # else transformers replaces the head here
    base.resize_token_embeddings(322)
    with torch.no_grad():
        for matrix in (base.get_input_embeddings().weight, base.get_output_embeddings().weight):
            matrix.copy_(extended(matrix[:320]))
    adapted = PeftModel.from_pretrained(base, out / "adapter").merge_and_unload()
    merged = AutoModelForCausalLM.from_pretrained(out / "model")
    assert_near(logits(merged), logits(adapted), "float32")


@pytest.mark.slow
@pytest.mark.parametrize("shards", [False, True])
@pytest.mark.parametrize("architecture", ["llama", "qwen2", "gemma3_text", "gpt2"])
def test_trimming_keeps_the_rows_of_both_matrices(architecture, shards, tmp_path):
    folder = CONTRARY.save(tmp_path / "base", architecture)
    if shards:
        shard(folder)
    data = tmp_path / "train.jsonl"
    lines = [{"input": one.prompt, "output": one.output} for one in corpus().examples]
    data.write_text("\n".join(map(json.dumps, lines)))
    before = AutoModelForCausalLM.from_pretrained(folder)
    options = {"tokenizer": str(folder), "source": {"path": str(data)}, "trim": True}
    made = tasc.augment(tasc.AugmentOptions(**options, new_tokens=0, rows=300))
    made.save(tmp_path / "out")
    read = AutoModelForCausalLM.from_pretrained(tmp_path / "out/model")
    kept = json.loads((tmp_path / "out/merges.json").read_text())["kept"]
    assert len(kept) < 320
    ids = torch.arange(len(kept))[None, :40]
    old = logits(before, torch.tensor(kept)[ids])[..., kept]
    torch.testing.assert_close(logits(read, ids), old)
    values = json.loads((tmp_path / "out/model/config.json").read_text())
    assert values["tie_word_embeddings"] is False


def shard(folder):
    """Put embedding and head into files of their own."""
    whole = load_file(folder / "model.safetensors")
    names = {"head": [n for n in whole if n == "lm_head.weight"]}
    names["rest"] = [n for n in whole if n != "lm_head.weight"]
    for file, own in names.items():
        save_file(
            {n: whole[n] for n in own}, folder / f"model-{file}.safetensors", {"format": "pt"}
        )
    where = {n: f"model-{file}.safetensors" for file, own in names.items() for n in own}
    index = {"metadata": {}, "weight_map": where}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "model.safetensors").unlink()


def test_llama_cpp_refuses_a_head_that_it_would_ignore(tmp_path):
    pytest.importorskip("conversion", reason="the extra llama-cpp is not installed")
    folder = CONTRARY.save(tmp_path / "base", "gemma")
    options = tasc.ExportOptions(model=str(folder), to="llama-cpp")
    with pytest.raises(InputError, match="would ignore the LM head, which is not the embedding"):
        tasc.export(options).save(tmp_path)


@pytest.mark.parametrize("checkpoint", TRAINABLE[::2], ids=str)
def test_the_cost_of_a_row_counts_the_matrices_that_there_are(checkpoint, tmp_path):
    folder = checkpoint.save(tmp_path / "base")
    cost = embedding_cost(folder)
    assert cost.parameters == 64 * (1 if checkpoint.means_tied else 2)
