"""Models with PEFT adapters: the tokens of PEFT's own generate, or one line that says why not."""

import numpy as np
import peft
import pytest
import torch
from transformers import AutoTokenizer

import tasc
from tasc.errors import InputError, UnavailableError
from tasc.models.target import Target
from tests import pico

# PEFT reads a property that transformers renamed, and warns of adapters that are added later.
pytestmark = [
    pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning:peft"),
]
PROMPTS = ([5, 6, 7, 8, 9, 10, 11], [7, 8, 9, 3], [44, 7, 8, 30, 31, 32])
NEW = 10
LAYERS = {"task_type": "CAUSAL_LM", "target_modules": ["q_proj", "v_proj"]}
SOFT = {"task_type": "CAUSAL_LM", "num_virtual_tokens": 4}
LORA = {"r": 4} | LAYERS
# Methods that replace weights.
FOLLOWED = {
    "lora": peft.LoraConfig(**LORA),
    "dora": peft.LoraConfig(use_dora=True, **LORA),
    "head-saved": peft.LoraConfig(modules_to_save=["lm_head"], **LORA),
    "embedding-saved": peft.LoraConfig(modules_to_save=["embed_tokens"], **LORA),
    "rows": peft.LoraConfig(trainable_token_indices=[5, 6, 7], **LORA),
    "ia3": peft.IA3Config(
        task_type="CAUSAL_LM",
        target_modules=["k_proj", "v_proj", "down_proj"],
        feedforward_modules=["down_proj"],
    ),
    "oft": peft.OFTConfig(oft_block_size=4, **LAYERS),
    "norms": peft.LNTuningConfig(task_type="CAUSAL_LM"),
}
ALORA = peft.LoraConfig(alora_invocation_tokens=[7, 8], **LORA)
# Methods that do more, and the reason in the error.
REFUSED = {
    "prompt": (peft.PromptTuningConfig(**SOFT), "PROMPT_TUNING. puts a soft prompt"),
    "prefix": (peft.PrefixTuningConfig(**SOFT), "PREFIX_TUNING. puts a soft prompt"),
    "p-tuning": (
        peft.PromptEncoderConfig(encoder_hidden_size=16, **SOFT),
        "P_TUNING. puts a soft prompt",
    ),
    "adaption": (
        peft.AdaptionPromptConfig(task_type="CAUSAL_LM", adapter_len=4, adapter_layers=2),
        "adds a soft prompt to each attention layer",
    ),
    "alora": (ALORA, "LORA. is an activated LoRA"),
    "poly": (peft.PolyConfig(r=4, n_tasks=2, n_skills=2, **LAYERS), "needs the task"),
}


@pytest.fixture(scope="module")
def hf_tokenizer(tmp_path_factory):
    return AutoTokenizer.from_pretrained(pico.make_tokenizer(tmp_path_factory.mktemp("tokens")))


def adapted(*configs, names=("default", "other")):
    """A model with adapters, none of which leaves the outputs as they are."""
    model = peft.get_peft_model(pico.build_model("llama"), configs[0])
    for name, config in zip(names[1:], configs[1:], strict=False):
        model.add_adapter(name, config)
    torch.manual_seed(1)
    for name, parameter in model.named_parameters():
        if parameter.requires_grad or "lora_" in name:
            parameter.data += 0.3 * torch.randn_like(parameter)
    return model.eval()


def by_peft(model, prompt, **options):
    ids = torch.tensor([prompt])
    options = {"max_new_tokens": NEW, "do_sample": False, "pad_token_id": 0} | options
    out = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), **options)
    return out[0, len(prompt) :].tolist()


def by_tasc(model, tokenizer, **options):
    done = tasc.generate(model, tokenizer, PROMPTS, max_new_tokens=NEW, **options)
    return [completion.tokens.tolist() for completion in done]


def assert_follows(model, tokenizer):
    expected = [by_peft(model, prompt) for prompt in PROMPTS]
    assert by_tasc(model, tokenizer) == expected
    assert by_tasc(model, tokenizer, batch_size=3) == expected
    method = tasc.custom_generate()
    assert [by_peft(model, p, custom_generate=method) for p in PROMPTS] == expected
    assert [by_peft(model, prompt) for prompt in PROMPTS] == expected  # it is as it was
    return expected


def assert_refused(model, tokenizer, reason, kind=UnavailableError):
    for work in (
        lambda: by_tasc(model, tokenizer),
        lambda: tasc.choose(model, tokenizer, PROMPTS, ["play", "alarm"]),
        lambda: by_peft(model, PROMPTS[0], custom_generate=tasc.custom_generate()),
        lambda: Target(model),
    ):
        with pytest.raises(kind, match=reason) as refusal:
            work()
        assert "\n" not in str(refusal.value)
        assert "without tasc" in str(refusal.value)


@pytest.mark.parametrize("config", FOLLOWED.values(), ids=FOLLOWED)
def test_adapters_that_replace_weights_are_followed(config, hf_tokenizer):
    model = adapted(config)
    plain = [by_peft(pico.build_model("llama"), prompt) for prompt in PROMPTS]
    assert assert_follows(model, hf_tokenizer) != plain


@pytest.mark.parametrize(("config", "reason"), REFUSED.values(), ids=REFUSED)
def test_adapters_that_do_more_are_refused(config, reason, hf_tokenizer):
    assert_refused(adapted(config), hf_tokenizer, reason)


@pytest.mark.parametrize("name", ["lora", *REFUSED])
def test_a_disabled_adapter_leaves_the_base_model(name, hf_tokenizer):
    model = adapted(FOLLOWED[name] if name in FOLLOWED else REFUSED[name][0])
    plain = [by_peft(pico.build_model("llama"), prompt) for prompt in PROMPTS]
    with model.disable_adapter():
        if name == "poly":  # PEFT itself asks for tasks then
            assert by_tasc(model, hf_tokenizer) == plain
        else:
            assert assert_follows(model, hf_tokenizer) == plain


def test_the_active_adapters_of_several_decide(hf_tokenizer):
    model = adapted(FOLLOWED["lora"], peft.LoraConfig(**LORA))
    one = assert_follows(model, hf_tokenizer)
    model.base_model.set_adapter(["default", "other"])
    assert assert_follows(model, hf_tokenizer) != one


def test_an_activated_lora_matters_only_while_it_is_active(hf_tokenizer):
    model = adapted(FOLLOWED["lora"], ALORA)
    assert_follows(model, hf_tokenizer)
    model.set_adapter("other")
    assert_refused(model, hf_tokenizer, "is an activated LoRA")


def test_an_adapter_that_transformers_attached_is_followed_or_refused(tmp_path, hf_tokenizer):
    """By load_adapter: transformers 5.24 refuses add_adapter with every released PEFT."""
    adapters = {
        "plain": peft.LoraConfig(init_lora_weights=False, **LORA),
        "activated": ALORA,
    }
    models = {}
    for name, adapter in adapters.items():
        adapted(adapter).save_pretrained(tmp_path / name)
        models[name] = pico.build_model("llama")
        models[name].load_adapter(str(tmp_path / name))
        models[name].eval()
    assert_follows(models["plain"], hf_tokenizer)
    assert_refused(models["activated"], hf_tokenizer, "is an activated LoRA")


def test_adapters_by_prompt_are_refused(hf_tokenizer):
    model = adapted(FOLLOWED["lora"], peft.LoraConfig(**LORA))
    ids = torch.tensor([PROMPTS[0], PROMPTS[0][::-1]])
    options = {"max_new_tokens": 4, "do_sample": False, "pad_token_id": 0}
    names = {"adapter_names": ["default", "other"], "attention_mask": torch.ones_like(ids)}
    assert len(model.generate(input_ids=ids, **names, **options)) == 2
    with pytest.raises(InputError, match="once per adapter, after set_adapter"):
        model.generate(input_ids=ids, custom_generate=tasc.custom_generate(), **names, **options)


def test_labels_are_scored_with_the_adapter(hf_tokenizer):
    model, labels = adapted(FOLLOWED["lora"]), ["play", "alarm"]
    for prompt, choice in zip(
        PROMPTS, tasc.choose(model, hf_tokenizer, PROMPTS, labels), strict=True
    ):
        scores = []
        for label in labels:
            tokens = [*hf_tokenizer(label, add_special_tokens=False).input_ids, 0]
            with torch.no_grad():
                rows = model(input_ids=torch.tensor([prompt + tokens])).logits[0].log_softmax(-1)
            scores.append(sum(float(rows[len(prompt) - 1 + i, t]) for i, t in enumerate(tokens)))
        expected = torch.tensor(scores).softmax(-1).numpy()
        np.testing.assert_allclose([*choice.probabilities.values()], expected, atol=1e-4)
