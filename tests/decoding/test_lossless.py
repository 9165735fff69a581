"""The specification of the project: every method × architecture gives autoregressive output."""

from functools import cache, partial
from typing import Any

import numpy as np
import pytest

from tasc.decoding.core.sampling import Sampling
from tasc.decoding.decode import Request, generate_all
from tasc.decoding.drafters import DRAFTERS, parse
from tasc.decoding.drafters.none import Autoregressive
from tasc.decoding.verify import greedy, verifier
from tasc.models.packed import DTYPES, pack
from tasc.models.static import StaticTarget, target_for
from tasc.models.target import Target
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
EVERY = [*ARCHITECTURES, *OTHERS, *HYBRIDS]
NEW_TOKENS, FEW_TOKENS = 40, 20
PROMPTS = random_prompts(1, 5, 17, 40)
SAMPLING = Sampling(0.7, top_k=3, seed=3)
# What drafts well enough here that nothing accepted would be a sign of a wrong cache.
HITS = {"tasc-spec", "corpus", "suffix", "ngrammys", "tli", "union", "standard", "slrs", "eagle",
        "fr-spec", "microspec", "mix"}  # fmt: skip


def written_by(architecture, folder, make=Target, new_tokens=NEW_TOKENS, **options):
    """Return a target, prompts, transformers' own greedy outputs, and a head that learnt them."""
    model = build_model(architecture, **options)
    outputs = [continued(model, prompt, new_tokens) for prompt in PROMPTS]
    head = save_taught(model, PROMPTS, outputs, folder)
    return make(model), PROMPTS, outputs, head


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    """From an architecture to what is written by it."""
    return cache(lambda name: written_by(name, tmp_path_factory.mktemp("head")))


@pytest.fixture(scope="module")
def any_case(tmp_path_factory):
    """As ``case``, of more architectures."""
    few = {"make": partial(target_for, graphs="off"), "new_tokens": FEW_TOKENS, "tied": False}
    return cache(lambda name: written_by(name, tmp_path_factory.mktemp("head"), **few))


@pytest.fixture(scope="module", params=DTYPES, ids=str)
def int8_case(request, tmp_path_factory):
    """What is written by a model whose weights have 8 bits."""

    def packed(model):
        pack(model.to(request.param), int8=True)
        return Target(model)

    return written_by("llama", tmp_path_factory.mktemp("head"), packed, tied=False)


def test_every_setting_here_is_of_a_method_that_there_is():
    assert set(MORE) <= set(DRAFTERS)


def decode(target, prompts, method=None, factory=Autoregressive, *, sampling=None, **options):
    """Decode the prompts with a method, or plainly; greedily unless ``sampling``."""
    asked = [
        Request(prompt, factory, verifier("sampled", sampling) if sampling else greedy)
        for prompt in prompts
    ]
    limits: dict[str, Any] = {"max_new_tokens": FEW_TOKENS, "end_ids": (0,)}
    limits["budget"] = method.budget if method else 0
    return generate_all(target, asked, **limits | options)


@cache
def sampled(target, new_tokens):
    """Return what the target samples after each of the prompts without drafts."""
    done = decode(target, PROMPTS, sampling=SAMPLING, max_new_tokens=new_tokens)
    return [g.tokens for g in done]


@spread("architecture, text", ARCHITECTURES, METHODS, every=4)
def test_sampled_output_equals_autoregressive_sampling_with_the_same_numbers(
    case, architecture, text, tokenizer
):
    target, prompts, _, head = case(architecture)
    method = parse(text)
    options = {"sampling": SAMPLING, "max_new_tokens": 24}
    outputs = sampled(target, 24)[1:3]
    resources = resources_of(target, tokenizer, outputs, draft_head=head, sampling=SAMPLING)
    done = decode(target, prompts[1:3], method, method.prepare(resources), **options)
    assert lists(done) == lists(outputs)
    if method.name in {"corpus", "suffix"}:  # they know the outputs
        assert sum(sum(g.accepted) for g in done) > 0


@spread("architecture, text, keys", ARCHITECTURES, METHODS, ("dynamic", "static"), every=4)
def test_greedy_output_equals_transformers_generate(case, architecture, text, keys, tokenizer):
    target, prompts, outputs, head = case(architecture)
    target = StaticTarget(target.model, graphs=False) if keys == "static" else target
    method = parse(text)
    # Most of the corpus is what the model says, so that drafts are accepted; the rest misleads.
    resources = resources_of(target, tokenizer, misleading(outputs), draft_head=head)
    factory = method.prepare(resources)
    done = decode(target, prompts, method, factory, max_new_tokens=NEW_TOKENS)
    assert lists(done) == lists(outputs)
    for result in done:
        assert result.decoding_steps == len(result.accepted) + 1
        assert sum(result.accepted) + len(result.accepted) == len(result.tokens) - result.prefilled
    if method.name in HITS:
        accepted = sum(sum(g.accepted) for g in done)
        assert accepted > 0, "nothing was accepted: the test would not notice a wrong cache"


@spread(
    "architecture, text, sampling, size",
    *(EVERY, [*((t, None) for t in FEW), *((t, SAMPLING) for t in (*FEW[1:3], FEW[-1]))], (1, 8)),
    every=4,
)
def test_every_architecture_keeps_its_output_alone_and_in_batches(
    any_case, architecture, text, sampling, size, tokenizer
):
    target, prompts, outputs, head = any_case(architecture)
    assert len(np.unique(np.concatenate(outputs))) > 20, "outputs repeat a few tokens"
    times = 1 if size == 1 else 2  # there are four
    prompts, outputs = prompts * times, outputs * times
    if sampling:
        outputs = sampled(target, FEW_TOKENS) * times
    method = parse(text)
    given = {"draft_head": head, "sampling": sampling}
    factory = method.prepare(resources_of(target, tokenizer, misleading(outputs), **given))
    done = decode(target, prompts, method, factory, sampling=sampling, batch_size=size)
    assert lists(done) == lists(outputs)
    if method.name in HITS and not sampling:
        assert sum(sum(g.accepted) + g.prefilled - 1 for g in done) > 0


@needs_packing
@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("text", FEW)
def test_greedy_output_in_8_bits_equals_plain_decoding(int8_case, text, size, tokenizer):
    target, prompts, _, head = int8_case
    plain = [g.tokens for g in decode(target, prompts, batch_size=size)]
    method = parse(text)
    factory = method.prepare(resources_of(target, tokenizer, plain, draft_head=head))
    assert lists(decode(target, prompts, method, factory, batch_size=size)) == lists(plain)
