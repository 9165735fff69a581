"""The methods with a trained head: EAGLE-2, FR-Spec and MicroSpec.

To add another draft vocabulary, write an options class and a short function that passes a maker of
``DraftVocabulary`` to ``drafters``; it is called once per sequence.
"""

from collections.abc import Callable
from dataclasses import dataclass

from transformers import PreTrainedModel

from tasc.decoding.core.protocols import Factory
from tasc.decoding.core.resources import Resources
from tasc.decoding.drafters.heads.draft_vocab.frequent import Frequent, lm_head
from tasc.decoding.drafters.heads.draft_vocab.full import DraftVocabulary, Full
from tasc.decoding.drafters.heads.draft_vocab.microspec import MicroSpec, WindowOptions, quick
from tasc.decoding.drafters.heads.eagle import Eagle, EagleOptions
from tasc.errors import InputError
from tasc.models.draft_head import load_head
from tasc.models.packed import PackedLinear, is_packed, pack
from tasc.options.bounds import MOST, within


@dataclass(frozen=True)
class FrSpecOptions(EagleOptions):
    """EAGLE-2's options, over the ``size`` most frequent tokens at most."""

    size: int = within(32768, 1, MOST)


@dataclass(frozen=True)
class MicroSpecOptions(EagleOptions, WindowOptions):
    """EAGLE-2's options, over the tokens of a sliding window."""


def eagle(resources: Resources, options: EagleOptions) -> Factory:
    """Prepare EAGLE-2 over the whole vocabulary."""
    full = Full(lm_head(_model(resources)))
    return drafters(resources, lambda: full, options)


def fr_spec(resources: Resources, options: FrSpecOptions) -> Factory:
    """Prepare EAGLE-2 over the most frequent tokens, from a counts file or the outputs."""
    frequent = Frequent.of(lm_head(_model(resources)), resources, options.size)
    return drafters(resources, lambda: frequent, options)


def microspec(resources: Resources, options: MicroSpecOptions) -> Factory:
    """Prepare MicroSpec with one window per sequence."""
    head = lm_head(_model(resources))
    frequent = Frequent.of(head, resources, options.frequent) if options.frequent else None
    if isinstance(head, PackedLinear):
        head = head.unpacked()  # rows of its weight are gathered in each step
    ranking = quick(head)
    return drafters(resources, lambda: MicroSpec(head, options, ranking, frequent), options)


def drafters(
    resources: Resources, vocabulary: Callable[[], DraftVocabulary], options: EagleOptions
) -> Factory:
    """Load the draft head; make one vocabulary per sequence with ``vocabulary``."""
    model = _model(resources)
    if resources.draft_head is None:
        raise InputError("no draft head: name its folder with --draft-head")
    head = load_head(resources.draft_head, model)
    if is_packed(model):
        pack(head)
    return lambda: Eagle(head, model.get_input_embeddings(), vocabulary, options)


def _model(resources: Resources) -> PreTrainedModel:
    if resources.target is None:
        raise InputError("a draft head reads the model's hidden states: give a model")
    return resources.target.model
