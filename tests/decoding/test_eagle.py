"""Draft heads: trees as defined, caches of what was accepted, output that is the target's."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tasc.decoding.core.draft import Draft
from tasc.decoding.custom_generate import custom_generate
from tasc.decoding.decode import Request, generate, generate_all
from tasc.decoding.drafters import Resources, parse
from tasc.decoding.drafters.heads.draft_vocab.frequent import Frequent
from tasc.decoding.drafters.heads.draft_vocab.full import Full
from tasc.decoding.drafters.heads.eagle import EagleOptions
from tasc.decoding.drafters.none import Autoregressive
from tasc.decoding.simulate import References, simulate
from tasc.errors import InputError
from tasc.models.target import Target
from tests.decoding.heads import EAGLE_OPTIONS as OPTIONS
from tests.decoding.heads import eagle, save_head, teach
from tests.pico import ARCHITECTURES, build_model


@pytest.fixture(scope="module")
def model():
    return build_model()


@pytest.fixture(scope="module")
def outputs(model):
    """Sequences that the model itself writes."""
    rng = np.random.default_rng(0)
    prompts = [rng.integers(1, 320, n).astype(np.int32) for n in (3, 11, 20)]
    ids = [torch.from_numpy(p.astype(np.int64))[None] for p in prompts]
    said = [model.generate(i, max_new_tokens=30, do_sample=False, pad_token_id=0) for i in ids]
    return prompts, [s[0].numpy().astype(np.int32) for s in said]


@pytest.fixture(scope="module")
def head(model, outputs):
    return teach(model, outputs[1])


class Recorder:
    """A drafter that keeps what another one proposed, and the sequence it proposed it after."""

    def __init__(self, drafter, first=None):
        self.drafter, self.sequence, self.drafts = drafter, [], []
        self.first = first  # a draft after the prompt, which is not kept
        drafter.drafts_first = first is not None

    def start(self, prompt):
        self.sequence = prompt.tolist()
        self.drafter.start(prompt)

    def draft(self, max_nodes):
        if self.first is not None:
            first, self.first = self.first, None
            return first
        draft = self.drafter.draft(max_nodes)
        self.drafts.append((list(self.sequence), draft))
        return draft

    def observe(self, tokens):
        self.sequence += tokens.tolist()
        self.drafter.observe(tokens)


@torch.no_grad()
def distribution(model, head, sequence, path, vocabulary):
    """Log-probabilities of the columns after ``path``: the head run from scratch, with no cache."""
    ids = torch.tensor(sequence)
    hidden = model.base_model(input_ids=ids[None, :-1], use_cache=False).last_hidden_state[0]
    tokens = ids[1:]
    embedding = model.get_input_embeddings()
    for token in [*path, None]:
        n = len(tokens)
        states = head(embedding(tokens)[None], hidden[None], torch.arange(n)[None])[0]
        if token is None:
            return vocabulary.logits(states[-1:]).log_softmax(-1)[0]
        hidden = torch.cat((hidden, states[-1:]))
        tokens = torch.cat((tokens, torch.tensor([token])))
    raise AssertionError


def tree_by_hand(model, head, sequence, vocabulary, options, budget):
    """The paths of EAGLE-2's tree with their values: a dict, the definition in plain words."""
    ids = vocabulary.ids if vocabulary.ids is not None else torch.arange(320)
    values: dict[tuple[int, ...], float] = {}
    frontier: list[tuple[tuple[int, ...], float]] = [((), 0.0)]
    for _ in range(options.depth):
        grown = []
        for path, value in frontier:
            top = distribution(model, head, sequence, path, vocabulary).topk(options.width)
            for p, column in zip(top.values.tolist(), top.indices.tolist(), strict=True):
                grown.append(((*path, int(ids[column])), value + p))
        values.update(grown)
        frontier = sorted(grown, key=lambda node: -node[1])[: options.width]
    return dict(sorted(values.items(), key=lambda node: -node[1])[:budget])


def paths(draft: Draft) -> dict[tuple[int, ...], float]:
    found: list[tuple[int, ...]] = []
    for token, parent in zip(draft.tokens.tolist(), draft.parents.tolist(), strict=True):
        found.append((*(found[parent] if parent >= 0 else ()), token))
    assert draft.probabilities is not None
    return dict(zip(found, np.log(draft.probabilities).tolist(), strict=True))


@pytest.mark.parametrize(("size", "shared"), [(None, None), (50, None), (None, 0), (None, 5)])
def test_every_tree_of_a_generation_is_the_one_defined(model, outputs, head, size, shared):
    # The drafter keeps keys and values across steps; the definition starts from nothing each time.
    lm_head = model.get_output_embeddings()
    vocabulary = Full(lm_head) if size is None else Frequent(lm_head, torch.arange(10, 10 + size))
    prompt, target, first = outputs[0][1], Target(model), None
    if shared is not None:  # with a draft after the prompt, whose second path is accepted
        target.share(prompt[:shared])
        said = outputs[1][1][len(prompt) :]
        tokens = np.array([said[0] - 1, *said[:2]], np.int32)
        first = Draft(tokens, np.array([-1, -1, 1], np.int32))
    recorder = Recorder(eagle(model, head, vocabulary), first)
    result = generate(target, recorder, prompt, max_new_tokens=25, budget=9)
    assert max(result.accepted) > 1
    assert result.prefilled == (1 if first is None else 3)
    for sequence, draft in recorder.drafts[:8]:
        budget = min(9, len(prompt) + 25 - len(sequence) - 1)
        options = EagleOptions(min(OPTIONS.depth, budget), min(OPTIONS.width, budget))
        expected = tree_by_hand(model, head, sequence, vocabulary, options, budget)
        assert paths(draft).keys() == expected.keys()
        np.testing.assert_allclose(
            [paths(draft)[path] for path in expected], list(expected.values()), atol=2e-3
        )


def test_drafting_twice_gives_the_same_tree(model, outputs, head):
    drafter = eagle(model, head)
    target = Target(model)
    prompt = outputs[0][0]
    target.begin(len(prompt) + 8)
    row = target.join([prompt], hidden=True)
    drafter.start(prompt)
    drafter.on_hidden_states(target.states[0], row, np.empty(0, np.int32))
    drafter.observe(np.array([int(row.argmax())], np.int32))
    first, second = drafter.draft(12), drafter.draft(12)
    assert first.tokens.tolist() == second.tokens.tolist()
    assert len(drafter.draft(0)) == 0


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@torch.no_grad()
def test_hidden_states_are_those_the_lm_head_reads(architecture):
    model = build_model(architecture)
    target, prompt = Target(model), np.array([5, 6, 7], np.int32)
    target.begin(len(prompt) + 8)
    row = target.join([prompt], hidden=True)
    lm_head = model.get_output_embeddings()
    assert len(target.states[0]) == 3
    torch.testing.assert_close(lm_head(target.states[0, -1:]), row)
    rows = target.score([9], [(np.array([1, 2], np.int32), np.array([-1, -1], np.int32))])[0]
    torch.testing.assert_close(lm_head(target.states[0]), rows)
    assert not model.base_model._forward_hooks
    target.prefill(prompt, 8)
    assert target.states is None


def test_batches_draft_as_single_sequences_do(model, outputs, head):
    prompts, _ = outputs
    target = Target(model)
    options: dict[str, Any] = {"max_new_tokens": 30, "budget": 9}
    # One that reads nothing of the target is among them.
    drafters = [Autoregressive, *([lambda: eagle(model, head)] * len(prompts[1:]))]
    asked = [Request(p, d) for p, d in zip(prompts, drafters, strict=True)]
    alone, together = (generate_all(target, asked, **options, batch_size=n) for n in (1, 2))
    for one, other in zip(alone, together, strict=True):
        assert one.tokens.tolist() == other.tokens.tolist()
        assert one.accepted == other.accepted
    assert sum(sum(g.accepted) for g in alone) > 10


class Seldom:
    """Drafts in one of ``every`` steps only, and then a part of what was asked for."""

    def __init__(self, drafter, every=2):
        self.drafter, self.every, self.steps = drafter, every, 0
        self.start, self.observe = drafter.start, drafter.observe

    def draft(self, max_nodes):
        self.steps += 1
        return self.drafter.draft(min(max_nodes, 6)) if self.steps % self.every == 1 else Draft()


def test_steps_without_a_draft_do_not_lose_the_thread(model, outputs, head):
    recorder = Recorder(eagle(model, head))
    held = Seldom(recorder.drafter)
    prompt = outputs[0][1]
    expected = outputs[1][1][len(prompt) :]
    result = generate(Target(model), held, prompt, max_new_tokens=30, budget=12)
    assert result.tokens.tolist() == expected.tolist()
    assert sum(result.accepted) > 3


class Captured(Target):
    """Overwrites the states of the last forward with the new ones, as a CUDA graph does."""

    def score(self, last, trees, skipped=0):
        logits = super().score(last, trees, skipped)
        if not hasattr(self, "buffer"):
            self.buffer = torch.zeros(1, 64, self.states.shape[2])
        self.buffer[:, : self.states.shape[1]] = self.states
        self.states = self.buffer[:, : self.states.shape[1]]
        return logits


def test_states_of_steps_without_a_draft_outlast_the_next_forward(model, outputs, head):
    drafts: list[list[float]] = []
    for target in (Target(model), Captured(model)):
        held = Seldom(eagle(model, head), 4)
        grow = held.drafter.draft
        kept: list[float] = []

        def draft(max_nodes, grow=grow, kept=kept):
            found = grow(max_nodes)
            kept.extend(found.probabilities.tolist())
            return found

        held.drafter.draft = draft
        generate(target, held, outputs[0][1], max_new_tokens=30, budget=12)
        drafts.append(kept)
    assert len(drafts[0]) > 10
    assert drafts[0] == pytest.approx(drafts[1], rel=1e-4)


@pytest.mark.parametrize(("drafter", "name"), [("eagle:depth=2", "eagle"), (None, "mix")])
def test_the_library_takes_a_head(outputs, tmp_path, drafter, name):
    model = build_model()
    save_head(model, tmp_path)
    prompt = torch.from_numpy(outputs[0][0].astype(np.int64))[None]
    fast = custom_generate(drafter, draft_head=tmp_path)
    assert fast.method.name == name
    said = model.generate(prompt, max_new_tokens=12, do_sample=False, custom_generate=fast)
    assert said[0].tolist() == outputs[1][0][: said.shape[1]].tolist()
    assert fast.method.adaptive or sum(fast.generations[0].drafted) > 0


def test_a_method_goes_on_with_another_model_as_if_it_were_the_first(outputs, tmp_path):
    prompt = torch.from_numpy(outputs[0][0].astype(np.int64))[None]
    plain = {"max_new_tokens": 20, "do_sample": False, "pad_token_id": 0}
    other = build_model(seed=1)
    said = other.generate(prompt, **plain)[0].numpy().astype(np.int32)
    teach(other, [said]).save(tmp_path)
    used, fresh = (custom_generate("eagle:depth=2", draft_head=tmp_path) for _ in range(2))
    build_model().generate(prompt, **plain, custom_generate=used)
    for method in (used, fresh):
        other.generate(prompt, **plain, custom_generate=method)
    assert used.generations[0].accepted == fresh.generations[0].accepted
    assert sum(fresh.generations[0].accepted) > 3


def test_a_head_must_be_named_and_a_model_be_there(model, outputs, head):
    with pytest.raises(InputError, match="--draft-head"):
        parse("eagle").prepare(Resources([], 0, target=Target(model)))
    with pytest.raises(InputError, match="give a model"):
        parse("fr-spec").prepare(Resources([], 0))
    with pytest.raises(InputError, match="give a model to decode with"):
        simulate(lambda: eagle(model, head), References(outputs[0][:1], outputs[1][:1], 0), 8)
    with pytest.raises(InputError, match="depth must lie between 1 and 64, got 0"):
        parse("eagle:depth=0")


def test_a_bias_of_the_lm_head_is_kept_when_rows_are_packed():
    lm_head = nn.Linear(4, 9)
    hidden = torch.randn(3, 4)
    packed = Frequent(lm_head, torch.tensor([2, 5, 7]))
    torch.testing.assert_close(packed.logits(hidden), lm_head(hidden)[:, [2, 5, 7]])
