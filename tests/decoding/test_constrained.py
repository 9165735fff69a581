"""Under a grammar, every method × architecture writes the output of masked decoding."""

import json

import jsonschema
import numpy as np
import pytest
import torch
from transformers import LogitsProcessor

import tasc
from tasc.decoding.adaptive import Adaptive, AdaptiveDrafter
from tasc.decoding.core.draft import Draft
from tasc.decoding.core.grammar import FORCED, Grammar
from tasc.decoding.core.resources import DraftSource
from tasc.decoding.core.sampling import Sampling
from tasc.decoding.decode import Request, generate_all
from tasc.decoding.drafters import Resources, parse
from tasc.decoding.drafters.constrained import Constrained
from tasc.decoding.drafters.none import Autoregressive
from tasc.decoding.simulate import References, simulate
from tasc.decoding.verify import greedy, verifier
from tasc.errors import InputError
from tasc.models.cost_model import CostModel
from tasc.models.static import StaticTarget
from tasc.models.target import Target
from tasc.options.constraint import Constraint
from tests.decoding.grammars import LARK, SCHEMA, VALID, grammar, write
from tests.decoding.heads import teach
from tests.decoding.test_lossless import VARIANTS
from tests.pico import build_model, continued, make_tokenizer

LIMIT = 48
ONCE = [variants[-1] for variants in VARIANTS.values()] + ["tasc-spec:budget=70"]
KINDS = {
    "schema": Constraint.of_schema(
        SCHEMA
        | {"properties": {"intent": SCHEMA["properties"]["intent"], "slots": {"enum": [{}, [1]]}}}
    ),
    "lark": Constraint("lark", LARK, "lark"),
}


class Masked(LogitsProcessor):
    """transformers' way: the mask of the whole output so far, parsed from its beginning."""

    def __init__(self, found: Grammar, prompt: int) -> None:
        self.found, self.prompt = found, prompt

    def __call__(self, ids, scores):
        matcher = self.found.matcher()
        assert matcher.consume_tokens(ids[0, self.prompt :].tolist())
        allowed = torch.from_numpy(self.found.allowed(matcher))[: scores.shape[1]]
        return scores.masked_fill(~allowed, float("-inf"))


def by_transformers(model, found, prompts):
    return [
        continued(model, prompt, LIMIT, logits_processor=[Masked(found, len(prompt))])
        for prompt in prompts
    ]


@pytest.fixture(scope="module", params=["llama"])
def case(request, tmp_path_factory, tokenizer):
    """A model, prompts, a grammar with transformers' outputs for each kind, and a draft head."""
    model = build_model(request.param)
    rng = np.random.default_rng(0)
    prompts = [rng.integers(1, 320, n).astype(np.int32) for n in (1, 5, 17)]
    found = {kind: Grammar(of, tokenizer, (0,)) for kind, of in KINDS.items()}
    outputs = {kind: by_transformers(model, of, prompts) for kind, of in found.items()}
    head = tmp_path_factory.mktemp("head")
    teach(model, [np.concatenate(pair) for pair in zip(prompts, outputs["schema"], strict=True)])\
        .save(head)  # fmt: skip
    return model, prompts, found, outputs, head


def resources_of(case, tokenizer, kind, corpus, sampling=None):
    model, _, found, _, head = case
    return Resources(
        corpus,
        0,
        target=Target(model),
        tokenizer=tokenizer,
        draft=DraftSource(tokenizer, model),
        draft_head=head,
        sampling=sampling,
        grammar=found[kind],
    )


def decode(target, case, kind, factory, verifiers, budget, size=1):
    _, prompts, found, *_ = case
    requests = [
        Request(prompt, factory, verify, grammar=found[kind])
        for prompt, verify in zip(prompts, verifiers, strict=True)
    ]
    limits = {"max_new_tokens": LIMIT, "end_ids": (0,), "budget": budget}
    return generate_all(target, requests, **limits, batch_size=size)


def corpus_of(outputs):
    """Outputs, of which some mislead: their tokens are those of no valid output."""
    rng = np.random.default_rng(1)
    return [*outputs, *outputs, *[rng.permutation(o).astype(np.int32) for o in outputs]]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", ONCE)
def test_greedy_output_is_that_of_transformers_with_masks(case, text, kind, tokenizer):
    model, prompts, found, outputs, _ = case
    method = parse(text)
    factory = method.prepare(resources_of(case, tokenizer, kind, corpus_of(outputs[kind])))
    for target, size in ((Target(model), 1), (StaticTarget(model, graphs=False), 3)):
        done = decode(target, case, kind, factory, [greedy] * len(prompts), method.budget, size)
        assert [g.tokens.tolist() for g in done] == [o.tolist() for o in outputs[kind]]
    for generation in done:
        complete = found[kind].accepts(generation.tokens.tolist())
        assert complete == (generation.finish == "end")
    if method.name == "grammar" and kind == "schema":
        assert sum(sum(g.accepted) for g in done) > 0, "nothing determined was accepted"
    if method.name == "ar":
        assert sum(sum(g.drafted) for g in done) == 0


SAMPLED = ["grammar", "tasc-spec", "tasc-spec:budget=5,width=1", "recycling"]


@pytest.mark.parametrize("text", SAMPLED)
def test_a_sampled_output_depends_on_the_seed_alone(case, text, tokenizer):
    model, prompts, found, outputs, _ = case
    method, sampling = parse(text), Sampling(1.5, seed=3)

    def verifiers():
        return [verifier("sampled", sampling) for _ in prompts]

    target = Target(model)
    plain = decode(target, case, "lark", Autoregressive, verifiers(), 0)
    resources = resources_of(case, tokenizer, "lark", [g.tokens for g in plain], sampling)
    done = decode(target, case, "lark", method.prepare(resources), verifiers(), method.budget)
    assert [g.tokens.tolist() for g in done] == [g.tokens.tolist() for g in plain]
    assert [g.tokens.tolist() for g in done] != [o.tolist() for o in outputs["lark"]]
    for generation in done:
        assert found["lark"].accepts(generation.tokens.tolist()) == (generation.finish == "end")


@pytest.mark.parametrize("name", ["rejection", "multi-branch"])
def test_verifiers_with_distributions_keep_to_the_grammar(case, name, tokenizer):
    model, prompts, found, outputs, _ = case
    method = parse("slrs:confidence=0" if name == "rejection" else "tasc-spec:budget=6")
    sampling = Sampling(1.5, seed=3)
    resources = resources_of(case, tokenizer, "lark", outputs["lark"], sampling)
    verifiers = [verifier(name, sampling) for _ in prompts]
    done = decode(Target(model), case, "lark", method.prepare(resources), verifiers, method.budget)
    for generation in done:
        assert found["lark"].accepts(generation.tokens.tolist()) == (generation.finish == "end")


def test_adaptive_drafts_keep_the_output(case, tokenizer):
    model, prompts, _, outputs, _ = case
    method = parse("tasc-spec:budget=auto")
    make = method.prepare(resources_of(case, tokenizer, "schema", outputs["schema"]))
    policy = Adaptive(CostModel((1, 16, 64), (1.0, 1.1, 1.5)))

    def factory():
        return AdaptiveDrafter(make(), policy)

    done = decode(Target(model), case, "schema", factory, [greedy] * len(prompts), method.budget)
    assert [g.tokens.tolist() for g in done] == [o.tolist() for o in outputs["schema"]]
    assert sum(sum(g.accepted) for g in done) > 0


class Fixed(Autoregressive):
    """Drafts one tree at every step."""

    def __init__(self, tokens, parents, probabilities=None):
        paths = None if probabilities is None else np.array(probabilities, np.float32)
        nodes = np.array(tokens, np.int32), np.array(parents, np.int32)
        self.tree = Draft(*nodes, probabilities=paths)

    def draft(self, max_nodes):
        return self.tree.subtree(np.arange(min(max_nodes, len(self.tree)), dtype=np.int32))


def drafted(found, drafter, max_nodes, before=()):
    made = Constrained(drafter, found)
    made.start(np.empty(0, np.int32))
    made.observe(np.array(before, np.int32))
    return made.draft(max_nodes)


def test_forbidden_nodes_are_pruned_and_their_probability_goes_to_the_others(tokenizer):
    found = grammar(tokenizer, "regex")
    a, b, z = (tokenizer.encode([text]).tokens.tolist()[0] for text in "abz")
    draft = drafted(found, Fixed([a, z, b, z], [-1, -1, 0, 0], [0.5, 0.4, 0.2, 0.3]), 4)
    assert draft.tokens.tolist() == [a, b]
    assert draft.parents.tolist() == [-1, 0]
    assert draft.probabilities.tolist() == pytest.approx([0.5 / 0.6, 0.5 / 0.6])


def test_determined_text_is_free_and_the_drafter_goes_on_below_it(tokenizer):
    found = grammar(tokenizer)
    ids = tokenizer.encode([VALID["schema"][0]]).tokens.tolist()
    determined = list(found.forced(found.matcher()))
    tokens = ids[: len(determined) + 2]
    chain = Fixed(tokens, range(-1, len(tokens) - 1), 0.9 ** np.arange(len(tokens)))
    draft = drafted(found, chain, len(tokens))
    assert draft.tokens.tolist()[: len(tokens)] == tokens
    assert set(draft.probabilities[: len(determined)].tolist()) == {1.0}
    empty = drafted(found, Autoregressive(), 0)
    assert empty.tokens.tolist() == determined


def test_the_number_of_nodes_is_bounded(tokenizer):
    long = Grammar(Constraint.of_strings(["x y " * 400]), tokenizer, (0,))
    assert len(drafted(long, Autoregressive(), 3)) == FORCED


def test_the_end_is_determined_once_an_output_cannot_go_on(tokenizer):
    found = grammar(tokenizer)
    ids = tokenizer.encode([VALID["schema"][0]]).tokens.tolist()
    assert drafted(found, Autoregressive(), 0, ids).tokens.tolist() == [tokenizer.eos_id]


def test_the_simulator_counts_steps_under_a_grammar(tokenizer):
    found = grammar(tokenizer)
    outputs = [np.array(tokenizer.encode([VALID["schema"][0]]).tokens, np.int32)] * 3
    references = References([np.array([5], np.int32)] * 3, outputs, tokenizer.eos_id)

    def steps(text, **resources):
        method = parse(text)
        factory = method.prepare(Resources(outputs, tokenizer.eos_id, **resources))
        return simulate(factory, references, method.budget).tokens_per_step

    alone = steps("grammar", grammar=found)
    assert alone > 1
    text = "corpus:budget=2"
    assert steps(text, grammar=found) > steps(text)


def test_a_method_that_needs_a_grammar_says_so():
    with pytest.raises(InputError, match="needs a grammar"):
        parse("grammar").prepare(Resources([], 0))


def test_generate_keeps_to_a_schema(tmp_path):
    from transformers import PreTrainedTokenizerFast

    folder = make_tokenizer(tmp_path)
    fast = PreTrainedTokenizerFast.from_pretrained(folder)
    model = build_model("llama")
    model.config.eos_token_id = model.generation_config.eos_token_id = fast.eos_token_id
    schema = {"type": "object", "properties": {"a": {"enum": ["x", "yes"]}}, "required": ["a"],
              "additionalProperties": False}  # fmt: skip
    (tmp_path / "schema.json").write_text(json.dumps(schema))
    for given in (schema, tmp_path / "schema.json"):
        (done,) = tasc.generate(model, fast, ["hello"], max_new_tokens=40, schema=given)
        jsonschema.validate(json.loads(done.text), schema)
        assert write(json.loads(done.text)) == done.text
        assert done.generation.finish == "end"
    (cut,) = tasc.generate(model, fast, ["hello"], max_new_tokens=3, schema=schema)
    assert cut.generation.finish == "length"
    (stopped,) = tasc.generate(model, fast, ["hello"], max_new_tokens=40, schema=schema, stop=[":"])
    assert stopped.generation.finish == "stop"
