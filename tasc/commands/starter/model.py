"""What ``tasc init`` reads of the model without loading its weights."""

import math

from tasc.errors import InputError
from tasc.files.packaged import is_here
from tasc.models.folder.fetch import local_folder
from tasc.models.folder.files import count_parameters
from tasc.options.references import resolve_model
from tasc.tokenizer.loaded import LoadedTokenizer, load_tokenizer


def tokenizer_of(model: str | None) -> LoadedTokenizer | None:
    """Return a model's tokenizer; None without a model, and for one on the Hub."""
    return load_tokenizer(model) if model and is_here(model) else None


def parameters_of(model: str | None) -> float:
    """Count a model's parameters; infinity if it is not on this machine or has no weights."""
    if model is None:
        return 0
    folder = local_folder(resolve_model(model)[1])
    try:
        return count_parameters(folder)
    except InputError:
        return math.inf
