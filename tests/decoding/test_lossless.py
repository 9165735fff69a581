"""The specification of the project: drafters, verifiers and batch sizes keep the output."""

from functools import cache, partial
from itertools import product
from typing import Any

import numpy as np
import pytest

from tasc.decoding.core.sampling import Sampling
from tasc.decoding.core.settings import processors_of
from tasc.decoding.decode import Request, generate_all
from tasc.decoding.drafters import DRAFTERS, parse
from tasc.decoding.drafters.none import Autoregressive
from tasc.decoding.verify import greedy, verifier
from tasc.models.folder.generation import GenerationSettings
from tasc.models.packed import DTYPES, pack
from tasc.models.static import StaticTarget
from tasc.models.target import Target
from tasc.models.targets.fastest import target_for
from tests.decoding.heads import save_taught
from tests.decoding.outputs import lists, misleading, random_prompts, resources_of
from tests.models.test_packed import needs_packing
from tests.pico import ARCHITECTURES, OTHERS, build_model, continued
from tests.tiers import spread

MORE = {  # settings that reach what the defaults do not; every other method runs as it is
    "tasc-spec": [
        "tasc-spec",
        "tasc-spec:width=1,budget=7",
        "tasc-spec:width=2,budget=33,lambda=0.5,min_probability=0",
        "tasc-spec:budget=70,min_probability=0",
        "tasc-spec:p_min=3,n_max=2,min_probability=0.2",
        "tasc-spec:memory=60,corpus=false",
        "tasc-spec:adapt=false,match=false",
        "tasc-spec:logits=false",
    ],
    "tasc-spec-paper": ["tasc-spec-paper:p_min=1", "tasc-spec-paper:mark=true,width=3,budget=20"],
    "prompt": ["prompt:min_probability=0,budget=20"],
    "prompt-lookup": ["prompt-lookup", "prompt-lookup:n_max=1,chain=0,budget=5"],
    "ngram-trie": ["ngram-trie:budget=30", "ngram-trie:n=3,prefix=1,num_draft=2"],
    "suffix": ["suffix", "suffix:longest=3,min_probability=0.3,budget=40"],
    "recycling": ["recycling", "recycling:rows=40,renewal=1,budget=30"],
    "ngrammys": ["ngrammys", "ngrammys:k=3,width=4,context=false,budget=9"],
    "eagle": ["eagle", "eagle:depth=3,width=4,budget=9", "eagle:depth=1,budget=5"],
    "fr-spec": ["fr-spec:size=100", "fr-spec:size=7,width=9,depth=9,budget=33"],
    "microspec": [
        "microspec",
        "microspec:window=20,k_ver=1,k_pre=0,tree=false,budget=20",
        "microspec:context=false,frequent=9,fill=true",
        "microspec:extension=false,width=4",
    ],
    "mix": ["mix", "mix:always=true,depth=3,width=4,budget=20", "mix:always=true,size=100"],
    "slem": ["slem", "slem:lookahead=3,confidence=0"],
    "slrs": ["slrs:confidence=0,budget=4", "slrs:floor=0,nodes=3,budget=5,size=200"],
    "tli": ["tli:confidence=0", "tli:lookahead=2"],
    "union": ["union:confidence=0,lookahead=4"],
    "standard": ["standard:confidence=0,lookahead=4", "standard:size=150,confidence=0,lookahead=4"],
}
# Drafts of a grammar alone need one: test_constrained.py
VARIANTS = {name: MORE.get(name, [name]) for name in DRAFTERS if name != "grammar"}
METHODS = [v for variants in VARIANTS.values() for v in variants]
# What the other architectures are tried with, which is enough to run all that is theirs.
FEW = [
    "ar",
    "tasc-spec:width=2,budget=33,lambda=0.5,min_probability=0",
    "recycling:budget=20",
    "prompt:min_probability=0,budget=20",
    "eagle:depth=3,width=4,budget=9",
    "tli:confidence=0,lookahead=4",
    "mix:always=true,depth=3,width=4,budget=9",
]
# A state of each kind: a window, a recurrence, one beside attention, one outside the cache.
HYBRIDS = ("lfm2", "qwen3_5_text", "falcon_h1", "recurrent_gemma")
PAIRS = [
    *product(ARCHITECTURES, METHODS),
    *product((*OTHERS, *HYBRIDS), FEW),
]
SAMPLING = Sampling(0.7, top_k=3, seed=3)
# Each verifier and batch size; shapes are static, as for CUDA graphs, once with each of both.
LOOPS = [
    (None, 1, "dynamic"),
    (None, 8, "static"),
    (SAMPLING, 8, "dynamic"),
    (SAMPLING, 1, "static"),
]
NEW_TOKENS = 32
PROMPTS = random_prompts(1, 5, 17, 40)
# What drafts well enough here that nothing accepted would be a sign of a wrong cache.
HITS = {"tasc-spec", "corpus", "suffix", "tli", "union", "standard", "slrs", "eagle",
        "fr-spec", "microspec", "mix"}  # fmt: skip


def written_by(architecture, folder, make):
    """Return a target, transformers' own greedy outputs, and a head that learnt them."""
    model = build_model(architecture, tied=False)
    outputs = [continued(model, prompt, NEW_TOKENS) for prompt in PROMPTS]
    head = save_taught(model, PROMPTS, outputs, folder)
    return make(model), outputs, head


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    make = partial(target_for, graphs="off")
    return cache(lambda name: written_by(name, tmp_path_factory.mktemp("head"), make))


@pytest.fixture(scope="module", params=DTYPES, ids=str)
def int8_case(request, tmp_path_factory):

    def packed(model):
        pack(model.to(request.param), int8=True)
        return Target(model)

    return written_by("llama", tmp_path_factory.mktemp("head"), packed)


def test_every_setting_here_is_of_a_method_that_there_is():
    assert set(MORE) <= set(DRAFTERS)


def decode(target, prompts, method=None, factory=Autoregressive, sampling=None, size=1):
    """Decode the prompts with a method, or plainly; greedily unless ``sampling``."""
    asked = [
        Request(prompt, factory, verifier("sampled", sampling) if sampling else greedy)
        for prompt in prompts
    ]
    limits: dict[str, Any] = {"max_new_tokens": NEW_TOKENS, "end_ids": (0,), "batch_size": size}
    return generate_all(target, asked, budget=method.budget if method else 0, **limits)


@cache
def sampled(target):
    """Return what the target samples after each of the prompts without drafts."""
    return [g.tokens for g in decode(target, PROMPTS, sampling=SAMPLING)]


@spread("architecture, text, sampling, size, keys", PAIRS, LOOPS, every=4)
def test_output_is_that_of_plain_decoding(
    case, architecture, text, sampling, size, keys, tokenizer
):
    """Greedy outputs are those of transformers' own ``generate``."""
    target, outputs, head = case(architecture)
    outputs = sampled(target) if sampling else outputs
    assert len(np.unique(np.concatenate(outputs))) > 20, "outputs repeat a few tokens"
    if keys == "static" and not target.chains_only:
        target = StaticTarget(target.model, graphs=False)
    method = parse(text)
    # Most of the corpus is what the model says, so that drafts are accepted; the rest misleads.
    given = {"draft_head": head, "sampling": sampling}
    factory = method.prepare(resources_of(target, tokenizer, misleading(outputs), **given))
    times = 1 if size == 1 else 2  # there are four prompts
    done = decode(target, PROMPTS * times, method, factory, sampling, size)
    assert lists(done) == lists(outputs * times)
    for result in done:
        assert result.decoding_steps == len(result.accepted) + 1
        assert sum(result.accepted) + len(result.accepted) == len(result.tokens) - result.prefilled
    if method.name in HITS and not sampling:
        accepted = sum(sum(g.accepted) + g.prefilled - 1 for g in done)
        assert accepted > 0, "nothing was accepted: the test would not notice a wrong cache"


@spread("text, size", METHODS, [1, 8], every=4)
def test_settings_of_generate_apply_with_any_draft(case, text, size, tokenizer):
    """A repetition penalty and no repeated n-gram, as transformers' own ``generate`` has them."""
    target, _, head = case("llama")
    stated = {"repetition_penalty": 1.3, "no_repeat_ngram_size": 3, "min_new_tokens": 9}
    with target.untouched() as model:
        outputs = [continued(model, p, NEW_TOKENS, eos_token_id=0, **stated) for p in PROMPTS]
    settings, method = GenerationSettings.of(stated), parse(text)
    more = {"draft_head": head}
    factory = method.prepare(resources_of(target, tokenizer, misleading(outputs), **more))
    asked = [
        Request(p, factory, processors=processors_of(settings, target.model, p, NEW_TOKENS, [0]))
        for p in PROMPTS
    ]
    limits: dict[str, Any] = {"max_new_tokens": NEW_TOKENS, "end_ids": (0,), "batch_size": size}
    assert lists(generate_all(target, asked, budget=method.budget, **limits)) == lists(outputs)


@needs_packing
@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("text", FEW)
def test_greedy_output_in_8_bits_equals_plain_decoding(int8_case, text, size, tokenizer):
    target, _, head = int8_case
    plain = [g.tokens for g in decode(target, PROMPTS, size=size)]
    method = parse(text)
    factory = method.prepare(resources_of(target, tokenizer, plain, draft_head=head))
    assert lists(decode(target, PROMPTS, method, factory, size=size)) == lists(plain)
