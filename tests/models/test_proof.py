"""A model is proved to decode as transformers runs it before anything is decoded with it."""

import json

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, Qwen2ForCausalLM

import tasc
from tasc.errors import UnavailableError
from tasc.files.cache import cache_folder
from tasc.models import proof
from tasc.models.proof import prove
from tasc.models.ragged import Ragged
from tasc.models.static import StaticTarget
from tasc.models.target import Target
from tasc.models.targets.borrowed import target_from_model
from tasc.models.targets.fastest import target_for
from tests.pico import ARCHITECTURES, build_model, make_tokenizer

BANNED = torch.tensor([3, 4])


@pytest.fixture(autouse=True)
def nothing_is_known(own_cache, monkeypatch):
    monkeypatch.setattr(proof, "_PROVED", {})
    monkeypatch.setattr(proof, "_REFUSED", {})


@pytest.fixture
def runs(monkeypatch):
    counted, errors = [], proof._errors
    monkeypatch.setattr(proof, "_errors", lambda *given: counted.append(given) or errors(*given))
    return counted


def decoder(kind, dtype=torch.float32):
    """The decoder of an encoder-decoder model, as a causal language model."""
    config = AutoConfig.for_model(
        kind, vocab_size=320, d_model=64, decoder_layers=2, decoder_attention_heads=4,
        decoder_ffn_dim=128, max_position_embeddings=256, is_decoder=True, pad_token_id=0,
        bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, forced_eos_token_id=None,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return AutoModelForCausalLM.from_config(config).to(dtype).eval()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("kind", ["bart", "mbart", "pegasus", "marian", "blenderbot"])
def test_a_model_that_ignores_positions_is_refused(kind, dtype):
    with pytest.raises(
        UnavailableError, match=r"gives different logits.*with transformers"
    ) as caught:
        prove(Target(decoder(kind, dtype)))
    assert "\n" not in str(caught.value)
    assert target_for(decoder(kind, dtype)).chains_only, "its drafts must be chains"


def test_a_refused_model_is_given_back_and_refused_again():
    model = Strict(build_model("qwen2").config)
    own = model.config._attn_implementation
    for _ in range(2):
        with pytest.raises(UnavailableError), target_from_model(model):
            pass
        assert model.config._attn_implementation == own
    assert not cache_folder().exists(), "only a success is kept"


def test_generate_and_custom_generate_refuse_it_before_a_token_is_decoded(tmp_path):
    tokenizer = AutoTokenizer.from_pretrained(make_tokenizer(tmp_path))
    model = Strict(build_model("qwen2").config)
    with pytest.raises(UnavailableError, match="Strict cannot run on a tree of drafts"):
        tasc.choose(model, tokenizer, [[5, 6]], ["a", "b"])
    with pytest.raises(UnavailableError, match="Strict cannot run on a tree of drafts"):
        tasc.generate(model, tokenizer, [[5, 6]], "prompt", max_new_tokens=3)


class Shifted(Qwen2ForCausalLM):
    """Reads positions only where they rise by one, as code written for plain text may."""

    def forward(self, input_ids=None, position_ids=None, **rest):
        if position_ids is not None:
            steps = torch.arange(position_ids.shape[1], device=position_ids.device)
            position_ids = position_ids[:, :1] + steps
        return super().forward(input_ids=input_ids, position_ids=position_ids, **rest)


class Strict(Qwen2ForCausalLM):
    """Does not take what it was not written for."""

    def forward(self, input_ids=None, use_cache=True):
        return super().forward(input_ids=input_ids, use_cache=use_cache)


def test_what_a_class_does_with_a_tree_is_found_out_by_running_it():
    config = build_model("qwen2").config
    with pytest.raises(UnavailableError, match="gives different logits"):
        prove(Target(Shifted(config)))
    with pytest.raises(UnavailableError, match=r"cannot run on a tree of drafts \(.*unexpected"):
        target_for(Strict(config))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_model_that_decodes_rightly_passes(architecture, dtype):
    model = build_model(architecture).to(dtype)
    prove(Target(model))
    prove(StaticTarget(model, graphs=False))


def test_an_architecture_is_proved_once_for_a_dtype_and_a_kind_of_target(runs, monkeypatch):
    for seed, vocabulary in enumerate((320, 320, 200)):
        target_for(build_model("qwen2", seed=seed, vocabulary=vocabulary))
    assert len(runs) == 1, "neither weights nor the vocabulary change what the code does"
    monkeypatch.setattr(proof, "_PROVED", {})
    target_for(build_model("qwen2"))
    assert len(runs) == 1, "another process knows it from the cache"
    target_for(build_model("qwen2").to(torch.bfloat16))
    target_for(build_model("qwen2", layers=1))
    target_for(build_model("llama"))
    prove(StaticTarget(build_model("qwen2"), graphs=False))
    monkeypatch.setattr(proof, "__version__", "another")
    target_for(build_model("qwen2"))
    assert len(runs) == 6


@pytest.mark.parametrize("text", ["", "{", "[]", '{"of": {}}', "\x00"])
def test_a_damaged_entry_is_proved_anew(runs, monkeypatch, text):
    target_for(build_model("qwen2"))
    (file,) = cache_folder().iterdir()
    file.write_text(text)
    monkeypatch.setattr(proof, "_PROVED", {})
    target_for(build_model("qwen2"))
    assert len(runs) == 2
    assert "qwen2" in json.loads(file.read_text())["of"]["model"]


def test_a_model_that_cannot_do_without_padding_keeps_it(monkeypatch):
    def fail(_self, _padded):
        raise RuntimeError("the size of tensor a must match")

    monkeypatch.setattr(Ragged, "flatten", fail)
    for _ in range(2):
        assert not target_for(build_model("qwen2")).flattens
        monkeypatch.setattr(proof, "_PROVED", {})  # another process knows it from the cache


def test_a_cache_that_cannot_be_written_costs_one_proof_a_process(runs, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    for _ in range(3):
        target_for(build_model("qwen2"))
    assert len(runs) == 1


def test_a_model_in_use_is_proved_too_and_keeps_the_tree_attention():
    model = build_model("qwen2")
    Target(model)
    assert target_for(model).model.config._attn_implementation == "tasc"


@pytest.mark.parametrize("positions", [1, 4, 5, 6, 9])
def test_few_positions_do_not_break_the_proof(positions):
    target = Target(build_model("gemma"))
    target.max_positions = positions
    prove(target)


@pytest.mark.parametrize("vocabulary", [1, 2, 5])
def test_a_tiny_vocabulary_does_not_break_the_proof(vocabulary):
    prove(Target(build_model("llama", vocabulary=vocabulary)))


def test_a_model_whose_logits_are_no_numbers_is_told_apart():
    model = build_model("qwen2")
    with torch.no_grad():
        model.lm_head.weight.fill_(float("nan"))
    with pytest.raises(UnavailableError, match="check its weights"):
        target_for(model)


def test_a_step_without_numbers_is_refused():
    assert proof._error(torch.tensor([[1.0, torch.nan]]), torch.tensor([[1.0, 2.0]])) == torch.inf


def test_tokens_that_a_model_rules_out_are_not_compared():
    model = build_model("qwen2")
    model.lm_head.register_forward_hook(lambda _m, _i, out: out.index_fill(-1, BANNED, -torch.inf))
    target_for(model)
