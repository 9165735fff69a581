"""A draft and what follows from a step never look at values on the device, but for the tree itself.

Tensors on "meta" have shapes and no values: whatever would make the host wait for a device, such as
``item``, ``nonzero``, a boolean index or a copy to the host, raises there.
"""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from tasc.decoding.drafters.heads import eagle
from tasc.decoding.drafters.heads.draft_vocab import window
from tasc.decoding.drafters.heads.draft_vocab.frequent import Frequent
from tasc.decoding.drafters.heads.draft_vocab.full import Full
from tasc.decoding.drafters.heads.draft_vocab.microspec import MicroSpec, WindowOptions
from tasc.decoding.drafters.heads.draft_vocab.window import Window
from tasc.decoding.drafters.heads.eagle import Eagle, EagleOptions
from tasc.models.draft_head import new_head
from tests.pico import build_model

V, D, BUDGET = 320, 64, 60


@pytest.fixture(scope="module")
def model():
    return build_model().to("meta")


VOCABULARIES: dict[str, Callable[[nn.Linear], object]] = {
    "full": Full,
    "fr-spec": lambda head: Frequent(head, torch.arange(50)),
    "microspec": lambda head: MicroSpec(head, WindowOptions(window=64)),
    "microspec-frequent": lambda head: MicroSpec(
        head, WindowOptions(window=64, frequent=50), None, Frequent(head, torch.arange(50))
    ),
}


def drafter(model, make):
    lm_head = model.get_output_embeddings()
    embedding = model.get_input_embeddings()
    return Eagle(new_head(model), embedding, lambda: make(lm_head), EagleOptions())


@pytest.mark.parametrize("name", VOCABULARIES)
@torch.no_grad()
def test_no_step_waits_for_the_device(model, monkeypatch, name):
    kernels = []
    monkeypatch.setattr(window, "available", lambda _: True)
    monkeypatch.setattr(Window, "push", lambda *_: kernels.append("push"))
    monkeypatch.setattr(window, "gather", lambda *_: kernels.append("gather"))
    trees = []
    monkeypatch.setattr(eagle, "_to_host", lambda *tree: trees.append(tree))
    found = drafter(model, VOCABULARIES[name])
    found.start(np.arange(1, 9, dtype=np.int32))
    rows = 8
    for committed, path in [([3], []), ([4, 5, 6], [0, 2]), ([7], []), ([1, 2], [59])]:
        logits = torch.empty(rows, V, device="meta")
        found.on_hidden_states(
            torch.empty(rows, D, device="meta"), logits, np.array(path, np.int32)
        )
        found.observe(np.array(committed, np.int32))
        found.draft(BUDGET)
        rows = BUDGET + 1
    assert len(trees) == 4
    assert all(part.device.type == "meta" for tree in trees for part in tree)
    assert all(len(tokens) == len(parents) == BUDGET for tokens, parents, _ in trees)
    assert bool(kernels) == name.startswith("microspec")


def test_the_device_of_these_tests_notices_every_wait():
    values = torch.zeros(3, device="meta")
    for wait in (
        lambda: values.sum().item(),
        lambda: values.nonzero(),
        lambda: values[values > 0],
        lambda: torch.unique(values),
        lambda: torch.isin(values, values).any().item(),
        lambda: values.cpu(),
        lambda: values.tolist(),
        lambda: bool(values[0]),
        lambda: values.repeat_interleave(values.long()),
    ):
        with pytest.raises(RuntimeError):
            wait()
