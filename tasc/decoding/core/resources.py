"""The inputs of drafters."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tasc.progress import Progress, silent

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from tasc._native import NgramIndex
    from tasc.decoding.core.grammar import Grammar
    from tasc.decoding.core.sampling import Sampling
    from tasc.models.target import Target
    from tasc.tokenizer.loaded import LoadedTokenizer


def end_ids(model: "PreTrainedModel | None", tokenizer_end: int | None) -> tuple[int, ...]:
    """Return the end tokens: first the tokenizer's, which ends drafts, then the model's.

    A chat model may have several; its tokenizer has the one that ends a turn.
    """
    configured = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    listed = configured if isinstance(configured, list) else [configured]
    return tuple(dict.fromkeys(int(i) for i in (tokenizer_end, *listed) if i is not None))


@dataclass(frozen=True)
class DraftSource:
    """A draft model with its tokenizer, or n-grams of the tokenizer's tokens."""

    tokenizer: "LoadedTokenizer"
    model: "PreTrainedModel | None" = None

    @property
    def ends(self) -> tuple[int, ...]:
        return end_ids(self.model, self.tokenizer.eos_id)


@dataclass(frozen=True)
class Resources:
    """The corpus' outputs, each (T_i,) int32, the end token, and inputs of some methods.

    ``indexes``: saved ones, used instead of counting ``outputs``. ``target``: for methods that run
    the model. Methods with another vocabulary need the target's ``tokenizer``, draft with ``draft``
    (None: n-grams of bytes), and sample by ``sampling`` (None: greedily). ``draft_head`` is the
    folder of a head trained for that target. ``token_counts``, written by ``tasc analyze`` with its
    tokenizer, ranks tokens for drafts that keep to frequent ones; without it, ``outputs`` do.
    Drafts satisfy ``grammar``.
    """

    outputs: Sequence[np.ndarray]
    end: int
    indexes: "Sequence[NgramIndex]" = ()
    target: "Target | None" = None
    progress: Progress = silent
    tokenizer: "LoadedTokenizer | None" = None
    draft: DraftSource | None = None
    sampling: "Sampling | None" = None
    draft_head: Path | str | None = None
    token_counts: Path | str | None = None
    grammar: "Grammar | None" = None
