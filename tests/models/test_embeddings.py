import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tasc.errors import InputError
from tasc.models.embeddings import extend_embeddings, keep_rows
from tasc.models.folder.tying import is_tied
from tests import pico
from tests.training.samples import Row

ROWS = (Row(320, (5, 6)), Row(321, (7, 7, 8, 9)))


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("architecture", pico.ARCHITECTURES)
def test_new_rows_are_means_of_base_rows_in_both_matrices(architecture, tied):
    model = pico.build_model(architecture, tied=tied)
    before = copy.deepcopy(model)
    extend_embeddings(model, ROWS)
    assert is_tied(model) == tied
    assert model.config.vocab_size == 322
    for matrix in ("get_input_embeddings", "get_output_embeddings"):
        old, new = getattr(before, matrix)().weight, getattr(model, matrix)().weight
        assert new.shape == (322, 64)
        assert torch.equal(new[:320], old)
        for row in ROWS:
            torch.testing.assert_close(new[row.new_id], old[list(row.base_ids)].mean(0))


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("architecture", [*pico.ARCHITECTURES, "phi", "gemma4_text"])
def test_a_model_of_fewer_rows_gives_the_logits_of_those_it_keeps(architecture, tied):
    model = pico.build_model(architecture, tied=tied)
    kept = [0, *range(7, 200, 3), 310, 319]
    model.config.pad_token_id, model.config.bos_token_id = 310, 5
    model.generation_config.eos_token_id = [0, 5, 319]
    ids = torch.randint(len(kept), (2, 12), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        before = model(torch.tensor(kept)[ids]).logits[..., kept]
        keep_rows(model, kept)
        torch.testing.assert_close(model(ids).logits, before)
    assert model.config.vocab_size == len(kept)
    assert (model.config.pad_token_id, model.config.bos_token_id) == (len(kept) - 2, None)
    assert model.generation_config.eos_token_id == [0, len(kept) - 1]
    with pytest.raises(InputError, match="keeps token 319: give --augmented a folder"):
        keep_rows(model, kept)


@pytest.mark.parametrize(("vocabulary", "rows"), [(320, 330), (512, 512)])
def test_the_matrices_grow_to_the_length_of_the_tokenizer_and_never_shrink(vocabulary, rows):
    model = pico.build_model(vocabulary=vocabulary)
    extend_embeddings(model, ROWS, size=330)
    for matrix in (model.get_input_embeddings(), model.get_output_embeddings()):
        assert len(matrix.weight) == model.config.vocab_size == rows
        torch.testing.assert_close(matrix.weight[320], matrix.weight[[5, 6]].mean(0))


def test_means_of_a_bfloat16_model_are_taken_in_float32():
    model = pico.build_model().to(torch.bfloat16)
    rows = [Row(320, tuple(range(1, 64)))]
    expected = model.get_input_embeddings().weight[1:64].float().mean(0).to(torch.bfloat16)
    extend_embeddings(model, rows)
    assert torch.equal(model.get_input_embeddings().weight[320], expected)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.lists(st.integers(0, 319), min_size=1, max_size=5), min_size=1, max_size=6))
def test_every_new_row_is_the_mean_of_its_own_base_rows(constituents):
    model = pico.build_model(hidden=16, layers=1)
    rows = [Row(320 + i, tuple(ids)) for i, ids in enumerate(constituents)]
    extend_embeddings(model, rows)
    weight = model.get_input_embeddings().weight
    for row in rows:
        torch.testing.assert_close(weight[row.new_id], weight[list(row.base_ids)].mean(0))


@pytest.mark.parametrize(
    "rows",
    [
        [Row(320, (5, 999))],
        [Row(320, ())],
        [Row(320, (1, 2)), Row(321, (320, 3))],
        [Row(320, (1, 2)), Row(320, (3, 4))],
    ],
)
def test_rows_that_do_not_fit_the_model_are_refused_and_nothing_changes(rows):
    model = pico.build_model()
    with pytest.raises(InputError):
        extend_embeddings(model, rows)
    assert model.config.vocab_size == 320


def test_words_that_generate_must_not_write_or_prefers_are_renumbered():
    model = pico.build_model()
    model.generation_config.bad_words_ids = [[7], [3, 7], [5]]
    model.generation_config.sequence_bias = [[[7], 1.5], [[3, 5], 2.0], [[3, 7], -1.0]]
    keep_rows(model, [0, 3, 7])
    assert model.generation_config.bad_words_ids == [[2], [1, 2]]
    assert model.generation_config.sequence_bias == [[[2], 1.5], [[1, 2], -1.0]]
