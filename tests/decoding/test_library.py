"""The library's own calls on a vanilla transformers model, and what is left of it afterwards."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer, DynamicCache, StoppingCriteriaList, StopStringCriteria

import tasc
from tasc.decoding.core.resources import end_ids
from tasc.errors import InputError
from tasc.models.static import target_from_model
from tests.pico import ARCHITECTURES, TEXTS, build_model, make_tokenizer

PROMPTS = [text.split("\n")[0] for text in TEXTS]


@pytest.fixture(scope="module", params=ARCHITECTURES)
def model(request):
    return build_model(request.param)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    folder = make_tokenizer(tmp_path_factory.mktemp("tokenizer"))
    return AutoTokenizer.from_pretrained(folder, padding_side="left")


def theirs(model, inputs, **options):
    options = {"max_new_tokens": 24, "do_sample": False} | options
    return model.generate(**inputs, **options)


@pytest.mark.parametrize("drafter", ["ar", "tasc-spec:p_min=1"])
def test_generate_gives_what_transformers_gives(model, tokenizer, drafter):
    expected = []
    for prompt in PROMPTS:
        inputs = tokenizer(prompt, return_tensors="pt")
        expected.append(theirs(model, inputs)[0, inputs["input_ids"].shape[1] :].tolist())
    corpus = None if drafter == "ar" else expected
    done = tasc.generate(model, tokenizer, PROMPTS, drafter, corpus, max_new_tokens=24)
    assert [c.tokens.tolist() for c in done] == expected
    assert [c.text for c in done] == [
        tokenizer.decode(e, skip_special_tokens=True) for e in expected
    ]
    if drafter != "ar":
        assert sum(sum(c.generation.accepted) for c in done) > 0
    assert all(len(c.timeline.steps) == len(c.generation.accepted) for c in done)


def test_prompts_that_begin_alike_give_what_each_gives_alone(model, tokenizer):
    prompts = [f"{PROMPTS[0]} and {prompt}" for prompt in PROMPTS]
    done = tasc.generate(model, tokenizer, prompts, max_new_tokens=12)
    for prompt, together in zip(prompts, done, strict=True):
        (alone,) = tasc.generate(model, tokenizer, [prompt], max_new_tokens=12)
        assert together.tokens.tolist() == alone.tokens.tolist()


def test_a_corpus_of_texts_no_corpus_and_prompts_of_ids_give_the_same(model, tokenizer):
    ids = [tokenizer(p)["input_ids"] for p in PROMPTS]
    plain = tasc.generate(model, tokenizer, PROMPTS, "ar", max_new_tokens=12)
    texts = tasc.generate(model, tokenizer, ids, corpus=TEXTS, max_new_tokens=12)
    alone = tasc.generate(model, tokenizer, PROMPTS, max_new_tokens=12)
    assert [c.text for c in texts] == [c.text for c in alone] == [c.text for c in plain]


def test_drafts_end_with_the_tokenizers_end_token_among_several(model, tokenizer, monkeypatch):
    end, others = tokenizer.eos_token_id, [5, 7]
    monkeypatch.setattr(model.generation_config, "eos_token_id", [others[0], end, others[1]])
    assert end_ids(model, tokenizer.eos_token_id) == (end, *others)
    method = tasc.custom_generate("tasc-spec:p_min=1", [[1, 2]], tokenizer)
    theirs(model, tokenizer(PROMPTS[0], return_tensors="pt"), custom_generate=method)
    assert list(method.factories) == [end]


def test_stop_strings_are_left_out_of_the_text(model, tokenizer):
    whole = tasc.generate(model, tokenizer, PROMPTS[:1], max_new_tokens=24)[0].text
    stop = next(whole[i : i + 2] for i in range(6, len(whole)) if whole[i : i + 2].isascii())
    done = tasc.generate(model, tokenizer, PROMPTS[:1], max_new_tokens=24, stop=[stop])[0]
    assert done.text == whole[: whole.index(stop)]
    assert done.generation.finish == "stop"


def test_sampling_depends_on_the_seed_and_the_prompt_alone(model, tokenizer):
    def run(seed, drafter="ar"):
        sampling = tasc.Sampling(1.5, seed=seed)
        same = [PROMPTS[0]] * 2
        done = tasc.generate(model, tokenizer, same, drafter, max_new_tokens=12, sampling=sampling)
        return [c.tokens.tolist() for c in done]

    assert run(1) == run(1)
    assert run(1) != run(2)
    first, second = run(1)
    assert first != second


@pytest.mark.parametrize("drafter", ["ar", "tasc-spec:p_min=1"])
def test_batches_obey_the_rules_of_each_prompt(model, tokenizer, drafter):
    from transformers import RepetitionPenaltyLogitsProcessor

    plain = tasc.generate(model, tokenizer, PROMPTS, "ar", max_new_tokens=24)
    stop = next(
        plain[0].text[i : i + 2] for i in range(6, 20) if plain[0].text[i : i + 2].isascii()
    )
    cases: tuple[dict[str, Any], ...] = (
        {"stop": [stop]},
        {"sampling": tasc.Sampling(1.5, top_k=50, seed=3)},
        {"sampling": tasc.Sampling(0.7, seed=3), "stop": [stop]},
        {"processors": [RepetitionPenaltyLogitsProcessor(1.5)]},
    )
    for case in cases:
        corpus = [c.tokens.tolist() for c in plain]
        options: dict[str, Any] = {"corpus": corpus, "max_new_tokens": 24, **case}
        alone = tasc.generate(model, tokenizer, PROMPTS, drafter, **options)
        streams = [[] for _ in PROMPTS]
        listeners = [lambda t, s=s: s.extend(t.tolist()) for s in streams]
        together = tasc.generate(
            model, tokenizer, PROMPTS, drafter, **options, batch_size=3, on_tokens=listeners
        )
        assert [c.text for c in together] == [c.text for c in alone]
        assert [c.tokens.tolist() for c in together] == streams
        assert [c.generation.finish for c in together] == [c.generation.finish for c in alone]


def test_an_adaptive_budget_is_obeyed_alone_and_in_batches(model, tokenizer, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    plain = tasc.generate(model, tokenizer, PROMPTS, "ar", max_new_tokens=24)
    auto = "tasc-spec:p_min=1,budget=auto"
    for size in (1, 2):
        found = tasc.generate(
            model, tokenizer, PROMPTS, auto, TEXTS, max_new_tokens=24, batch_size=size
        )
        assert [c.text for c in found] == [c.text for c in plain]
    assert list((tmp_path / "tasc").glob("cost-*.json"))
    for listeners, message in ((print, "one per prompt"), ([print], "and 1 on_tokens")):
        with pytest.raises(InputError, match=message):
            tasc.generate(model, tokenizer, PROMPTS, batch_size=2, on_tokens=listeners)


def test_the_model_is_given_back_as_it_was(model, tokenizer):
    model.train()
    own = model.config._attn_implementation
    model.model.layers[0].eval()
    modes = [m.training for m in model.modules()]
    tasc.generate(model, tokenizer, PROMPTS[:1], max_new_tokens=3)
    assert model.config._attn_implementation == own != "tasc"
    assert [m.training for m in model.modules()] == modes
    with pytest.raises(InputError, match="no tokens"):
        tasc.generate(model, tokenizer, [[]])
    assert model.config._attn_implementation == own
    with target_from_model(model) as target:
        assert target.model.config._attn_implementation == "tasc"
    model.eval()


def test_the_draft_model_is_given_back_as_it_was(model, tokenizer):
    draft = build_model("llama").train()
    own = draft.config._attn_implementation
    tasc.generate(
        model,
        tokenizer,
        PROMPTS[:1],
        "standard",
        max_new_tokens=3,
        draft_model=draft,
        draft_tokenizer=tokenizer,
    )
    assert draft.config._attn_implementation == own != "tasc"
    assert all(m.training for m in draft.modules())


CASES = {
    "greedy": {},
    "repetition": {"repetition_penalty": 1.5, "no_repeat_ngram_size": 2},
    "shortest": {"min_new_tokens": 9, "eos_token_id": list(range(300))},
    "end": {"eos_token_id": list(range(0, 320, 5))},
}


@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_custom_generate_returns_what_generate_returns(model, tokenizer, options):
    inputs = tokenizer(PROMPTS, return_tensors="pt", padding=True)
    expected = theirs(model, inputs, **options)
    method = tasc.custom_generate("tasc-spec:p_min=1,budget=12", expected.tolist())
    found = theirs(model, inputs, custom_generate=method, **options)
    assert torch.equal(found, expected)
    assert sum(sum(g.accepted) for g in method.generations) > 0
    assert len(method.generations) == len(PROMPTS)
    as_object = theirs(
        model, inputs, custom_generate=method, return_dict_in_generate=True, **options
    )
    assert torch.equal(as_object.sequences, expected)


def test_custom_generate_obeys_stopping_criteria(model, tokenizer):
    inputs = tokenizer(PROMPTS[0], return_tensors="pt")
    length = inputs["input_ids"].shape[1]
    said = tokenizer.decode(theirs(model, inputs)[0, length:])
    stop = next(said[i : i + 2] for i in range(5, len(said)) if said[i : i + 2].isascii())
    rules = StoppingCriteriaList([StopStringCriteria(tokenizer, [stop])])
    expected = theirs(model, inputs, stopping_criteria=rules)
    method = tasc.custom_generate("tasc-spec:p_min=1", [expected[0, length:].tolist()])
    found = theirs(model, inputs, stopping_criteria=rules, custom_generate=method)
    assert torch.equal(found, expected)
    assert expected.shape[1] < length + 24


def test_custom_generate_samples_with_torchs_seed(model, tokenizer):
    inputs = tokenizer(PROMPTS[0], return_tensors="pt")

    def run(seed, **options):
        torch.manual_seed(seed)
        method = tasc.custom_generate()
        options = {"do_sample": True, "num_return_sequences": 3} | options
        return theirs(model, inputs, custom_generate=method, **options)

    with torch.random.fork_rng():
        first = run(1, temperature=2.0)
        assert torch.equal(first, run(1, temperature=2.0))
        assert not torch.equal(first, run(2, temperature=2.0))
        assert not torch.equal(first[0], first[1])
        # Sampling among one token is greedy: the warpers of generate are obeyed.
        assert torch.equal(run(1, top_k=1)[:1], theirs(model, inputs))


def test_custom_generate_refuses_what_it_would_do_differently(model, tokenizer):
    inputs = tokenizer(PROMPTS[0], return_tensors="pt")
    for options, message in (
        ({"num_beams": 2}, "num_beams=2"),
        ({"return_dict_in_generate": True, "output_scores": True}, "remove output_scores"),
    ):
        with pytest.raises(InputError, match=message):
            theirs(model, inputs, custom_generate=tasc.custom_generate(), **options)
    cache = DynamicCache(config=model.config)
    with torch.inference_mode():
        model(input_ids=inputs["input_ids"][:, :-1], past_key_values=cache)
    with pytest.raises(InputError, match="remove past_key_values"):
        theirs(model, inputs, past_key_values=cache, custom_generate=tasc.custom_generate())


def test_wrong_arguments_are_refused(model, tokenizer):
    with pytest.raises(InputError, match="prompts is a single text"):
        tasc.generate(model, tokenizer, PROMPTS[0])
    with pytest.raises(InputError, match="corpus is a single text"):
        tasc.generate(model, tokenizer, PROMPTS, corpus=PROMPTS[0])
    with pytest.raises(InputError, match="one row of integers"):
        tasc.generate(model, tokenizer, [np.zeros((2, 2))])
    with pytest.raises(InputError, match="needs the tokenizer"):
        theirs(
            model,
            tokenizer(PROMPTS[0], return_tensors="pt"),
            custom_generate=tasc.custom_generate(corpus=TEXTS),
        )
    with pytest.raises(AttributeError, match="no attribute 'draft'"):
        _ = tasc.draft


@pytest.mark.parametrize("wrong", [320, 10**6, -1])
def test_tokens_of_another_tokenizer_are_refused(model, tokenizer, wrong):
    for prompts, corpus, where in (
        ([[1, wrong]], None, "the prompt"),
        ([[1]], [[2, wrong]], "the corpus"),
    ):
        with pytest.raises(InputError, match=f"{where} has token id {wrong}, .* 320"):
            tasc.generate(model, tokenizer, prompts, corpus=corpus, max_new_tokens=4)


def test_the_package_itself_is_light():
    code = (
        "import sys, tasc; assert 'torch' not in sys.modules; tasc.Sampling; "
        "assert 'torch' in sys.modules; assert 'transformers' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
