"""Settings of generation_config.json, and outputs with special tokens, as in transformers."""

from typing import Any

import pytest
import torch
from tokenizers import AddedToken
from transformers import AutoTokenizer, PreTrainedTokenizerBase, RepetitionPenaltyLogitsProcessor

import tasc
from tasc.decoding.core.grammar import Grammar
from tasc.decoding.tokenizers import fast_tokenizer as in_our_form
from tasc.decoding.tokenizers import speller_of
from tasc.errors import InputError
from tasc.options.constraint import Constraint
from tasc.tokenizer.loaded import load_tokenizer
from tasc.tokenizer.output_text import OutputText
from tests.pico import build_model, make_tokenizer

SPECIAL = ["<tool_call>", "</tool_call>", "<s>", "</think>", "<|im_start|>", "<|im_end|>"]
TOKENS = 24
DRAFTERS = ("ar", "tasc-spec:p_min=1,budget=12", "recycling:budget=9")
SETTINGS: dict[str, dict[str, Any]] = {
    "penalty": {"repetition_penalty": 1.3},
    "n-grams": {"no_repeat_ngram_size": 2},
    "prompt": {"encoder_repetition_penalty": 50.0, "encoder_no_repeat_ngram_size": 2},
    "words": {"bad_words_ids": [[7], [9, 300]], "suppress_tokens": [*range(100, 200)]},
    "beginning": {"begin_suppress_tokens": [*range(20, 300)], "min_new_tokens": 12},
    "ends": {"eos_token_id": [0, *range(1, 320, 3)], "min_length": 20},
    "last": {"forced_eos_token_id": 5, "exponential_decay_length_penalty": (3, 1.1)},
    "bias": {"sequence_bias": [[[11], 8.0], [[12, 13], -5.0]], "renormalize_logits": True},
    "sampling": {"do_sample": True, "temperature": 0.7, "top_k": 20, "repetition_penalty": 1.05},
}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory) -> PreTrainedTokenizerBase:
    """The tiny tokenizer with special tokens, of which <|im_end|> ends a turn."""
    folder = make_tokenizer(tmp_path_factory.mktemp("special"), size=314)
    found = AutoTokenizer.from_pretrained(folder)
    found.add_special_tokens({"additional_special_tokens": SPECIAL})
    found.eos_token = "<|im_end|>"
    assert len(found) == 320
    return found


@pytest.fixture
def model():
    return build_model("llama", tied=False)


def continued(model, ids, **options):
    options = {"do_sample": False} | options
    out = model.generate(torch.tensor([ids]), max_new_tokens=TOKENS, **options)
    return out[0, len(ids) :].tolist()


PROMPTS = [[5, 6, 7, 8, 9, 300], [1], [40, 41, 40, 41, 40, 41, 40]]


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("size", [1, 3])
def test_the_models_settings_apply_as_in_generate(model, tokenizer, settings, size):
    tokenizer.eos_token = "<|endoftext|>"
    for name, value in settings.items():
        setattr(model.generation_config, name, value)
    expected = [continued(model, ids) for ids in PROMPTS]
    plain = {name: None for name in settings if name != "eos_token_id"}
    assert size == 3 or expected != [continued(model, ids, **plain) for ids in PROMPTS]
    for drafter in DRAFTERS:
        given: dict[str, Any] = {"max_new_tokens": TOKENS, "batch_size": size}
        done = tasc.generate(model, tokenizer, PROMPTS, drafter, expected, **given)
        assert [one.tokens.tolist() for one in done] == expected, drafter
    method = tasc.custom_generate("tasc-spec:p_min=1", expected)
    assert continued(model, PROMPTS[0], custom_generate=method) == expected[0]


@pytest.mark.parametrize(
    "neutral",
    [
        {"repetition_penalty": 1.0, "no_repeat_ngram_size": 0, "bad_words_ids": None},
        {"temperature": 1.0, "top_p": 1.0, "top_k": 50, "min_p": 0, "do_sample": False},
        {"num_beams": 1, "num_return_sequences": 1, "length_penalty": 1.0, "early_stopping": False},
        {"suppress_tokens": [], "min_length": 0, "min_new_tokens": None, "stop_strings": None},
    ],
)
def test_settings_without_an_effect_are_accepted(model, tokenizer, neutral):
    expected = continued(model, PROMPTS[0])
    for name, value in neutral.items():
        setattr(model.generation_config, name, value)
    (stated,) = tasc.generate(model, tokenizer, PROMPTS[:1], max_new_tokens=TOKENS)
    model.generation_config = build_model("llama").generation_config
    (given,) = tasc.generate(model, tokenizer, PROMPTS[:1], max_new_tokens=TOKENS, **neutral)
    assert stated.tokens.tolist() == given.tokens.tolist() == expected
    method = tasc.custom_generate("tasc-spec:p_min=1", [expected])
    neutral = {name: value for name, value in neutral.items() if value is not None}
    assert continued(model, PROMPTS[0], custom_generate=method, **neutral) == expected


def test_an_argument_replaces_the_setting_of_the_model(model, tokenizer):
    model.generation_config.repetition_penalty = 1.3
    cases: tuple[dict[str, Any], ...] = ({"repetition_penalty": 1.6}, {"repetition_penalty": None})
    for given in cases:
        (done,) = tasc.generate(model, tokenizer, PROMPTS[:1], max_new_tokens=TOKENS, **given)
        assert done.tokens.tolist() == continued(model, PROMPTS[0], **given)
    own = [RepetitionPenaltyLogitsProcessor(2.0)]  # replaces the model's, as in generate
    expected = continued(model, PROMPTS[0], logits_processor=own)
    (done,) = tasc.generate(model, tokenizer, PROMPTS[:1], max_new_tokens=TOKENS, processors=own)
    assert done.tokens.tolist() == expected


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"num_beams": 4}, "num_beams=4: leave it out"),
        ({"temperature": 0.7}, r"temperature=0.7: pass sampling=tasc.Sampling"),
        ({"max_length": 30}, "pass max_new_tokens instead"),
        ({"stop_strings": ["a"]}, "pass stop instead"),
        ({"repetition_penalty": -1.0}, "transformers refuses repetition_penalty=-1.0"),
        ({"bad_words_ids": [[99999]]}, "transformers refuses bad_words_ids=.*biased: .99999"),
        ({"sequence_bias": [[[1, 99999], 2.0]]}, "transformers refuses sequence_bias"),
    ],
)
def test_what_is_not_applied_is_refused(model, tokenizer, given, message):
    with pytest.raises(InputError, match=message):
        tasc.generate(model, tokenizer, PROMPTS, **given)
    with pytest.raises(TypeError, match="unexpected keyword argument 'beams'"):
        tasc.generate(model, tokenizer, PROMPTS, beams=1)  # type: ignore[call-arg]


def forced(model, tokens: list[int], prompt: int):
    """Return a processor that makes a model write ``tokens`` after ``prompt`` tokens."""

    def process(ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        at = ids.shape[1] - prompt
        if at < len(tokens):
            scores[:, tokens[at]] = 1e4
        return scores

    return process


@pytest.mark.parametrize(
    ("text", "stops"),
    [
        ("call <tool_call>now</tool_call> then", ["<tool_call>"]),
        ("call <tool_call>now</tool_call> then", ["_call>no"]),
        ("call <tool_call>now</tool_call> then", ["never", "w</tool", "then"]),
        ("<tool_call>now", ["<tool_call>"]),
        ("a bébé says <s>é</s>", ["é says"]),
        ("wake me<|im_end|>", ["<|im_end|>"]),
        ("wake me", ["newa"]),  # begins in the prompt
    ],
)
@pytest.mark.parametrize("drafter", DRAFTERS[:2])
def test_outputs_stop_as_in_transformers(model, tokenizer, text, stops, drafter):
    tokenizer.eos_token = "<|im_end|>"
    prompt, body = (tokenizer(part)["input_ids"] for part in ("at nine", text))
    processor = forced(model, body, len(prompt))
    ends = [0, tokenizer.eos_token_id]
    given = {"logits_processor": [processor], "tokenizer": tokenizer, "eos_token_id": ends}
    expected = continued(model, prompt, stop_strings=stops, **given)
    assert len(expected) <= len(body)
    own: dict[str, Any] = {"stop": stops, "processors": [processor], "max_new_tokens": TOKENS}
    (done,) = tasc.generate(model, tokenizer, [prompt], drafter, [body], **own)
    assert done.tokens.tolist() == expected
    assert done.generation.finish == "stop"
    before = min((text.index(s) for s in stops if s in text), default=0)
    assert done.text == text[:before]


def test_special_tokens_inside_an_output_are_kept(model, tokenizer):
    tokenizer.eos_token = "<|im_end|>"
    text = '<s>a</s> <tool_call>{"a": "<|im_start|>"}</tool_call></think>'
    prompt, body = [5, 6, 7], tokenizer(text)["input_ids"]
    assert set(SPECIAL[:5]) <= set(tokenizer.convert_ids_to_tokens(body))
    processor = forced(model, [*body, tokenizer.eos_token_id], len(prompt))
    more: dict[str, Any] = {"processors": [processor], "max_new_tokens": 60}
    (done,) = tasc.generate(model, tokenizer, [prompt], corpus=[text], **more)
    assert done.text == text
    assert done.generation.finish == "end"
    (cut,) = tasc.generate(model, tokenizer, [prompt], **more | {"max_new_tokens": 1})
    assert cut.text == "<s>"


def test_constraints_let_special_tokens_write_their_text(tokenizer, tmp_path):
    tokenizer.save_pretrained(tmp_path)
    loaded = load_tokenizer(str(tmp_path))
    end = loaded.tokenizer.token_to_id("<|im_end|>")
    label = "<tool_call>a</tool_call>"
    for constraint in (
        Constraint.of_strings([label, "no"]),
        Constraint("regex", r"<tool_call>[a-z]</tool_call>|no", "regex"),
    ):
        grammar = Grammar(constraint, loaded, (end,))
        ids = loaded.encode([label]).tokens.tolist()
        assert len(ids) == 3
        assert grammar.accepts([*ids, end])
        assert grammar.accepts([*loaded.encode(["no"]).tokens.tolist(), end])
        assert not grammar.accepts([*ids, ids[0], end])
        assert grammar.forced(grammar.matcher()) == ()


def test_a_text_ends_before_end_tokens_only(tokenizer):
    tokenizer.eos_token = "<|im_end|>"
    start, end, other = (tokenizer.convert_tokens_to_ids(t) for t in ("<s>", "<|im_end|>", "a"))
    for form in (tokenizer, tokenizer.backend_tokenizer):
        text = OutputText.of(form, (end, 0))
        assert text([start, other, start]) == "<s>a<s>"
        assert text([other, end, 0, end]) == "a"
        assert text([other, end, other]) == "a<|im_end|>a"
        assert text.writable([other, end, other]) == "a"
        assert text([end]) == text([]) == ""


def test_the_bytes_of_tokens_are_those_of_running_text(tokenizer):
    spell, known = speller_of(tokenizer), in_our_form(tokenizer)
    assert known is not None
    assert spell(10**6) == b""
    for text in ("a bébé <tool_call>é</tool_call>", "  two"):
        ids = tokenizer(text)["input_ids"]
        assert b"".join(map(spell, ids)).decode() == text
        assert [known.spellings()[token] for token in ids] == [spell(token) for token in ids]


def test_lstrip_tokens_are_spelt_by_their_content(tokenizer, tmp_path):
    tokenizer.save_pretrained(tmp_path)
    other = AutoTokenizer.from_pretrained(tmp_path)
    other.add_tokens([AddedToken("<strip>", lstrip=True, rstrip=True, special=True)])
    ids = other("a <strip> b")["input_ids"]
    assert b"".join(map(speller_of(other), ids)).decode() == OutputText.of(other, ())(ids)
