"""A caller's model as a target, and the same model afterwards."""

from collections.abc import Iterator
from contextlib import contextmanager

from transformers import PreTrainedModel

from tasc.models import attention
from tasc.models.target import Target
from tasc.models.targets.fastest import Graphs, target_for


@contextmanager
def target_from_model(model: PreTrainedModel, graphs: Graphs = "off") -> Iterator[Target]:
    """Use ``model`` as a target; restore its attention and training modes afterwards.

    Captured ``graphs`` (see ``target_for``) are lost at the end. Not thread-safe: the attention is
    a property of the model.
    """
    with restore_model(model):
        yield target_for(model, graphs=graphs)


@contextmanager
def restore_model(model: PreTrainedModel | None) -> Iterator[None]:
    """Restore the attention and training modes of ``model``, if there is one, after the block."""
    if model is None:
        yield
        return
    own = model.config._attn_implementation
    training = [module for module in model.modules() if module.training]
    try:
        yield
    finally:
        if own != attention.NAME:
            model.set_attn_implementation(own)
        for module in training:
            module.training = True
