"""The library's own calls on a vanilla transformers model, and what is left of it afterwards."""

import subprocess
import sys
from copy import deepcopy
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    DynamicCache,
    GenerationConfig,
    RepetitionPenaltyLogitsProcessor,
    StoppingCriteriaList,
    StopStringCriteria,
)

import tasc
from tasc.decoding.core.resources import end_ids
from tasc.errors import InputError
from tasc.models.cache import cache_argument
from tasc.models.packed import is_int8, is_packed
from tasc.models.targets.borrowed import target_from_model
from tests.models.test_packed import needs_packing
from tests.pico import ARCHITECTURES, TEXTS, build_model, continued, make_base

PROMPTS = [text.split("\n")[0] for text in TEXTS]
FOREIGN = (320, 10**6, -1)  # no ids of this tokenizer
SLOW = [pytest.param(architecture, marks=pytest.mark.slow) for architecture in ARCHITECTURES[2:]]


# What is particular to an architecture is below the library's calls.
@pytest.fixture(scope="module", params=[*ARCHITECTURES[:2], *SLOW])
def model(request):
    return build_model(request.param)


@pytest.fixture(scope="module")
def ours(model, fast_tokenizer):
    """tasc.generate, of 24 tokens unless more or fewer are given."""
    return partial(tasc.generate, model, fast_tokenizer, max_new_tokens=24)


@pytest.fixture(scope="module")
def theirs(model):
    return lambda inputs, **options: model.generate(
        **inputs, **{"max_new_tokens": 24, "do_sample": False} | options
    )


@pytest.fixture(scope="module")
def one(fast_tokenizer):
    return fast_tokenizer(PROMPTS[0], return_tensors="pt")


def texts(done):
    return [completion.text for completion in done]


def tokens(done):
    return [completion.tokens.tolist() for completion in done]


def part_of(text):
    return next(text[i : i + 2] for i in range(6, len(text)) if text[i : i + 2].isascii())


@pytest.mark.parametrize("drafter", ["ar", "tasc-spec:p_min=1,budget=12"])
def test_generate_gives_what_transformers_gives(ours, theirs, fast_tokenizer, drafter):
    expected = []
    for prompt in PROMPTS:
        inputs = fast_tokenizer(prompt, return_tensors="pt")
        expected.append(theirs(inputs)[0, inputs["input_ids"].shape[1] :].tolist())
    done = ours(PROMPTS, drafter, None if drafter == "ar" else expected)
    assert tokens(done) == expected
    assert texts(done) == [fast_tokenizer.decode(e, skip_special_tokens=True) for e in expected]
    assert drafter == "ar" or sum(sum(c.generation.accepted) for c in done) > 0
    assert all(len(c.timeline.steps) == len(c.generation.accepted) for c in done)


@pytest.mark.parametrize(
    "architecture",
    [*("qwen2", "llama", "gemma", "gemma3_text", "gpt2", "lfm2")],
)
@pytest.mark.parametrize("drafter", ["ar", "tasc-spec:p_min=1,budget=12"])
def test_a_loaded_model_writes_what_transformers_writes(tmp_path, architecture, drafter):
    folder = make_base(tmp_path, architecture)
    plain = AutoModelForCausalLM.from_pretrained(folder)
    model = tasc.load(folder, "float32", device="cpu")
    ids = [np.array(AutoTokenizer.from_pretrained(folder)(p)["input_ids"]) for p in PROMPTS]
    expected = [continued(plain, prompt, 24).tolist() for prompt in ids]
    for size in (1, 3):
        options: dict[str, Any] = {"max_new_tokens": 24, "batch_size": size}
        corpus = None if drafter == "ar" else expected
        done = tasc.generate(model, model.tokenizer, PROMPTS, drafter, corpus, **options)
        assert tokens(done) == expected


def test_a_loaded_model_chooses_among_labels_like_the_models_of_transformers(base):
    labels = ["lights_off", "play_music", "weather"]
    plain, own = AutoModelForCausalLM.from_pretrained(base), AutoTokenizer.from_pretrained(base)
    model = tasc.load(base, "float32", device="cpu")
    expected = tasc.choose(plain, own, PROMPTS, labels)
    chosen = tasc.choose(model, model.tokenizer, PROMPTS, labels, batch_size=2)
    assert [c.label for c in chosen] == [e.label for e in expected]
    for one, other in zip(chosen, expected, strict=True):
        assert one.probabilities == pytest.approx(other.probabilities, rel=1e-3)


@pytest.mark.parametrize("wrong", [{"dtype": "fp32"}, {"device": "gpu"}])
def test_another_dtype_or_device_is_refused_before_anything_is_loaded(tmp_path, wrong):
    with pytest.raises(InputError, match=r"(dtype|device) is '\w+': pass 'auto' or "):
        tasc.load(tmp_path / "missing", **wrong)


def test_texts_that_are_no_unicode_are_refused(base):
    model = tasc.load(base, "float32", device="cpu")
    half = "half of a surrogate pair"
    with pytest.raises(InputError, match=half):
        tasc.generate(model, model.tokenizer, ["\ud800"])
    with pytest.raises(InputError, match=half):
        tasc.generate(model, model.tokenizer, ["a"], stop=["\ud800"])
    with pytest.raises(InputError, match=half):
        tasc.choose(model, model.tokenizer, ["a"], ["\ud800"])


@needs_packing
def test_a_loaded_model_is_packed_once_and_stays_so(base, fast_tokenizer):
    for dtype in ("float32", "int8"):
        model = tasc.load(base, dtype, device="cpu")
        assert is_packed(model.model)
        assert is_int8(model.model) == (dtype == "int8")
        before = model.ready.target
        options: dict[str, Any] = {"max_new_tokens": 8}
        first = tasc.generate(model, model.tokenizer, PROMPTS, **options)
        assert tokens(tasc.generate(model, fast_tokenizer, PROMPTS, **options)) == tokens(first)
        assert model.ready.target is before
        assert is_packed(model.model)
    with pytest.raises(InputError, match="remove graphs"):
        tasc.generate(model, fast_tokenizer, PROMPTS, graphs="auto")


def test_prompts_that_begin_alike_give_what_each_gives_alone(ours):
    prompts = [f"{PROMPTS[0]} and {prompt}" for prompt in PROMPTS]
    together = ours(prompts, max_new_tokens=12)
    assert tokens(together) == [tokens(ours([p], max_new_tokens=12))[0] for p in prompts]


def test_a_corpus_of_texts_no_corpus_and_prompts_of_ids_give_the_same(ours, fast_tokenizer):
    ids = [fast_tokenizer(p)["input_ids"] for p in PROMPTS]
    plain = texts(ours(PROMPTS, "ar", max_new_tokens=12))
    assert texts(ours(ids, corpus=TEXTS, max_new_tokens=12)) == plain
    assert texts(ours(PROMPTS, max_new_tokens=12)) == plain


def test_drafts_end_with_the_tokenizers_end_token_among_several(
    model, fast_tokenizer, theirs, one, monkeypatch
):
    end, others = fast_tokenizer.eos_token_id, [5, 7]
    monkeypatch.setattr(model.generation_config, "eos_token_id", [others[0], end, others[1]])
    assert end_ids(model, fast_tokenizer.eos_token_id) == (end, *others)
    method = tasc.custom_generate("tasc-spec:p_min=1", [[1, 2]], fast_tokenizer)
    theirs(one, custom_generate=method)
    assert list(method.factories) == [end]


def test_stop_strings_are_left_out_of_the_text(ours):
    whole = ours(PROMPTS[:1])[0].text
    stop = part_of(whole)
    (done,) = ours(PROMPTS[:1], stop=[stop])
    assert done.text == whole[: whole.index(stop)]
    assert done.generation.finish == "stop"


def test_sampling_depends_on_the_seed_and_the_prompt_alone(ours):
    def run(seed):
        sampling = tasc.Sampling(1.5, seed=seed)
        return tokens(ours([PROMPTS[0]] * 2, "ar", max_new_tokens=12, sampling=sampling))

    first, second = run(1)
    assert run(1) == [first, second] != run(2)
    assert first != second


@pytest.mark.parametrize("drafter", ["ar", "tasc-spec:p_min=1,budget=12"])
def test_batches_obey_the_rules_of_each_prompt(ours, drafter):
    plain = ours(PROMPTS, "ar")
    stop = part_of(plain[0].text)
    cases: tuple[dict[str, Any], ...] = (
        {"stop": [stop]},
        {"sampling": tasc.Sampling(1.5, top_k=50, seed=3)},
        {"sampling": tasc.Sampling(0.7, seed=3), "stop": [stop]},
        {"processors": [RepetitionPenaltyLogitsProcessor(1.5)]},
    )
    for case in cases:
        alone = ours(PROMPTS, drafter, tokens(plain), **case)
        streams = [[] for _ in PROMPTS]
        listeners = [lambda t, s=s: s.extend(t.tolist()) for s in streams]
        batched = {"batch_size": 3, "on_tokens": listeners}
        together = ours(PROMPTS, drafter, tokens(plain), **case, **batched)
        assert texts(together) == texts(alone)
        assert tokens(together) == streams
        assert [c.generation.finish for c in together] == [c.generation.finish for c in alone]


def test_an_adaptive_budget_is_obeyed_alone_and_in_batches(ours, own_cache):
    plain = texts(ours(PROMPTS, "ar"))
    for size in (1, 2):
        found = ours(PROMPTS, "tasc-spec:p_min=1,budget=auto", TEXTS, batch_size=size)
        assert texts(found) == plain
    assert list(own_cache.glob("cost-*.json"))


def test_the_models_are_given_back_as_they_were(model, fast_tokenizer, ours):
    draft = build_model("llama").train()
    model.train()
    model.model.layers[0].eval()
    modes = [m.training for m in model.modules()]
    own, others = model.config._attn_implementation, draft.config._attn_implementation
    ours(PROMPTS[:1], "standard", draft_model=draft, draft_tokenizer=fast_tokenizer)
    assert draft.config._attn_implementation == others != "tasc"
    assert all(m.training for m in draft.modules())
    assert model.config._attn_implementation == own != "tasc"
    assert [m.training for m in model.modules()] == modes
    with pytest.raises(InputError, match="no tokens"):
        ours([[]])
    assert model.config._attn_implementation == own
    with target_from_model(model) as target:
        assert target.model.config._attn_implementation == "tasc"
    model.eval()


CASES = {
    "greedy": {},
    "repetition": {"repetition_penalty": 1.5, "no_repeat_ngram_size": 2},
    "shortest": {"min_new_tokens": 9, "eos_token_id": list(range(300))},
    "end": {"eos_token_id": list(range(0, 320, 5))},
    "guidance": {"guidance_scale": 2.0},
}


@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_custom_generate_returns_what_generate_returns(theirs, fast_tokenizer, options):
    inputs = fast_tokenizer(PROMPTS, return_tensors="pt", padding=True)
    expected = theirs(inputs, **options)
    method = tasc.custom_generate("tasc-spec:p_min=1,budget=12", expected.tolist())
    options = options | {"custom_generate": method}
    assert torch.equal(theirs(inputs, **options), expected)
    assert sum(sum(g.accepted) for g in method.generations) > 0
    assert len(method.generations) == len(PROMPTS)
    as_object = theirs(inputs, return_dict_in_generate=True, **options)
    assert torch.equal(as_object.sequences, expected)


def test_custom_generate_obeys_stopping_criteria(theirs, fast_tokenizer, one):
    length = one["input_ids"].shape[1]
    stop = part_of(fast_tokenizer.decode(theirs(one)[0, length:]))
    rules = StoppingCriteriaList([StopStringCriteria(fast_tokenizer, [stop])])
    expected = theirs(one, stopping_criteria=rules)
    method = tasc.custom_generate("tasc-spec:p_min=1", [expected[0, length:].tolist()])
    assert torch.equal(theirs(one, stopping_criteria=rules, custom_generate=method), expected)
    assert expected.shape[1] < length + 24


def test_custom_generate_samples_with_torchs_seed(theirs, one):
    def run(seed, **options):
        torch.manual_seed(seed)
        sampled = {"do_sample": True, "num_return_sequences": 3}
        return theirs(one, custom_generate=tasc.custom_generate(), **sampled, **options)

    with torch.random.fork_rng():
        first = run(1, temperature=2.0)
        assert torch.equal(first, run(1, temperature=2.0))
        assert not torch.equal(first, run(2, temperature=2.0))
        assert not torch.equal(first[0], first[1])
        # Sampling among one token is greedy: the warpers of generate are obeyed.
        assert torch.equal(run(1, top_k=1)[:1], theirs(one))


def test_custom_generate_refuses_what_it_would_do_differently(model, theirs, one):
    cache, length = DynamicCache(config=model.config), one["input_ids"].shape[1]
    filled = {cache_argument(model): cache}
    with torch.inference_mode():
        model(input_ids=one["input_ids"][:, :-1], **filled)
    for options, message in (
        ({"num_beams": 2}, "num_beams=2"),
        ({"return_dict_in_generate": True, "output_scores": True}, "remove output_scores"),
        (filled, f"remove {cache_argument(model)}"),
        ({"position_ids": 2 * torch.arange(length)[None]}, "remove position_ids"),
        ({"custom_generate": tasc.custom_generate(corpus=TEXTS)}, "needs the tokenizer"),
    ):
        with pytest.raises(InputError, match=message):
            theirs(one, **{"custom_generate": tasc.custom_generate()} | options)
    ids, config = one["input_ids"], GenerationConfig(num_beams=1)
    with pytest.raises(InputError, match="does not pass pixel_values"):
        tasc.custom_generate()(model, ids, generation_config=config, pixel_values=ids)


@pytest.mark.parametrize(("end", "message"), [(None, "end token"), ("<end>", "token id 320")])
def test_a_corpus_and_labels_need_an_end_token_of_the_model(
    model, fast_tokenizer, end, message, monkeypatch
):
    other = deepcopy(fast_tokenizer)
    other.add_tokens(["<end>"])
    monkeypatch.setattr(model.generation_config, "eos_token_id", None)
    other.eos_token = end
    with pytest.raises(InputError, match=message):
        tasc.generate(model, other, PROMPTS, corpus=TEXTS, max_new_tokens=2)
    with pytest.raises(InputError, match=message):
        tasc.choose(model, other, PROMPTS, ["a", "b"])


@pytest.mark.parametrize(
    ("prompts", "options", "message"),
    [
        (PROMPTS[0], {}, "prompts is a single text"),
        (PROMPTS, {"corpus": PROMPTS[0]}, "corpus is a single text"),
        ([np.zeros((2, 2))], {}, "one row of integers"),
        ([[2**32 + 5]], {}, "below 2.31, got int64"),
        (PROMPTS, {"batch_size": 2, "on_tokens": print}, "one per prompt"),
        (PROMPTS, {"batch_size": 2, "on_tokens": [print]}, "and 1 on_tokens"),
        *(([[1, i]], {}, f"the prompt has token id {i}, .* 320") for i in FOREIGN),
        *(([[1]], {"corpus": [[2, i]]}, f"the corpus .* token id {i}, .* 320") for i in FOREIGN),
    ],
)
def test_wrong_arguments_are_refused(ours, prompts, options, message):
    with pytest.raises(InputError, match=message):
        ours(prompts, **options)


def test_the_package_itself_is_light():
    code = (
        "import sys, tasc; assert 'torch' not in sys.modules; tasc.Sampling; "
        "assert 'torch' in sys.modules; assert 'transformers' not in sys.modules; "
        "assert not hasattr(tasc, 'draft')"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
