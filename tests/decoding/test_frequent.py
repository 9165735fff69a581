"""FR-Spec: which tokens are drafted, by what counts, and with which models."""

import numpy as np
import pytest
import torch

from tasc.analysis.token_counts import load_counts, save_counts
from tasc.decoding.core.resources import DraftSource
from tasc.decoding.drafters import Resources, parse
from tasc.decoding.drafters.heads.draft_vocab.frequent import (
    corpus_counts,
    most_frequent,
    pruned,
    token_counts,
)
from tasc.decoding.drafters.hetero.options import HeteroOptions
from tasc.decoding.drafters.hetero.source import pair_of
from tasc.errors import InputError, IntegrityError
from tasc.models.draft_head import new_head
from tasc.tokenizer.loaded import load_tokenizer
from tests.decoding.outputs import generate, resources_of
from tests.decoding.scripted import ints
from tests.pico import ARCHITECTURES, build_model, make_tokenizer

FREQUENT = range(100, 140)


@pytest.fixture(scope="module")
def counts(tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("counts")
    found = np.zeros(len(tokenizer.vocabulary()), np.int64)
    found[FREQUENT] = np.arange(len(FREQUENT), 0, -1)
    save_counts(folder, tokenizer, np.ones_like(found), found)
    return folder


@pytest.mark.parametrize(
    "wrong",
    [np.zeros(9, np.int64), np.zeros((2, 320), np.int64), np.zeros(320), np.full(320, -1)],
    ids=["few", "wide", "float", "negative"],
)
def test_counts_that_count_no_tokens_are_refused(tokenizer, tmp_path, wrong):
    size = len(tokenizer.vocabulary())
    wrong = np.resize(wrong, (*wrong.shape[:-1], size)) if wrong.shape[-1] > 9 else wrong
    save_counts(tmp_path, tokenizer, wrong, wrong)
    with pytest.raises(IntegrityError, match="run tasc analyze again"):
        load_counts(tmp_path, tokenizer)


@pytest.mark.parametrize(
    ("text", "nodes"), [("fr-spec:size=40", 60), ("standard:size=40,confidence=0", 20)]
)
def test_a_draft_head_and_a_draft_model_draft_frequent_tokens_only(
    target, tokenizer, counts, tmp_path, text, nodes
):
    new_head(target.model).save(tmp_path)
    head, counted = str(tmp_path), str(counts)  # or paths
    resources = resources_of(target, tokenizer, draft_head=head, token_counts=counted)
    drafter = parse(text).prepare(resources)()
    generate(target, drafter, ints(5, 6, 7), max_new_tokens=3, budget=30)
    drafted = drafter.draft(nodes).tokens
    assert len(drafted) == nodes
    assert set(drafted.tolist()) <= {0, *FREQUENT[:-1]}  # the end token is one of the 40


def test_counts_of_another_vocabulary_are_made_of_the_outputs(target, tokenizer, counts, tmp_path):
    other = load_tokenizer(str(make_tokenizer(tmp_path, ["zebra zebra zoo"], 280)))
    text = tokenizer.encode(["zebra"]).tokens
    draft = DraftSource(other, target.model)
    resources = resources_of(target, tokenizer, [text], draft=draft, token_counts=counts)
    said = other.encode(["zebra"]).tokens.tolist()
    pair = pair_of(resources, HeteroOptions(size=len(set(said)) + 1))
    draft_model = pair.draft_model()
    row = draft_model.row(draft_model.follow([3, 4]))
    assert set(torch.isfinite(row).nonzero().flatten().tolist()) == {*said, other.eos_id}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_pruned_model_says_the_same_of_fewer_tokens(architecture):
    model = build_model(architecture)
    ids = torch.tensor([[3, 4, 5]])
    with torch.no_grad():
        full = model(input_ids=ids).logits
        counts = np.arange(full.shape[-1])
        part = pruned(model, counts, 10)(input_ids=ids).logits
        again = model(input_ids=ids).logits
    torch.testing.assert_close(part[..., -10:], full[..., -10:])
    assert (part[..., :-10] < full.min() - 10).all()
    assert torch.equal(full, again), "the model itself was changed"


def test_pruning_needs_a_model(target, tokenizer):
    resources = resources_of(target, tokenizer, draft=None)
    with pytest.raises(InputError, match="name a model with --draft"):
        parse("tli:size=40").prepare(resources)


def test_of_equal_counts_the_lower_ids_are_taken():
    counts = np.array([1, 0, 5, 0, 1, 0])
    assert most_frequent(counts, 3).tolist() == [0, 2, 4]
    assert most_frequent(counts, 5).tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(InputError, match="from 1 to 6"):
        most_frequent(counts, 7)


def test_outputs_are_counted_with_their_end_token():
    counts = corpus_counts([ints(3, 3, 1), ints(1)], 0, 5)
    assert counts.tolist() == [2, 2, 0, 2, 0]
    assert corpus_counts([], 2, 3).tolist() == [0, 0, 1]


def test_counts_have_as_many_entries_as_the_embedding_has_rows(tokenizer, counts):
    resources = Resources([], 0, tokenizer=tokenizer, token_counts=counts)
    size = len(tokenizer.vocabulary())
    assert token_counts(resources, size + 9).shape == (size + 9,)
    assert token_counts(resources, size + 9)[100] == 40
    assert token_counts(resources, size).argmax() == resources.end, "an output has an end"
    with pytest.raises(InputError, match="target's tokenizer: pass it"):
        token_counts(Resources([], 0, token_counts=counts), size)
