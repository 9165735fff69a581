"""The draft-head methods by name: EAGLE-2 over the whole vocabulary, FR-Spec and MicroSpec.

A vocabulary of another kind needs an options class and a function of a few lines here, which hands
``drafters`` what makes one ``DraftVocabulary`` a sequence.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor, nn

from tasc.errors import InputError
from tasc.models.draft_head import load_head
from tasc.spec.drafters.eagle.drafter import Eagle, EagleOptions
from tasc.spec.drafters.eagle.vocabulary import DraftVocabulary, Frequent, Full
from tasc.spec.drafters.frequent import FrequentRows, lm_head, most_frequent, token_counts
from tasc.spec.microspec.vocabulary import MicroSpec, WindowOptions, quick

if TYPE_CHECKING:
    from tasc.models.target import Target
    from tasc.spec.drafters import Factory, Resources


@dataclass(frozen=True)
class FrSpecOptions(EagleOptions):
    """As EAGLE-2's, over the ``size`` most frequent tokens."""

    size: int = 32768


@dataclass(frozen=True)
class MicroSpecOptions(EagleOptions, WindowOptions):
    """As EAGLE-2's, over the tokens of a sliding window."""

    def __post_init__(self) -> None:
        """Refuse what either part refuses."""
        EagleOptions.__post_init__(self)
        WindowOptions.__post_init__(self)


def eagle(resources: "Resources", options: EagleOptions) -> "Factory":
    """Prepare EAGLE-2 over the whole vocabulary."""
    full = Full(lm_head(_target(resources).model))
    return drafters(resources, lambda: full, options)


def fr_spec(resources: "Resources", options: FrSpecOptions) -> "Factory":
    """Prepare EAGLE-2 over the most frequent tokens of a counts file, or of the outputs."""
    head = lm_head(_target(resources).model)
    frequent = Frequent(head, _most_frequent(resources, head, options.size))
    return drafters(resources, lambda: frequent, options)


def microspec(resources: "Resources", options: MicroSpecOptions) -> "Factory":
    """Prepare MicroSpec: each sequence has a window of its own."""
    head = lm_head(_target(resources).model)
    ranking, frequent = quick(head), None
    if options.frequent:
        frequent = FrequentRows(head, _most_frequent(resources, head, options.frequent))
    return drafters(resources, lambda: MicroSpec(head, options, ranking, frequent), options)


def drafters(
    resources: "Resources", vocabulary: Callable[[], DraftVocabulary], options: EagleOptions
) -> "Factory":
    """Load the head; each sequence gets a vocabulary from ``vocabulary``."""
    model = _target(resources).model
    if resources.draft_head is None:
        raise InputError(
            "eagle, fr-spec and microspec draft with a trained head: make one with "
            "tasc finetune --draft-head and name its folder with --draft-head"
        )
    head = load_head(resources.draft_head, model)
    embedding = model.get_input_embeddings()
    return lambda: Eagle(head, embedding, vocabulary, options)


def _most_frequent(resources: "Resources", head: nn.Linear, size: int) -> Tensor:
    return most_frequent(token_counts(resources, head.weight.shape[0]), size)


def _target(resources: "Resources") -> "Target":
    if resources.target is None:
        raise InputError("a draft head reads the model's hidden states: it cannot run without one")
    return resources.target
