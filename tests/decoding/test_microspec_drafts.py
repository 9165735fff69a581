"""MicroSpec under EAGLE's drafter: what is drafted from a window."""

import numpy as np
import torch

from tasc.decoding.core.draft import Draft
from tasc.decoding.drafters.heads.draft_vocab.frequent import Frequent
from tasc.decoding.drafters.heads.draft_vocab.full import Full
from tasc.decoding.drafters.heads.draft_vocab.microspec import MicroSpec, WindowOptions
from tasc.decoding.drafters.heads.eagle import Eagle, EagleOptions
from tasc.models.draft_head import new_head
from tasc.models.target import Target
from tests.pico import build_model

V, D = 200, 8


def draft_of(model, make, prompt: torch.Tensor) -> Draft:
    """The first draft after ``prompt`` with a head of random weights."""
    drafter = Eagle(
        new_head(model, 1), model.get_input_embeddings(), make, EagleOptions(depth=4, width=5)
    )
    target = Target(model)
    target.begin(len(prompt) + 40)
    rows = target.join([prompt.numpy().astype(np.int32)], hidden=True)
    drafter.start(prompt.numpy().astype(np.int32))
    drafter.on_hidden_states(target.states[0], rows, np.empty(0, np.int32))
    drafter.observe(np.array([int(rows.argmax())], np.int32))
    return drafter.draft(30)


def test_frequent_tokens_are_enough_for_a_draft():
    model = build_model("llama")
    lm_head, prompt = model.get_output_embeddings(), torch.tensor([7, 7, 9])
    options = WindowOptions(context=False, extension=False, frequent=320)
    rows = Frequent(lm_head, torch.arange(320))
    whole = draft_of(model, lambda: Full(lm_head), prompt)
    drafted = draft_of(model, lambda: MicroSpec(lm_head, options, None, rows), prompt)
    assert whole.tokens.tolist() == drafted.tokens.tolist()


def test_with_every_token_in_the_window_the_tree_is_that_of_the_whole_vocabulary():
    model = build_model("llama")
    lm_head, prompt = model.get_output_embeddings(), torch.randperm(320)
    whole = draft_of(model, lambda: Full(lm_head), prompt)
    windowed = draft_of(model, lambda: MicroSpec(lm_head), prompt)
    assert whole.tokens.tolist() == windowed.tokens.tolist()
    assert whole.parents.tolist() == windowed.parents.tolist()
    assert np.allclose(whole.probabilities, windowed.probabilities, rtol=1e-3)


def test_columns_without_a_token_are_never_drafted():
    model = build_model("llama")
    lm_head, prompt = model.get_output_embeddings(), torch.tensor([7, 7, 9])
    options = WindowOptions(window=50, k_pre=0, k_ver=1)
    draft = draft_of(model, lambda: MicroSpec(lm_head, options), prompt)
    said = int(Target(model).prefill(prompt.numpy().astype(np.int32), 1).argmax())
    assert set(draft.tokens.tolist()) == {7, 9, said}
    assert len(draft) == 30
    assert (draft.probabilities > 0).all()
