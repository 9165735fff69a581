from functools import partial

import numpy as np
import pytest

from tasc.models.target import Target
from tasc.spec.decode import generate
from tasc.spec.draft import Draft
from tasc.spec.drafters import Resources, parse
from tasc.spec.drafters.none import Autoregressive
from tasc.spec.replay import replay
from tests.pico import build_model


class Known:
    """Drafts a fixed tree at every step."""

    def start(self, prompt):
        self.steps = 0

    def draft(self, budget):
        trees = [
            Draft(np.array([9, 1, 2], np.int32), np.array([-1, -1, 1], np.int32)),
            Draft(np.array([3, 7], np.int32), np.array([-1, 0], np.int32)),
        ]
        return trees[self.steps % 2]

    def observe(self, tokens):
        self.steps += 1


def test_a_worked_example():
    prompt, output = np.array([5], np.int32), np.array([1, 2, 4, 3], np.int32)
    result = replay(Known, [prompt], [output], 0, 3)
    # 1, 2 are accepted and 4 settled; then 3 is accepted and the end settled.
    assert result.accepted.tolist() == [2, 1]
    assert (result.tokens, result.steps, result.drafted) == (5, 2, 5)
    assert result.tokens_per_step == 2.5
    assert result.by_position(3) == [1.0, 0.5, 0.0]


def test_without_drafts_every_token_is_a_step():
    output = np.array([1, 2, 4], np.int32)
    result = replay(Autoregressive, [output], [output], 0, 3)
    assert result.steps == result.tokens == 4


@pytest.mark.parametrize("text", ["tasc-spec", "tasc-spec:width=1,budget=5,p_min=2"])
def test_replay_counts_what_a_target_that_writes_the_references_accepts(text):
    target = Target(build_model("qwen2"))
    rng = np.random.default_rng(3)
    prompts = [rng.integers(1, 320, 6).astype(np.int32) for _ in range(6)]
    method = parse(text)
    outputs = [
        generate(target, Autoregressive(), p, max_new_tokens=30, end_ids=(0,)).tokens
        for p in prompts
    ]
    corpus = [rng.permutation(o).astype(np.int32) for o in outputs] + outputs[:3]
    factory = method.prepare(Resources(corpus, 0))
    for prompt, output in zip(prompts, outputs, strict=True):
        lived = generate(
            target, factory(), prompt, max_new_tokens=30, end_ids=(0,), budget=method.budget
        )
        # The first token is the prefill's, so the replay starts after it, and the loop's last
        # drafts are cut to the room that is left; both agree until then.
        drafter = factory()
        drafter.start(prompt)
        drafter.observe(output[:1])
        at, steps = 1, []
        for accepted in lived.accepted[:-3]:
            rest = output[at:]
            replayed = replay(partial(_Started, drafter), [prompt], [rest], 0, method.budget)
            steps.append(int(replayed.accepted[0]))
            drafter.observe(output[at : at + accepted + 1])
            at += accepted + 1
        assert steps == lived.accepted[:-3]


class _Started:
    """A drafter in the middle of a sequence: it drafts once and learns nothing."""

    def __init__(self, drafter):
        self.drafter = drafter

    def start(self, prompt):
        self.drafts = 0

    def draft(self, budget):
        self.drafts += 1
        return self.drafter.draft(budget) if self.drafts == 1 else Draft()

    def observe(self, tokens):
        pass
