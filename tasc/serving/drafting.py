"""Decodes an exported model with the draft head or index in its folder."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from tasc.errors import InputError, TascError
from tasc.serving.parts import HEAD_FOLDER, INDEX_FOLDER

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from tasc.decoding.custom_generate import CustomGenerate

_PLAIN = ("assistant_model", "streamer", "past_key_values", "inputs_embeds")
_methods: "WeakKeyDictionary[PreTrainedModel, CustomGenerate]" = WeakKeyDictionary()


def drafted(
    plain: Callable[..., Any],
    model: "PreTrainedModel",
    warn: Callable[[str], None],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:  # noqa: ANN401
    """Call ``plain``, the model's own ``generate``, with drafts if possible."""
    if any(kwargs.get(name) is not None for name in _PLAIN):
        return plain(model, *args, **kwargs)
    try:
        return plain(model, *args, **kwargs, custom_generate=_method(model))
    except TascError as error:
        warn(str(error))
        return plain(model, *args, **kwargs)


def _method(model: "PreTrainedModel") -> "CustomGenerate":
    if model not in _methods:
        _methods[model] = method_of(Path(model.name_or_path))
    return _methods[model]


def method_of(folder: Path) -> "CustomGenerate":
    """Return the decoding method of an exported folder, from its head or its index.

    Raises InputError if there is neither, or if they belong to another model.
    """
    from tasc.decoding.custom_generate import custom_generate
    from tasc.decoding.drafters.ngram.index import load_index, method_for
    from tasc.tokenizer.loaded import load_tokenizer

    head = folder / HEAD_FOLDER
    if head.is_dir():
        return custom_generate(draft_head=head)
    if not (folder / INDEX_FOLDER).is_dir():
        raise InputError(f"{folder} has no index: export it again with tasc export --index")
    index = load_index(folder / INDEX_FOLDER, load_tokenizer(str(folder)))
    return custom_generate(method_for(index), index)
