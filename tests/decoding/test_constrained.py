"""Under a grammar, every method writes the output of masked decoding."""

import json
from functools import partial
from typing import Any

import jsonschema
import numpy as np
import pytest
import torch
from transformers import LogitsProcessor

import tasc
from tasc.decoding.core.draft import Draft, chain
from tasc.decoding.core.grammar import FORCED, Grammar
from tasc.decoding.core.sampling import Sampling
from tasc.decoding.decode import Request, generate_all
from tasc.decoding.drafters import Resources, parse
from tasc.decoding.drafters.constrained import Constrained
from tasc.decoding.drafters.none import Autoregressive
from tasc.decoding.policy import Policy
from tasc.decoding.simulate import References, simulate
from tasc.decoding.verify import greedy, verifier
from tasc.errors import InputError
from tasc.models.cost_model import CostModel
from tasc.models.static import StaticTarget
from tasc.models.target import Target
from tasc.options.constraint import Constraint
from tests.decoding.grammars import LARK, SCHEMA, VALID, grammar, write
from tests.decoding.heads import save_taught
from tests.decoding.outputs import lists, misleading, random_prompts, resources_of
from tests.decoding.scripted import Scripted, floats, ints
from tests.decoding.test_lossless import VARIANTS
from tests.pico import build_model, continued

LIMIT = 48
SAMPLING = Sampling(1.5, seed=3)
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


@pytest.fixture(scope="module")
def case(tmp_path_factory, tokenizer):
    """A target, prompts, a grammar with transformers' outputs for each kind, and a draft head."""
    model = build_model("llama")
    prompts = random_prompts(1, 5, 17)
    found = {kind: Grammar(of, tokenizer, (0,)) for kind, of in KINDS.items()}
    outputs = {
        kind: [continued(model, p, LIMIT, logits_processor=[Masked(of, len(p))]) for p in prompts]
        for kind, of in found.items()
    }
    head = save_taught(model, prompts, outputs["schema"], tmp_path_factory.mktemp("head"))
    return Target(model), prompts, found, outputs, head


def prepared(case, tokenizer, method, kind, corpus, sampling=None):
    target, _, found, _, head = case
    given = {"draft_head": head, "sampling": sampling, "grammar": found[kind]}
    return method.prepare(resources_of(target, tokenizer, corpus, **given))


def decode(case, kind, factory, budget, sampled_by=None, *, target=None, size=1, policy=None):
    """Decode all prompts; greedily unless ``sampled_by`` a (verifier, sampling)."""
    own, prompts, found, *_ = case
    requests = [
        Request(p, factory, verifier(*sampled_by) if sampled_by else greedy, grammar=found[kind])
        for p in prompts
    ]
    limits = {"max_new_tokens": LIMIT, "end_ids": (0,), "budget": budget}
    return generate_all(target or own, requests, **limits, batch_size=size, policy=policy)


def check_valid(found, done):
    for generation in done:
        assert found.accepts(generation.tokens.tolist()) == (generation.finish == "end")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", ONCE)
def test_greedy_output_is_that_of_transformers_with_masks(case, text, kind, tokenizer):
    target, _, found, outputs, _ = case
    method = parse(text)
    factory = prepared(case, tokenizer, method, kind, misleading(outputs[kind]))
    static = StaticTarget(target.model, graphs=False)
    for one, size in ((target, 1), (static, 3)):
        done = decode(case, kind, factory, method.budget, target=one, size=size)
        assert lists(done) == lists(outputs[kind])
    check_valid(found[kind], done)
    if method.name == "grammar" and kind == "schema":
        assert sum(sum(g.accepted) for g in done) > 0, "nothing determined was accepted"
    if method.name == "ar":
        assert sum(sum(g.drafted) for g in done) == 0


@pytest.mark.parametrize(
    "text", ["grammar", "tasc-spec", "tasc-spec:budget=5,width=1", "recycling"]
)
def test_a_sampled_output_depends_on_the_seed_alone(case, text, tokenizer):
    _, _, found, outputs, _ = case
    method, sampled_by = parse(text), ("sampled", SAMPLING)
    plain = decode(case, "lark", Autoregressive, 0, sampled_by)
    factory = prepared(case, tokenizer, method, "lark", [g.tokens for g in plain], SAMPLING)
    done = decode(case, "lark", factory, method.budget, sampled_by)
    assert lists(done) == lists(plain) != lists(outputs["lark"])
    check_valid(found["lark"], done)


@pytest.mark.parametrize(
    ("name", "text"), [("rejection", "slrs:confidence=0"), ("multi-branch", "tasc-spec:budget=6")]
)
def test_verifiers_with_distributions_keep_to_the_grammar(case, name, text, tokenizer):
    _, _, found, outputs, _ = case
    method = parse(text)
    factory = prepared(case, tokenizer, method, "lark", outputs["lark"], SAMPLING)
    check_valid(found["lark"], decode(case, "lark", factory, method.budget, (name, SAMPLING)))


def test_adaptive_drafts_keep_the_output(case, tokenizer):
    outputs = case[3]["schema"]
    method = parse("tasc-spec:budget=auto")
    make = prepared(case, tokenizer, method, "schema", outputs)
    policy = Policy(CostModel((1, 16, 64), (1.0, 1.1, 1.5)))
    done = decode(case, "schema", make, method.budget, policy=policy)
    assert lists(done) == lists(outputs)
    assert sum(sum(g.accepted) for g in done) > 0


def drafted(found, drafter, max_nodes, before=()):
    made = Constrained(drafter, found)
    made.start(ints())
    made.observe(ints(*before))
    return made.draft(max_nodes)


def test_forbidden_nodes_are_pruned_and_their_probability_goes_to_the_others(tokenizer):
    found = grammar(tokenizer, "regex")
    a, b, z = (tokenizer.encode([text]).tokens.tolist()[0] for text in "abz")
    tree = Draft(ints(a, z, b, z), ints(-1, -1, 0, 0), probabilities=floats(0.5, 0.4, 0.2, 0.3))
    draft = drafted(found, Scripted(tree), 4)
    assert draft.tokens.tolist() == [a, b]
    assert draft.parents.tolist() == [-1, 0]
    assert draft.probabilities.tolist() == pytest.approx([0.5 / 0.6, 0.5 / 0.6])


def test_determined_text_is_free_and_the_drafter_goes_on_below_it(tokenizer):
    found = grammar(tokenizer)
    ids = tokenizer.encode([VALID["schema"][0]]).tokens.tolist()
    determined = list(found.forced(found.matcher()))
    tokens = ids[: len(determined) + 2]
    said = chain(ints(*tokens), None, floats(*0.9 ** np.arange(len(tokens))))
    draft = drafted(found, Scripted(said), len(tokens))
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
    outputs = [tokenizer.encode([VALID["schema"][0]]).tokens] * 3
    references = References([ints(5)] * 3, outputs, tokenizer.eos_id)

    def steps(text, **resources):
        method = parse(text)
        factory = method.prepare(Resources(outputs, tokenizer.eos_id, **resources))
        return simulate(factory, references, method.budget).tokens_per_step

    assert steps("grammar", grammar=found) > 1
    text = "corpus:budget=2"
    assert steps(text, grammar=found) > steps(text)


def test_a_method_that_needs_a_grammar_says_so():
    with pytest.raises(InputError, match="needs a grammar"):
        parse("grammar").prepare(Resources([], 0))


def test_generate_keeps_to_a_schema(tmp_path, fast_tokenizer):
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"a": {"enum": ["x", "yes"]}},
        "required": ["a"],
    }
    schema |= {"additionalProperties": False}
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(schema))
    generate = partial(tasc.generate, build_model("llama"), fast_tokenizer, ["hello"])
    for given in (schema, path):
        (done,) = generate(max_new_tokens=40, schema=given)
        jsonschema.validate(json.loads(done.text), schema)
        assert write(json.loads(done.text)) == done.text
        assert done.generation.finish == "end"
    (cut,) = generate(max_new_tokens=3, schema=schema)
    assert cut.generation.finish == "length"
    (stopped,) = generate(max_new_tokens=40, schema=schema, stop=[":"])
    assert stopped.generation.finish == "stop"
