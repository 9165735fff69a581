"""The methods with a trained head by name: EAGLE-2, FR-Spec, MicroSpec and Medusa.

A vocabulary of another kind needs an options class and a function of a few lines here, which hands
``drafters`` what makes one ``DraftVocabulary`` a sequence.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor

from tasc.bounds import MOST, within
from tasc.errors import InputError
from tasc.models.draft_head import load_head
from tasc.models.medusa import is_medusa, load_medusa
from tasc.spec.drafters.frequent import lm_head, most_frequent, token_counts
from tasc.spec.drafters.heads.eagle import Eagle, EagleOptions
from tasc.spec.drafters.heads.medusa import Medusa
from tasc.spec.drafters.heads.vocabulary import DraftVocabulary, Frequent, Full, HeadsOwn
from tasc.spec.drafters.table import NO_HEAD
from tasc.spec.microspec.vocabulary import MicroSpec, WindowOptions, quick

if TYPE_CHECKING:
    from tasc.models.target import Target
    from tasc.spec.drafters import Factory, Resources


@dataclass(frozen=True)
class FrSpecOptions(EagleOptions):
    """As EAGLE-2's, over the ``size`` most frequent tokens."""

    size: int = within(32768, 1, MOST)


@dataclass(frozen=True)
class MedusaOptions(EagleOptions):
    """As EAGLE-2's, at most a level a head; over the ``size`` most frequent tokens, 0 for all."""

    size: int = within(0, 0, MOST)


@dataclass(frozen=True)
class MicroSpecOptions(EagleOptions, WindowOptions):
    """As EAGLE-2's, over the tokens of a sliding window."""


def eagle(resources: "Resources", options: EagleOptions) -> "Factory":
    """Prepare EAGLE-2 over the whole vocabulary."""
    full = Full(lm_head(_target(resources).model))
    return drafters(resources, lambda: full, options)


def fr_spec(resources: "Resources", options: FrSpecOptions) -> "Factory":
    """Prepare EAGLE-2 over the most frequent tokens of a counts file, or of the outputs."""
    frequent = _frequent(resources, options.size)
    return drafters(resources, lambda: frequent, options)


def microspec(resources: "Resources", options: MicroSpecOptions) -> "Factory":
    """Prepare MicroSpec: each sequence has a window of its own."""
    head = lm_head(_target(resources).model)
    ranking = quick(head)
    frequent = _frequent(resources, options.frequent) if options.frequent else None
    return drafters(resources, lambda: MicroSpec(head, options, ranking, frequent), options)


def medusa(resources: "Resources", options: MedusaOptions) -> "Factory":
    """Prepare Medusa, with FR-Spec where a ``size`` is given."""
    model = _target(resources).model
    heads = load_medusa(_folder(resources, medusa=True), model)
    vocabulary: DraftVocabulary
    if heads.lm_heads is not None:
        some = _ids(resources, options.size, heads.lm_heads.shape[1]) if options.size else None
        vocabulary = HeadsOwn(heads.lm_heads, some)
    elif options.size:
        vocabulary = _frequent(resources, options.size)
    else:
        vocabulary = Full(lm_head(model))
    return lambda: Medusa(heads, lambda: vocabulary, options)


def drafters(
    resources: "Resources", vocabulary: Callable[[], DraftVocabulary], options: EagleOptions
) -> "Factory":
    """Load EAGLE's head; each sequence gets a vocabulary from ``vocabulary``."""
    model = _target(resources).model
    head = load_head(_folder(resources, medusa=False), model)
    embedding = model.get_input_embeddings()
    return lambda: Eagle(head, embedding, vocabulary, options)


def _frequent(resources: "Resources", size: int) -> Frequent:
    head = lm_head(_target(resources).model)
    return Frequent(head, _ids(resources, size, head.weight.shape[0]))


def _ids(resources: "Resources", size: int, vocabulary: int) -> Tensor:
    return most_frequent(token_counts(resources, vocabulary), size)


def _folder(resources: "Resources", *, medusa: bool) -> Path:
    """Return the first head of a kind; without one the first, whose loader says what it is."""
    heads = list(resources.draft_heads)
    if not heads:
        raise InputError(NO_HEAD)
    same = [head for head in heads if is_medusa(head) == medusa]
    return (same or heads)[0]


def _target(resources: "Resources") -> "Target":
    if resources.target is None:
        raise InputError("a draft head reads the model's hidden states: give a model")
    return resources.target
