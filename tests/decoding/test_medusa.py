"""Medusa: trees as defined, one state of the target, folders that say what they hold."""

import itertools
import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch.nn.functional import linear, silu

from tasc.decoding.decode import generate
from tasc.decoding.drafters import Resources, parse
from tasc.decoding.drafters.heads.draft_vocab.full import Full, Unchanging
from tasc.decoding.drafters.heads.eagle import EagleOptions
from tasc.decoding.drafters.heads.medusa import Medusa
from tasc.decoding.drafters.heads.tree import product
from tasc.errors import InputError, IntegrityError
from tasc.models.draft_head import load_head, new_head
from tasc.models.medusa import load_medusa, new_medusa
from tasc.models.target import Target
from tests.pico import build_model

PROMPT = np.array([5, 6, 7, 8], np.int32)


@pytest.fixture(scope="module")
def model():
    return build_model()


@pytest.fixture
def heads(model):
    """Three heads that say something else each."""
    torch.manual_seed(0)
    heads = new_medusa(model, 3)
    torch.nn.init.normal_(heads.weight, std=0.3)
    return heads


class Rows(Unchanging):
    """A vocabulary whose logits are given."""

    ids: torch.Tensor | None = None

    def __init__(self, rows: list[list[float]]) -> None:
        self.rows = torch.tensor(rows)

    def logits(self, hidden):
        return self.rows[: len(hidden)]


def best_paths(rows, width, budget):
    """The values of the best paths of all, each level's tokens below every path."""
    distributions = torch.tensor(rows).log_softmax(-1)
    offered = [
        distribution.topk(min(width, distribution.numel())) for distribution in distributions
    ]
    levels = [list(zip(top.indices.tolist(), top.values.tolist(), strict=True)) for top in offered]
    found = [
        (tuple(token for token, _ in path), sum(value for _, value in path))
        for depth in range(1, len(rows) + 1)
        for path in itertools.product(*levels[:depth])
    ]
    return sorted(found, key=lambda node: -node[1])[:budget]


@settings(deadline=None)
@given(st.data())
def test_the_tree_holds_the_most_probable_paths_of_all(data):
    depth, size = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 5))
    numbers = st.floats(-4, 4, width=32)
    rows = data.draw(
        st.lists(st.lists(numbers, min_size=size, max_size=size), min_size=depth, max_size=depth)
    )
    width, budget = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 40))
    tokens, parents, values = product(Rows(rows), torch.zeros(depth, 8), width=width, budget=budget)
    expected = best_paths(rows, width, budget)
    assert len(tokens) == len(expected)
    torch.testing.assert_close(
        values.sort(descending=True).values, torch.tensor([v for _, v in expected])
    )
    distributions = torch.tensor(rows).log_softmax(-1)
    paths = []
    for i, (token, parent) in enumerate(zip(tokens.tolist(), parents.tolist(), strict=True)):
        assert parent < i
        paths.append(([*paths[parent]] if parent >= 0 else []) + [token])
        own = sum(float(distributions[level, token]) for level, token in enumerate(paths[-1]))
        assert own == pytest.approx(float(values[i]), abs=1e-4)
    assert len({tuple(path) for path in paths}) == len(paths)


def test_a_column_without_a_token_is_no_node():
    tokens, parents, _ = product(
        Rows([[1.0, -torch.inf, 0.5]] * 2), torch.zeros(2, 8), width=3, budget=9
    )
    assert sorted(tokens.tolist()) == [-1] * 3 + [0] * 3 + [2] * 3
    for token, parent in zip(tokens.tolist(), parents.tolist(), strict=True):
        assert token < 0 or parent < 0 or tokens[parent] >= 0


@torch.no_grad()
def test_a_head_is_medusas_block(model, heads):
    hidden = torch.randn(5, heads.weight.shape[1])
    said = heads(hidden)
    for k in range(heads.count):
        expected = hidden + silu(linear(hidden, heads.weight[k], heads.bias[k]))
        torch.testing.assert_close(said[k], expected)
    assert torch.equal(new_medusa(model, 2)(hidden)[1], hidden)  # untrained: the target's own


@torch.no_grad()
def test_every_draft_follows_from_the_state_before_the_last_token(model, heads):
    lm_head = model.get_output_embeddings()
    full = Full(lm_head)
    drafter = Medusa(heads, lambda: full, EagleOptions(depth=3, width=4))
    said, drafts, observe = [], [], drafter.observe

    def note(tokens):
        said.extend(tokens.tolist())
        observe(tokens)
        drafts.append((len(said), drafter.draft(12)))

    drafter.observe = note
    generate(Target(model), drafter, PROMPT, max_new_tokens=12, budget=6)
    for count, draft in drafts:
        ids = torch.tensor([[*PROMPT.tolist(), *said[: count - 1]]])
        hidden = model.base_model(input_ids=ids, use_cache=False).last_hidden_state[0, -1:]
        rows = lm_head(heads(hidden)[:, 0])
        expected = [value for _, value in best_paths(rows.tolist(), 4, 12)]
        found = sorted(np.log(draft.probabilities).tolist(), reverse=True)
        np.testing.assert_allclose(found, expected, atol=1e-3)
        best = rows[0].topk(4).indices.tolist()
        assert set(draft.tokens[draft.parents < 0].tolist()) <= set(best)


def test_a_pruned_lm_head_serves_all_heads(model, heads, tmp_path):
    heads.save(tmp_path)
    target = Target(model)
    some = np.arange(100, 120, dtype=np.int32)
    resources = Resources([some], 0, target=target, draft_heads=[tmp_path])
    drafter = parse("medusa:size=21").prepare(resources)()
    generate(target, drafter, PROMPT, max_new_tokens=5, budget=9)
    drafted = drafter.draft(60).tokens
    assert len(drafted) == 60
    assert set(drafted.tolist()) <= {0, *some.tolist()}


def published(folder, model, heads, *, own: bool, name: str = "medusa_lm_head.safetensors"):
    """Write heads as Medusa publishes them; with LM heads of their own, unlike the target's."""
    weights = {}
    for k in range(heads.count):
        weights[f"{k}.0.linear.weight"], weights[f"{k}.0.linear.bias"] = (
            heads.weight[k],
            heads.bias[k],
        )
        if own:
            weights[f"{k}.1.weight"] = model.get_output_embeddings().weight.roll(k + 1, 0)
    folder.mkdir()
    save_file({n: t.detach().contiguous() for n, t in weights.items()}, folder / name)
    config = {"medusa_num_heads": 5, "medusa_num_layers": 1, "base_model_name_or_path": "x"}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@torch.no_grad()
@pytest.mark.parametrize("size", [0, 30])
def test_published_heads_draft_with_lm_heads_of_their_own(model, heads, tmp_path, size):
    folder = published(tmp_path / "theirs", model, heads, own=True)
    loaded = load_medusa(folder, model)
    target, some = Target(model), np.arange(100, 129, dtype=np.int32)
    resources = Resources([some], 0, target=target, draft_heads=[folder])
    drafter = parse(f"medusa:size={size},width=4").prepare(resources)()
    generate(target, drafter, PROMPT, max_new_tokens=1, budget=9)
    draft = drafter.draft(12)
    hidden = model.base_model(input_ids=torch.tensor(PROMPT[None]).long()).last_hidden_state[0, -1:]
    weight = model.get_output_embeddings().weight
    rows = torch.stack([weight.roll(k + 1, 0) @ loaded(hidden)[k, 0] for k in range(3)])
    if size:
        outside = torch.ones(320, dtype=torch.bool)
        outside[[0, *some.tolist()]] = False
        rows[:, outside] = -torch.inf
    expected = [value for _, value in best_paths(rows.tolist(), 4, 12)]
    found = sorted(np.log(draft.probabilities).tolist(), reverse=True)
    np.testing.assert_allclose(found, expected, atol=1e-3)
    loaded.save(tmp_path / "again")
    assert torch.equal(load_medusa(tmp_path / "again", model).lm_heads, loaded.lm_heads)


def test_published_heads_without_lm_heads_share_the_targets(model, heads, tmp_path):
    loaded = load_medusa(published(tmp_path / "theirs", model, heads, own=False), model)
    assert loaded.lm_heads is None
    assert torch.equal(loaded.weight, heads.weight)
    assert torch.equal(loaded.bias, heads.bias)


def test_heads_that_are_not_whole_are_refused(model, heads, tmp_path):
    folder = published(tmp_path / "deep", model, heads, own=False)
    (folder / "config.json").write_text('{"medusa_num_heads": 3, "medusa_num_layers": 2}')
    with pytest.raises(InputError, match="of 2 residual blocks, those of one are read"):
        load_medusa(folder, model)
    folder = published(tmp_path / "pickled", model, heads, own=False, name="medusa_lm_head.pt")
    with pytest.raises(InputError, match=r"medusa_lm_head.pt, a pickle"):
        load_medusa(folder, model)


def test_heads_of_another_kind_or_target_are_refused(model, heads, tmp_path):
    heads.save(tmp_path / "medusa")
    new_head(model).save(tmp_path / "eagle")
    with pytest.raises(InputError, match="holds no Medusa heads: train them with"):
        load_medusa(tmp_path / "eagle", model)
    with pytest.raises(InputError, match="decode with the method medusa"):
        load_head(tmp_path / "medusa", model)
    other = build_model(vocabulary=400)
    published(tmp_path / "wide", other, new_medusa(other, 1), own=True)
    with pytest.raises(InputError, match="made for 400 tokens, the model has 320"):
        load_medusa(tmp_path / "wide", model)
    new_medusa(build_model(hidden=32), 1).save(tmp_path / "narrow")
    with pytest.raises(InputError, match="it belongs to another model"):
        load_medusa(tmp_path / "narrow", model)
    weights = load_file(tmp_path / "medusa" / "model.safetensors")
    del weights["1.0.linear.bias"]
    save_file(weights, tmp_path / "medusa" / "model.safetensors")
    with pytest.raises(IntegrityError, match=r"lacks the weight '1.0.linear.bias'"):
        load_medusa(tmp_path / "medusa", model)
