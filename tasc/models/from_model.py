"""A model that belongs to somebody else, as a target for a while."""

from collections.abc import Iterator
from contextlib import contextmanager

from transformers import PreTrainedModel

from tasc.models import attention
from tasc.models.static import Graphs, target_for
from tasc.models.target import Target


@contextmanager
def target_from_model(model: PreTrainedModel, graphs: Graphs = "off") -> Iterator[Target]:
    """Use ``model`` as a target; give it back with its own attention and training modes.

    ``graphs`` as in ``target_for``: what was captured is lost at the end.
    Not for two threads at a time: the attention is a property of the model.
    """
    with restore_model(model):
        yield target_for(model, graphs=graphs)


@contextmanager
def restore_model(model: PreTrainedModel | None) -> Iterator[None]:
    """Let ``model`` be used, if there is one; restore its own attention and training modes."""
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
