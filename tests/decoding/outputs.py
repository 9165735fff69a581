"""Prompts, corpora and resources that tests of methods share."""

from collections.abc import Sequence
from copy import deepcopy
from functools import cache
from typing import Any

import numpy as np
from transformers import PreTrainedModel

from tasc.decoding.core.generation import Generation
from tasc.decoding.core.resources import DraftSource
from tasc.decoding.decode import Request, generate_all
from tasc.decoding.drafters import Resources
from tasc.models.packed import is_packed, pack


def random_prompts(*lengths: int, seed: int = 0) -> list[np.ndarray]:
    """Return a prompt (n,) int32 of random tokens for each length."""
    rng = np.random.default_rng(seed)
    return [rng.integers(1, 320, n).astype(np.int32) for n in lengths]


def misleading(outputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return a corpus: each output twice, and once with its tokens in a wrong order."""
    rng = np.random.default_rng(1)
    return [*outputs, *outputs, *(rng.permutation(o).astype(np.int32) for o in outputs)]


@cache
def as_draft(model: PreTrainedModel) -> PreTrainedModel:
    """Return a copy with packed layers, as a bench decodes draft models; or a packed ``model``."""
    if is_packed(model):
        return model
    copied = deepcopy(model)
    pack(copied)
    return copied


def resources_of(target, tokenizer, corpus: Sequence[np.ndarray] = (), **given: Any) -> Resources:
    """Return what any method may need; the draft model is a copy of the target's own."""
    draft = None if target.chains_only else DraftSource(tokenizer, as_draft(target.model))
    own: dict[str, Any] = {"target": target, "tokenizer": tokenizer, "draft": draft}
    return Resources(corpus, 0, **own | given)


def generate(target, drafter, prompt: np.ndarray, **limits: Any) -> Generation:
    return generate_all(target, [Request(prompt, lambda: drafter)], **limits)[0]


def lists(outputs: Sequence[np.ndarray | Generation]) -> list[list[int]]:
    return [(o.tokens if isinstance(o, Generation) else o).tolist() for o in outputs]
