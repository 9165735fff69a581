"""Draft heads: trees as defined, caches of what was accepted, output that is the target's."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tasc.decoding.core.draft import Draft
from tasc.decoding.custom_generate import custom_generate
from tasc.decoding.decode import Request, generate_all
from tasc.decoding.drafters import Resources, parse
from tasc.decoding.drafters.heads.draft_vocab.frequent import Frequent
from tasc.decoding.drafters.heads.draft_vocab.full import Full
from tasc.decoding.drafters.heads.draft_vocab.microspec import MicroSpec, WindowOptions
from tasc.decoding.drafters.heads.eagle import EagleOptions
from tasc.decoding.drafters.none import Autoregressive
from tasc.decoding.simulate import References, simulate
from tasc.errors import InputError
from tasc.models.draft_head import new_head
from tasc.models.target import Target
from tests.decoding.heads import EAGLE_OPTIONS as OPTIONS
from tests.decoding.heads import after_prefill, eagle, teach
from tests.decoding.outputs import generate, random_prompts
from tests.decoding.scripted import ints, paths
from tests.pico import ARCHITECTURES, build_model, continued


@pytest.fixture(scope="module")
def model():
    return build_model()


@pytest.fixture(scope="module")
def outputs(model):
    """Prompts, and the sequences that the model itself makes of them."""
    prompts = random_prompts(3, 11, 20)
    return prompts, [np.concatenate([p, continued(model, p, 30)]) for p in prompts]


@pytest.fixture(scope="module")
def head(model, outputs):
    return teach(model, outputs[1])


class Recorder:
    """A drafter that keeps what another one proposed, and the sequence it proposed it after."""

    def __init__(self, drafter, first=None):
        self.drafter, self.sequence, self.drafts = drafter, [], []
        self.first = first  # a draft after the prompt, which is not kept
        self.needs = replace(drafter.needs, drafts_first=first is not None)
        self.on_hidden_states = drafter.on_hidden_states

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
    for n in range(len(path) + 1):
        seen = torch.cat((tokens, torch.tensor(path[:n], dtype=tokens.dtype)))
        states = head(embedding(seen)[None], hidden[None], torch.arange(len(seen))[None])[0]
        hidden = torch.cat((hidden, states[-1:]))
    return vocabulary.logits(states[-1:]).log_softmax(-1)[0]


def tree_by_hand(model, head, sequence, vocabulary, options, budget):
    """The paths of EAGLE-2's tree with their values: the definition in plain words."""
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


@pytest.mark.parametrize(("some", "shared"), [(False, None), (True, None), (False, 0), (False, 5)])
def test_every_tree_of_a_generation_is_the_one_defined(model, outputs, head, some, shared):
    # The drafter keeps keys and values across steps; the definition starts from nothing each time.
    lm_head, prompt = model.get_output_embeddings(), outputs[0][1]
    said = outputs[1][1][len(prompt) :]
    known = torch.tensor(sorted({*said.tolist(), *range(10, 40)}))
    vocabulary = Frequent(lm_head, known) if some else Full(lm_head)
    target, first = Target(model), None
    if shared is not None:  # with a draft after the prompt, whose second path is accepted
        target.share(prompt[:shared])
        first = Draft(ints(said[0] - 1, *said[:2]), ints(-1, -1, 1))
    recorder = Recorder(eagle(model, head, vocabulary), first)
    result = generate(target, recorder, prompt, max_new_tokens=25, budget=9)
    assert max(result.accepted) > 1
    assert result.prefilled == (1 if first is None else 3)
    for sequence, draft in recorder.drafts[:8]:
        budget = min(9, len(prompt) + 25 - len(sequence) - 1)
        options = EagleOptions(min(OPTIONS.depth, budget), min(OPTIONS.width, budget))
        expected = tree_by_hand(model, head, sequence, vocabulary, options, budget)
        found = dict(zip(paths(draft), np.log(draft.probabilities).tolist(), strict=True))
        assert found == pytest.approx(expected, rel=0, abs=2e-3)


def test_drafting_twice_gives_the_same_tree(model, outputs, head):
    drafter = after_prefill(eagle(model, head), Target(model), outputs[0][0])
    first, second = drafter.draft(12), drafter.draft(12)
    assert first.tokens.tolist() == second.tokens.tolist()
    assert len(drafter.draft(0)) == 0


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@torch.no_grad()
def test_hidden_states_are_those_the_lm_head_reads(architecture):
    model = build_model(architecture)
    target, prompt = Target(model), ints(5, 6, 7)
    target.begin(len(prompt) + 8)
    row = target.join([prompt], hidden=True)
    lm_head = model.get_output_embeddings()
    assert len(target.states[0]) == 3
    torch.testing.assert_close(lm_head(target.states[0, -1:]), row)
    rows = target.score([9], [(ints(1, 2), ints(-1, -1))])[0]
    torch.testing.assert_close(lm_head(target.states[0]), rows)
    assert not model.base_model._forward_hooks
    target.prefill(prompt, 8)
    assert target.states is None


def test_batches_draft_as_single_sequences_do(model, outputs, head):
    # One that reads nothing of the target is among them.
    drafters = [Autoregressive, *([lambda: eagle(model, head)] * 2)]
    asked = [Request(p, d) for p, d in zip(outputs[0], drafters, strict=True)]
    alone, together = (
        generate_all(Target(model), asked, max_new_tokens=30, budget=9, batch_size=n)
        for n in (1, 2)
    )
    for one, other in zip(alone, together, strict=True):
        assert one.tokens.tolist() == other.tokens.tolist()
        assert one.accepted == other.accepted
    assert sum(sum(g.accepted) for g in alone) > 10


class Seldom:
    """Drafts in one of four steps only, and then some of the requested nodes."""

    def __init__(self, drafter):
        self.drafter, self.steps, self.needs = drafter, 0, drafter.needs
        self.start, self.observe = drafter.start, drafter.observe
        self.on_hidden_states = drafter.on_hidden_states

    def draft(self, max_nodes):
        self.steps += 1
        return self.drafter.draft(min(max_nodes, 6)) if self.steps % 4 == 1 else Draft()


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
    drafts, prompt = [], outputs[0][1]
    for target in (Target(model), Captured(model)):
        recorder = Recorder(Seldom(eagle(model, head)))
        result = generate(target, recorder, prompt, max_new_tokens=30, budget=12)
        assert result.tokens.tolist() == outputs[1][1][len(prompt) :].tolist()
        assert sum(result.accepted) > 3
        drafts.append([p for _, d in recorder.drafts if len(d) for p in d.probabilities.tolist()])
    assert len(drafts[0]) > 10
    assert drafts[0] == pytest.approx(drafts[1], rel=1e-4)


@pytest.mark.parametrize(("drafter", "name"), [("eagle:depth=2", "eagle"), (None, "mix")])
def test_the_library_takes_a_head(outputs, tmp_path, drafter, name):
    model = build_model()
    new_head(model).save(tmp_path)
    prompt = outputs[0][0]
    fast = custom_generate(drafter, draft_head=tmp_path)
    assert fast.method.name == name
    said = continued(model, prompt, 12, custom_generate=fast)
    assert said.tolist() == outputs[1][0][len(prompt) :][: len(said)].tolist()
    assert fast.method.adaptive or sum(fast.generations[0].drafted) > 0


def test_a_method_goes_on_with_another_model_as_if_it_were_the_first(outputs, tmp_path):
    prompt, other = outputs[0][0], build_model(seed=1)
    teach(other, [np.concatenate([prompt, continued(other, prompt, 20)])]).save(tmp_path)
    used, fresh = (custom_generate("eagle:depth=2", draft_head=tmp_path) for _ in range(2))
    continued(build_model(), prompt, 20, custom_generate=used)
    for method in (used, fresh):
        continued(other, prompt, 20, custom_generate=method)
    assert used.generations[0].accepted == fresh.generations[0].accepted
    assert sum(fresh.generations[0].accepted) > 3


def test_a_head_must_be_named_and_a_model_be_there(model, outputs, head):
    with pytest.raises(InputError, match="--draft-head"):
        parse("eagle").prepare(Resources([], 0, target=Target(model)))
    with pytest.raises(InputError, match="give a model"):
        parse("fr-spec").prepare(Resources([], 0))
    with pytest.raises(InputError, match="give a model to decode with"):
        simulate(lambda: eagle(model, head), References(outputs[0][:1], outputs[1][:1], 0), 8)


def head_over(model, vocabulary):
    """Return a drafter over a vocabulary, whose head has random weights."""
    return eagle(model, new_head(model, 1), vocabulary, EagleOptions(depth=4, width=5))


@pytest.mark.parametrize(
    ("prompt", "options", "frequent"),
    [
        (np.random.default_rng(0).permutation(320).astype(np.int32), WindowOptions(), False),
        (ints(7, 7, 9), WindowOptions(context=False, extension=False, frequent=320), True),
    ],
    ids=["in the window", "frequent"],
)
def test_with_every_token_in_its_vocabulary_microspec_drafts_the_tree_of_the_whole(
    model, prompt, options, frequent
):
    lm_head = model.get_output_embeddings()
    rows = Frequent(lm_head, torch.arange(320)) if frequent else None
    whole, found = (
        after_prefill(head_over(model, vocabulary), Target(model), prompt).draft(30)
        for vocabulary in (None, MicroSpec(lm_head, options, None, rows))
    )
    assert whole.tokens.tolist() == found.tokens.tolist()
    assert whole.parents.tolist() == found.parents.tolist()
    assert np.allclose(whole.probabilities, found.probabilities, rtol=1e-3)


def test_columns_without_a_token_are_never_drafted(model):
    lm_head, prompt = model.get_output_embeddings(), ints(7, 7, 9)
    few = MicroSpec(lm_head, WindowOptions(window=50, k_pre=0, k_ver=1))
    draft = after_prefill(head_over(model, few), Target(model), prompt).draft(30)
    said = int(Target(model).prefill(prompt, 1).argmax())
    assert set(draft.tokens.tolist()) == {7, 9, said}
    assert len(draft) == 30
    assert (draft.probabilities > 0).all()
