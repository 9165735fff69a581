"""The specification of the project: every method × architecture gives autoregressive output."""

import numpy as np
import pytest

from tasc.decoding.core.resources import DraftSource
from tasc.decoding.core.sampling import Sampling
from tasc.decoding.decode import Request, generate, generate_all
from tasc.decoding.drafters import DRAFTERS, Resources, parse
from tasc.decoding.drafters.none import Autoregressive
from tasc.decoding.verify import greedy, verifier
from tasc.models.packed import DTYPES, pack
from tasc.models.static import StaticTarget, target_for
from tasc.models.target import Target
from tests.decoding.heads import teach
from tests.models.test_packed import needs_packing
from tests.pico import ARCHITECTURES, OTHERS, build_model, continued

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
NEW_TOKENS, FEW_TOKENS = 40, 20
# What drafts well enough here that nothing accepted would be a sign of a wrong cache.
HITS = {"tasc-spec", "corpus", "suffix", "ngrammys", "tli", "union", "standard", "slrs", "eagle",
        "fr-spec", "microspec", "mix"}  # fmt: skip


def by_transformers(model, new_tokens=NEW_TOKENS):
    """Return prompts of different lengths, and transformers' own greedy outputs of them."""
    rng = np.random.default_rng(0)
    prompts = [rng.integers(1, 320, n).astype(np.int32) for n in (1, 5, 17, 40)]
    return prompts, [continued(model, prompt, new_tokens) for prompt in prompts]


@pytest.fixture(scope="module", params=ARCHITECTURES)
def case(request, tmp_path_factory):
    """A model, prompts, what transformers makes of them, and a draft head."""
    model = build_model(request.param)
    prompts, outputs = by_transformers(model)
    head = tmp_path_factory.mktemp("head")
    sequences = [np.concatenate(pair) for pair in zip(prompts, outputs, strict=True)]
    teach(model, sequences).save(head)
    return Target(model), prompts, outputs, head


@pytest.fixture(scope="module", params=[*ARCHITECTURES, *OTHERS, *HYBRIDS])
def any_case(request, tmp_path_factory):
    """As ``case``, of more architectures."""
    model = build_model(request.param, tied=False)
    prompts, outputs = by_transformers(model, FEW_TOKENS)
    assert len(np.unique(np.concatenate(outputs))) > 20, "outputs repeat a few tokens"
    head = tmp_path_factory.mktemp("head")
    sequences = [np.concatenate(pair) for pair in zip(prompts, outputs, strict=True)]
    teach(model, sequences).save(head)
    return target_for(model, graphs="off"), prompts, outputs, head


def test_every_setting_here_is_of_a_method_that_there_is():
    assert set(MORE) <= set(DRAFTERS)


@pytest.mark.parametrize("text", [v for variants in VARIANTS.values() for v in variants])
def test_sampled_output_equals_autoregressive_sampling_with_the_same_numbers(case, text, tokenizer):
    target, prompts, _, head = case
    method, sampling = parse(text), Sampling(0.7, top_k=3, seed=3)

    def said(drafter, prompt, budget):
        verify = verifier("sampled", sampling)
        return generate(
            target, drafter, prompt, max_new_tokens=24, end_ids=(0,), budget=budget, verify=verify
        )

    outputs = [said(Autoregressive(), prompt, 0).tokens for prompt in prompts[1:3]]
    resources = Resources(
        outputs,
        0,
        target=target,
        tokenizer=tokenizer,
        draft=DraftSource(tokenizer, target.model),
        draft_head=head,
        sampling=sampling,
    )
    factory, accepted = method.prepare(resources), 0
    for prompt, expected in zip(prompts[1:3], outputs, strict=True):
        result = said(factory(), prompt, method.budget)
        assert result.tokens.tolist() == expected.tolist()
        accepted += sum(result.accepted)
    if method.name in {"corpus", "suffix"}:  # they know the outputs
        assert accepted > 0


@pytest.mark.parametrize("static", [False, True], ids=["dynamic", "static"])
@pytest.mark.parametrize("text", [v for variants in VARIANTS.values() for v in variants])
def test_greedy_output_equals_transformers_generate(case, text, static, tokenizer):
    target, prompts, outputs, head = case
    target = StaticTarget(target.model, graphs=False) if static else target
    # Half of the corpus is what the model says, so that drafts are accepted; half is misleading.
    rng = np.random.default_rng(1)
    noise = [rng.permutation(o).astype(np.int32) for o in outputs]
    method = parse(text)
    corpus = [*outputs, *outputs, *noise]
    draft = DraftSource(tokenizer, target.model)  # methods with a vocabulary of their own
    resources = Resources(
        corpus, 0, target=target, tokenizer=tokenizer, draft=draft, draft_head=head
    )
    factory = method.prepare(resources)
    accepted = 0
    for prompt, expected in zip(prompts, outputs, strict=True):
        result = generate(
            target, factory(), prompt, max_new_tokens=NEW_TOKENS, end_ids=(0,), budget=method.budget
        )
        assert result.tokens.tolist() == expected.tolist()
        assert result.decoding_steps == len(result.accepted) + 1
        assert sum(result.accepted) + len(result.accepted) == len(result.tokens) - result.prefilled
        accepted += sum(result.accepted)
    if method.name in HITS:
        assert accepted > 0, "nothing was accepted: the test would not notice a wrong cache"


def decode(target, size, drafter, prompts, verifiers, budget):
    """Return the outputs of the prompts, ``size`` at a time."""
    asked = [Request(p, drafter, v) for p, v in zip(prompts, verifiers, strict=True)]
    limits = {"max_new_tokens": FEW_TOKENS, "end_ids": (0,), "budget": budget}
    return generate_all(target, asked, **limits, batch_size=size)


SAMPLED = Sampling(0.7, top_k=3, seed=3)


@pytest.mark.parametrize("size", [1, 8])
@pytest.mark.parametrize(
    ("text", "sampling"), [*((t, None) for t in FEW), *((t, SAMPLED) for t in (*FEW[1:3], FEW[-1]))]
)
def test_every_architecture_keeps_its_output_alone_and_in_batches(
    any_case, text, sampling, size, tokenizer
):
    target, prompts, outputs, head = any_case
    times = 1 if size == 1 else 2  # there are four
    prompts, outputs = prompts * times, outputs * times

    def verifiers():  # each serves one sequence
        return [verifier("sampled", sampling) if sampling else greedy for _ in prompts]

    if sampling:
        plain = decode(target, 1, Autoregressive, prompts, verifiers(), 0)
        outputs = [g.tokens for g in plain]
    rng = np.random.default_rng(1)
    noise = [rng.permutation(o).astype(np.int32) for o in outputs]
    resources = Resources(
        [*outputs, *outputs, *noise],
        0,
        target=target,
        tokenizer=tokenizer,
        draft=None if target.chains_only else DraftSource(tokenizer, target.model),
        draft_head=head,
        sampling=sampling,
    )
    method = parse(text)
    factory = method.prepare(resources)
    done = decode(target, size, factory, prompts, verifiers(), method.budget)
    assert [g.tokens.tolist() for g in done] == [o.tolist() for o in outputs]
    if method.name in HITS and not sampling:
        assert sum(sum(g.accepted) + g.prefilled - 1 for g in done) > 0


@pytest.fixture(scope="module", params=DTYPES, ids=str)
def int8_case(request, tmp_path_factory):
    """As ``case``, of a model whose weights have 8 bits, without outputs."""
    model = build_model("llama", tied=False)
    prompts, outputs = by_transformers(model)
    head = tmp_path_factory.mktemp("head")
    teach(model, outputs).save(head)
    pack(model.to(request.param), int8=True)
    return Target(model), prompts, head


@needs_packing
@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("text", FEW)
def test_greedy_output_in_8_bits_equals_plain_decoding(int8_case, text, size, tokenizer):
    target, prompts, head = int8_case

    def outputs(name, known):
        method, draft = parse(name), DraftSource(tokenizer, target.model)
        own = {"target": target, "tokenizer": tokenizer, "draft": draft, "draft_head": head}
        factory = method.prepare(Resources(known, 0, **own))
        requests = [Request(prompt, factory) for prompt in prompts]
        made = generate_all(
            target,
            requests,
            max_new_tokens=FEW_TOKENS,
            end_ids=(0,),
            budget=method.budget,
            batch_size=size,
        )
        return [one.tokens.tolist() for one in made]

    plain = outputs("ar", [])
    assert outputs(text, [np.array(tokens, np.int32) for tokens in plain]) == plain
