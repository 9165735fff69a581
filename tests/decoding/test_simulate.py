"""The simulator counts what the decoding loop counts where the model says the references."""

from typing import Any

import numpy as np
import pytest

import tasc.decoding.simulate
from tasc.data.corpus import load
from tasc.data.source import Source
from tasc.decoding.core.draft import Draft
from tasc.decoding.decode import Request, generate_all
from tasc.decoding.drafters import Resources, parse
from tasc.decoding.drafters.none import Autoregressive
from tasc.decoding.simulate import References, simulate
from tasc.decoding.steps import StepStats
from tasc.errors import InputError
from tasc.models.cost_model import LONGEST_CHAIN, CostModel
from tasc.models.targets.fastest import target_for
from tests.decoding.outputs import generate, random_prompts
from tests.decoding.scripted import ints
from tests.pico import build_model


class Scripted(Autoregressive):
    """Drafts the trees of a list, one a step."""

    def __init__(self, *trees: tuple[list[int], list[int]]) -> None:
        self.trees = [Draft(ints(*tokens), ints(*parents)) for tokens, parents in trees]
        self.steps = -1  # the prompt's forward is none

    def draft(self, max_nodes: int) -> Draft:
        return self.trees[self.steps]

    def observe(self, tokens: np.ndarray) -> None:
        self.steps += 1


def references(*outputs: np.ndarray, **options: Any) -> References:
    return References([ints(5)] * len(outputs), outputs, 0, **options)


def test_a_worked_example():
    trees = ([9, 1, 2], [-1, -1, 1]), ([3, 7], [-1, 0])
    found = simulate(lambda: Scripted(*trees), references(ints(8, 1, 2, 4, 3)), 3)
    # The prompt's forward commits 8; 1, 2 are accepted and 4 added; 3 is accepted, the end added.
    assert found.accepted.tolist() == [2, 1]
    assert found.drafted.tolist() == [3, 2]
    assert (found.tokens.tolist(), found.steps.tolist()) == ([6], [2])
    assert found.tokens_per_step == 2.5
    assert found.accepted_by_position == [1.0, 0.5]
    assert found.to_dict()["steps_per_output"] == 3


def test_nothing_is_added_behind_a_drafted_end_token():
    found = simulate(lambda: Scripted(([3, 0, 6], [-1, 0, 1])), references(ints(8, 3)), 3)
    assert (found.accepted.tolist(), found.tokens_per_step) == ([1], 2.0)


def test_without_drafts_every_step_commits_one_token():
    found = simulate(Autoregressive, references(ints(1, 2, 4), ints(7)), 3)
    assert (found.tokens.tolist(), found.steps.tolist()) == ([4, 2], [3, 1])
    assert found.tokens_per_step == 1
    assert found.interval == (1, 1)
    assert found.accepted_by_position == []


def test_an_output_ends_at_its_limit_or_its_first_end_token():
    targets = references(ints(1, 2, 3), ints(4, 0, 5), max_new_tokens=3).targets()
    assert [target.tolist() for target in targets] == [[1, 2, 3], [4, 0]]
    found = simulate(Autoregressive, references(ints(1, 2), max_new_tokens=1), 3)
    assert (found.steps.tolist(), found.tokens_per_step) == ([0], 1)


def test_tokens_with_which_all_prompts_begin_are_read_once_and_leave_room_for_a_first_draft():
    shared = np.ones(LONGEST_CHAIN, np.int32)
    prompts = [np.append(shared, [token, token]).astype(np.int32) for token in (2, 3)]
    found = {}
    for chains_only in (False, True):
        written = References(prompts, [ints(4)] * 2, 0, drafts_first=True, chains_only=chains_only)
        steps = simulate(lambda: Scripted(([4], [-1]), ([4], [-1])), written, 3)
        found[chains_only] = [len(p) for p in written.unread], np.asarray(steps.prefilled).tolist()
    assert found == {False: ([2, 2], [2, 2]), True: ([514, 514], [1, 1])}


METHODS = (
    *("ar", "tasc-spec", "tasc-spec:budget=4,width=1", "tasc-spec:adapt=false"),
    *("tasc-spec-paper", "corpus", "prompt", "prompt-lookup", "suffix", "ngram-trie"),
)
LIMIT = 60


@pytest.fixture(scope="module", params=["qwen2", "lfm2"])
def heart(request):
    """A target, prompts, what it says after them, and an end token that some of that ends with."""
    target = target_for(build_model(request.param), graphs="off")
    prompts = random_prompts(*[6] * 12, seed=1)
    free = [generate(target, Autoregressive(), p, max_new_tokens=LIMIT).tokens for p in prompts]
    late = [int(token) for text in free for token in text if token not in text[:10]]
    end = max(late, key=late.count)
    said = [text[: int((text == end).argmax())] if end in text else text for text in free]
    lengths = {len(text) for text in said}
    assert LIMIT in lengths
    assert len(lengths) > 1
    return target, prompts, said, end


@pytest.mark.parametrize("text", METHODS)
def test_every_step_is_that_of_a_loop_that_says_the_references(heart, text):
    target, prompts, said, end = heart
    rng, method = np.random.default_rng(2), parse(text)
    known = [np.concatenate([s[:20], rng.permutation(s[20:])]) for s in said] * 5
    decoded, factory = (method.prepare(Resources(known, end)) for _ in range(2))
    asked = [Request(prompt, decoded) for prompt in prompts]
    done = generate_all(target, asked, max_new_tokens=LIMIT, end_ids=(end,), budget=method.budget)
    measured = StepStats.of(done)
    assert target.drafts_first
    written = References(prompts, said, end, LIMIT, target.chains_only, drafts_first=True)
    found = simulate(factory, written, method.budget)
    for field in ("tokens", "steps", "drafted", "accepted", "prefilled"):
        assert getattr(found, field).tolist() == getattr(measured, field).tolist(), field
    assert (found.tokens_per_step, found.interval) == (measured.tokens_per_step, measured.interval)
    if text in ("tasc-spec", "corpus", "suffix"):
        assert found.tokens_per_step > 1.2


def test_tokens_a_step_have_an_interval_over_the_outputs():
    def steps(*accepted: int) -> StepStats:
        counts = np.array(accepted)
        return StepStats(counts + 2, np.ones_like(counts), counts, counts, 0.0)

    few, many, equal = steps(0, 4), steps(*[0, 4] * 50), steps(*[2] * 10)
    for found in (few, many, equal):
        low, high = found.interval
        assert low <= found.tokens_per_step == 3 <= high
        assert found.interval == (low, high)
    assert few.interval == (1, 5)
    assert 2.4 < many.interval[0] < 2.8 < 3.2 < many.interval[1] < 3.6
    assert equal.interval == (3, 3)


def test_time_is_the_prompt_the_steps_and_the_drafts():
    cost, outputs = CostModel((1, 4, 16), (1.0, 1.5, 3.0)), [ints(3, 4, 5)] * 2
    prompts = [ints(1, 1, 1, 1)] * 2
    found = simulate(Autoregressive, References(prompts, outputs, 0), 0)
    assert found.ms_per_sample(prompts, cost) == pytest.approx(1000 * (1.5 + 3 * 1.0), rel=0.01)


def test_as_many_rows_as_are_needed_are_spread_over_all(tokenizer, monkeypatch):
    monkeypatch.setattr(tasc.decoding.simulate, "MOST_SAMPLES", 3)
    texts = list("abcde")
    some = References.of(tokenizer, texts, texts)
    assert [tokenizer.decode(ids.tolist()) for ids in some.outputs] == ["a", "c", "e"]
    assert (len(some.prompts), some.end) == (3, tokenizer.eos_id)
    with pytest.raises(InputError, match="pass a split that has examples"):
        References.of(tokenizer, [], [])


# Chains of 10 with GPT-2 tokens, contexts up to 5 tokens, p_min 5, λ 0.75, corpus of the first
# 15,000 training outputs, first 150 test rows, prompts cut to 1,024 tokens and a newline behind.
MEASURED = {"massive-en": 3.07, "eur-lex": 2.49, "medquad": 2.85}


@pytest.mark.parametrize(
    "task",
    ["massive-en", *(pytest.param(t, marks=pytest.mark.slow) for t in ("eur-lex", "medquad"))],
)
def test_the_papers_setting_and_the_best_tree(data_dir, real_tokenizer, task):
    tokenizer = real_tokenizer("gpt2")

    def encode(texts):
        return tokenizer.encode(texts).split()

    source = Source(str(data_dir / task))
    known = encode(load(source, "train").outputs[:15000])
    test = load(source, "test").examples[:150]
    newline = encode(["\n"])[0]
    # The other replay drafted for an output's first token, too: so the newline that ends every
    # prompt is what the prompt's forward commits.
    prompts = [p[-1024:] for p in encode([e.input for e in test])]
    outputs = [np.concatenate([newline, o]) for o in encode([e.output for e in test])]
    references = References(prompts, outputs, tokenizer.eos_id, max_new_tokens=1 << 20)
    reached = {}
    for text in ("tasc-spec-paper", "tasc-spec:budget=32,min_probability=0"):
        method = parse(text)
        factory = method.prepare(Resources(known, tokenizer.eos_id))
        reached[method.name] = simulate(factory, references, method.budget).tokens_per_step
    assert reached["tasc-spec-paper"] == pytest.approx(MEASURED[task], rel=0.02)
    assert reached["tasc-spec"] >= 1.15 * reached["tasc-spec-paper"]
