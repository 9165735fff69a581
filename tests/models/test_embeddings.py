from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tasc.errors import InputError
from tasc.models.embeddings import extend_embeddings, is_tied, keep_rows
from tests import pico


@dataclass(frozen=True)
class Row:
    new_id: int
    base_ids: tuple[int, ...]


ROWS = (Row(320, (5, 6)), Row(321, (7, 7, 8, 9)))


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("architecture", pico.ARCHITECTURES)
def test_new_rows_are_means_of_base_rows_in_both_matrices(architecture, tied):
    model = pico.build_model(architecture, tied=tied)
    matrices = (model.get_input_embeddings(), model.get_output_embeddings())
    before = [matrix.weight.detach().clone() for matrix in matrices]
    extend_embeddings(model, ROWS)
    assert is_tied(model) == tied
    assert model.config.vocab_size == 322
    for matrix, old in zip(
        (model.get_input_embeddings(), model.get_output_embeddings()), before, strict=True
    ):
        assert matrix.weight.shape == (322, 64)
        assert torch.equal(matrix.weight[:320], old)
        for row in ROWS:
            torch.testing.assert_close(matrix.weight[row.new_id], old[list(row.base_ids)].mean(0))


def test_logits_of_base_tokens_do_not_change():
    model = pico.build_model(tied=False)
    ids = torch.tensor([[1, 2, 3]])
    with torch.no_grad():
        before = model(ids).logits
        extend_embeddings(model, ROWS)
        torch.testing.assert_close(model(ids).logits[..., :320], before)


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


def test_a_padded_vocabulary_is_filled_and_never_shrunk():
    model = pico.build_model(vocabulary=512)
    extend_embeddings(model, ROWS, size=330)
    assert model.get_input_embeddings().weight.shape[0] == 512
    assert model.config.vocab_size == 512
    weight = model.get_input_embeddings().weight
    torch.testing.assert_close(weight[320], weight[[5, 6]].mean(0))


def test_the_matrices_grow_to_the_length_of_the_tokenizer():
    model = pico.build_model()
    extend_embeddings(model, ROWS, size=330)
    assert model.get_output_embeddings().weight.shape[0] == model.config.vocab_size == 330


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
