"""GGUF files and n-gram caches, read back."""

import json
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoModelForCausalLM

from tasc.errors import InputError
from tasc.serving.exports.llama_cpp import count_ngrams, write_cache
from tasc.serving.gguf_vocabulary import CONTROL, NORMAL, UNUSED, USER_DEFINED, vocabulary
from tasc.tokenizer.loaded import LoadedTokenizer, load_tokenizer
from tasc.tokenizer.patterns import PRE_TOKENIZERS, byte_level
from tests.models.strangers import copied
from tests.pico import TEXTS, make_base, make_tokenizer, restate
from tests.serving.conftest import ROWS
from tests.serving.llama_models import DIGITS, VOCABULARY, augmented
from tests.serving.test_export import exported
from tests.vocab.marked import marked

pytest.importorskip("conversion", reason="the extra llama-cpp is not installed")
gguf = pytest.importorskip("gguf")
END = {"id": "<|endoftext|>", "ids": [0], "tokens": ["<|endoftext|>"]}
ENDING = {  # of a tokenizer that ends a text, and does not begin it
    "type": "TemplateProcessing",
    "single": [
        {"Sequence": {"id": "A", "type_id": 0}},
        {"SpecialToken": {"id": END["id"], "type_id": 0}},
    ],
    "pair": [{"Sequence": {"id": name, "type_id": 0}} for name in "AB"],
    "special_tokens": {END["id"]: END},
}
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0}
YARN |= {"original_max_position_embeddings": 128, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
PROMPTS = [row["input"] for row in ROWS[: len(TEXTS)]]


def records(path: Path) -> Any:
    numbers, found = iter(np.fromfile(path, np.int32).tolist()), {}
    for first in numbers:
        ngram = (first, *islice(numbers, 3))
        pairs = [*islice(numbers, 2 * next(numbers))]
        assert min(pairs[1::2]) > 0
        assert ngram not in found
        found[ngram] = dict(zip(pairs[::2], pairs[1::2], strict=True))
    return found


def test_caches_hold_what_follows_each_ngram_of_an_output(tmp_path):
    outputs = [np.array([1, 2, 1, 2], np.int32), np.array([2], np.int32)]
    write_cache(count_ngrams(outputs, 0, (2,)), tmp_path / "static")
    write_cache(count_ngrams(outputs, 0, (1, 2, 3, 4)), tmp_path / "dynamic")
    assert records(tmp_path / "static") == {(1, 2, -1, -1): {1: 1, 0: 1}, (2, 1, -1, -1): {2: 1}}
    found = records(tmp_path / "dynamic")
    assert found[(2, -1, -1, -1)] == {1: 1, 0: 2}
    assert found[(1, 2, 1, 2)] == {0: 1}
    assert {sum(token >= 0 for token in ngram) for ngram in found} == {1, 2, 3, 4}


def test_new_tokens_are_text_that_is_looked_for_or_plain_entries(model):
    tokenizer = load_tokenizer(str(model))
    base = load_tokenizer(str(model.parent / "base")).vocabulary()
    defined, plain = (vocabulary(tokenizer, VOCABULARY, user_defined=one) for one in (True, False))
    assert defined.pre == plain.pre == "qwen2"
    strings = tokenizer.vocabulary()
    spanning = [i for i, kind in enumerate(defined.types) if kind == USER_DEFINED]
    assert spanning
    assert min(spanning) >= len(base)
    assert all(defined.tokens[i].encode() == strings[i] for i in spanning)
    assert not any(defined.tokens[i].isalpha() for i in spanning)
    assert all(plain.types[i] == NORMAL for i in spanning)
    assert defined.types[0] == CONTROL
    assert defined.types[len(strings) :] == [UNUSED] * (VOCABULARY - len(strings))
    for text in PROMPTS:
        assert plain.encode(text) == tokenizer.encode([text]).tokens.tolist()


@pytest.mark.parametrize("name", ["llama2", "mistral-v1", "mistral-v3"])
def test_published_sentencepieces_are_encoded_alike(real_tokenizer, name):
    tokenizer, texts = real_tokenizer(name), [*PROMPTS, *TEXTS, "  two\n\tthree é 日本 🙂 <0x41>"]
    way = vocabulary(tokenizer, len(tokenizer.vocabulary()), user_defined=True)
    assert [way.encode(t) for t in texts] == [t.tolist() for t in tokenizer.encode(texts).split()]


def test_text_is_cut_at_the_longest_tokens_first(tmp_path):
    tokenizer, added = load_tokenizer(str(make_tokenizer(tmp_path))), [" in the", "the mor", "the"]
    tokenizer.tokenizer.add_tokens(added)
    known = vocabulary(tokenizer, 330, user_defined=True)
    first, longest, short = map(tokenizer.tokenizer.token_to_id, added)
    # Hugging Face takes the leftmost, llama.cpp the longest: of equal length the first in order.
    assert known.encode("x in the mor") == [*known.encode("x"), first, *known.encode(" mor")]
    assert known.encode("the mor the") == [longest, *known.encode(" "), short]


@pytest.mark.parametrize("kind", ["pretoken", "added"])
def test_the_pre_tokenizer_is_found_under_new_tokens(tmp_path, task, kind):
    tokenizer = load_tokenizer(str(augmented(tmp_path, task, kind, tokens="digits")))
    known = vocabulary(tokenizer, 400, user_defined=False)
    assert known.pre == "smollm"
    for text in ("1234 5.6 ²Ⅷ", "  two\n\n\ttab", "don't é日本🙂"):
        assert known.encode(text) == tokenizer.encode([text]).tokens.tolist()


@pytest.mark.parametrize(
    ("pre_tokenizer", "whole", "name"),
    [
        (pre_tokenizers.ByteLevel(add_prefix_space=False), False, "gpt-2"),
        (pre_tokenizers.Sequence(DIGITS), False, "smollm"),
        *((byte_level(*PRE_TOKENIZERS[n]), False, n) for n in ("qwen2", "smollm", "gpt-4o")),
        (byte_level(*PRE_TOKENIZERS["llama-bpe"]), True, "llama-bpe"),
        (byte_level(*PRE_TOKENIZERS["llama-bpe"]), False, "smaug-bpe"),
        (byte_level(*PRE_TOKENIZERS["default"]), False, None),
        (pre_tokenizers.ByteLevel(add_prefix_space=True), False, None),
        (pre_tokenizers.Sequence([pre_tokenizers.Digits(False), DIGITS[1]]), False, None),
    ],
)
def test_pre_tokenizers_are_compared_by_how_they_split(tmp_path, pre_tokenizer, whole, name):
    made = load_tokenizer(str(make_tokenizer(tmp_path)))
    made.tokenizer.pre_tokenizer = pre_tokenizer
    made.tokenizer.model.ignore_merges = whole
    if name:
        assert vocabulary(made, 320, user_defined=False).pre == name
        return
    with pytest.raises(InputError, match="lacks this tokenizer's pre-tokenizer"):
        vocabulary(made, 320, user_defined=False)


def test_other_tokenizers_and_models_are_refused_in_one_line(tmp_path, task):
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    with pytest.raises(InputError, match="BPE with byte fallback"):
        vocabulary(marked("bpe-always"), 600, user_defined=False)
    with pytest.raises(InputError, match="lacks this tokenizer's pre-tokenizer"):
        vocabulary(LoadedTokenizer(made, "x", {}), 10, user_defined=True)
    for kind, changes, reason in (
        ("opt", {}, "'OPTForCausalLM' not supported"),
        ("starcoder2", {}, "it would ignore the sliding window"),
        ("qwen2", {"max_position_embeddings": 2**40}, "a number that a GGUF file cannot store"),
    ):
        strange = copied(make_base(tmp_path / kind, kind), tmp_path / f"{kind}-copy", **changes)
        with pytest.raises(InputError, match=reason) as caught:
            exported(strange, "llama-cpp", tmp_path / "out", source=str(task))
        assert "\n" not in str(caught.value)


def test_the_converter_sees_neither_code_nor_pickles_nor_the_model_card(tmp_path, base, task):
    model = copied(base, tmp_path / "model", auto_map={"AutoConfig": "code.Config"})
    (model / "code.py").write_text("raise SystemExit('this code must not run')")
    (model / "pytorch_model.bin").write_bytes(b"a pickle")
    (model / "README.md").write_text("---\nlicense: of the base model\n---\n")
    exported(model, "llama-cpp", tmp_path / "out", source=str(task))
    fields = gguf.GGUFReader(tmp_path / "out" / "model.gguf").fields
    assert fields["general.name"].contents() == "model"
    assert "general.license" not in fields
    assert not any(str(tmp_path) in str(field.contents()) for field in fields.values())


def test_a_gguf_has_the_chat_template_the_end_tokens_and_no_bos_of_its_own(tmp_path, base):
    model = copied(base, tmp_path / "model")
    restate(model / "tokenizer_config.json", chat_template="{{ messages[0].content }}")
    restate(model / "tokenizer.json", post_processor=ENDING)
    restate(model / "generation_config.json", eos_token_id=[7, 0, 8])
    exported(model, "llama-cpp", tmp_path / "out")
    fields = gguf.GGUFReader(tmp_path / "out" / "model.gguf").fields
    ends = [fields[f"tokenizer.ggml.{end}_token_id"].contents() for end in ("eos", "eot", "eom")]
    assert ends == [0, 7, 8]
    assert fields["tokenizer.chat_template"].contents() == "{{ messages[0].content }}"
    assert not fields["tokenizer.ggml.add_bos_token"].contents()
    restate(model / "generation_config.json", eos_token_id="x")
    with pytest.raises(InputError, match="the end token 'x' is not a token id"):
        exported(model, "llama-cpp", tmp_path / "other")


@pytest.mark.parametrize(
    "setting",
    [
        {"hidden_act": "gelu"},
        {"rope_parameters": YARN | {"rope_type": "llama3"}},
        {"rope_parameters": YARN | {"attention_factor": 1.0}},
    ],
)
def test_what_llama_cpp_would_ignore_is_refused(tmp_path, base, setting):
    model = copied(base, tmp_path / "model", **setting)
    with pytest.raises(InputError, match="it would ignore"):
        exported(model, "llama-cpp", tmp_path / "out")


@pytest.mark.parametrize("architecture", ["gemma2", "gemma3_text"])
@pytest.mark.parametrize(
    "setting",
    [{"query_pre_attn_scalar": 64}, {"layer_types": ["full_attention", "sliding_attention"]}],
)
def test_what_llama_cpp_has_in_its_code_is_not_changed(tmp_path, architecture, setting):
    plain = {"query_pre_attn_scalar": 16}  # the width of a head
    exported(make_base(tmp_path / "plain", architecture, **plain), "llama-cpp", tmp_path / "out")
    model = make_base(tmp_path / "model", architecture, **plain | setting)
    with pytest.raises(InputError, match=f"it would ignore {next(iter(setting))}"):
        exported(model, "llama-cpp", tmp_path / "other")


def test_gpt2_as_transformers_5_saves_it_is_converted(tmp_path, task):
    model = augmented(tmp_path, task, "pretoken", "gpt2")
    assert "n_ctx" not in json.loads((model / "config.json").read_text())
    exported(model, "llama-cpp", tmp_path / "out", source=str(task))
    read = gguf.GGUFReader(tmp_path / "out" / "model.gguf")
    assert read.get_field("gpt2.context_length").contents() == 512


@pytest.mark.parametrize("weights", ["f32", "f16", "bf16", "q8_0"])
def test_a_gguf_holds_the_weights_in_the_numbers_asked_for(tmp_path, model, task, weights):
    made = exported(model, "llama-cpp", tmp_path, source=str(task), weights=weights)
    findings = made.to_dict()["findings"]
    assert findings["weights"] == weights
    assert findings["encoding"]["prompts"]["texts"] == 100
    read = {t.name: t for t in gguf.GGUFReader(tmp_path / "model.gguf").tensors}
    state = AutoModelForCausalLM.from_pretrained(model).state_dict()
    for theirs, ours in {
        "token_embd.weight": "model.embed_tokens.weight",
        "blk.1.ffn_down.weight": "model.layers.1.mlp.down_proj.weight",
        "blk.0.attn_k.bias": "model.layers.0.self_attn.k_proj.bias",
    }.items():
        tensor, expected = read[theirs], state[ours].float().numpy()
        kind = "f32" if expected.ndim == 1 else weights
        assert tensor.tensor_type.name == kind.upper()
        found = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        worst = {"f32": 0, "f16": 1e-3, "bf16": 1e-2, "q8_0": 1e-2}[kind]
        assert np.abs(found - expected).max() <= worst * np.abs(expected).max()
