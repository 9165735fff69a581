"""Decide whether a model's LM head is its embedding: the weights decide, not config.json.

A published config.json may say ``tie_word_embeddings`` beside a head of its own, or leave it out.
transformers then loads the head, but whatever reads the configuration later does not: resizing
replaces the head by the embedding, PEFT trains both as one, and engines skip the head. So the
configuration is corrected as soon as the files are known, and again by the loaded model.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import safe_open
from transformers import PreTrainedModel
from transformers.configuration_utils import PreTrainedConfig
from transformers.conversion_mapping import get_model_conversion_mapping
from transformers.core_model_loading import WeightConverter, WeightRenaming, rename_source_key

from tasc.errors import InputError
from tasc.files.tensors import StoredTensor, same_bits
from tasc.models.folder.files import AGAIN, CONFIG, Shapes

KEY = "tie_word_embeddings"
_TEXT = "text_config"


class Matrices(NamedTuple):
    """The names of the embedding and of the LM head in files of weights; None: not there."""

    embedding: str | None
    head: str | None


def is_tied(model: PreTrainedModel) -> bool:
    """Return whether the embedding and the LM head are one matrix; False without a head."""
    head = model.get_output_embeddings()
    weight = getattr(head, "weight", None)  # a quantised head may have none
    return weight is not None and weight is model.get_input_embeddings().weight


def correct(config: PreTrainedConfig, *, tied: bool) -> None:
    """Make a configuration say whether the LM head is the embedding, also in its text part."""
    for part in (config, config.get_text_config()):
        part.tie_word_embeddings = tied


def corrected(values: Mapping[str, Any], *, tied: bool) -> dict[str, Any]:
    """Return the values of a config.json, corrected like ``correct``."""
    text = values.get(_TEXT)
    inner = {_TEXT: {**text, KEY: tied}} if isinstance(text, dict) else {}
    return {**values, **inner, KEY: tied}


def tied_in_files(
    folder: Path,
    stated: Mapping[str, Any],
    skeleton: PreTrainedModel,
    files: Sequence[Path],
    shapes: Shapes,
) -> bool:
    """Return whether the LM head is the embedding, from the files of the weights.

    A head with the values of the embedding is the embedding if the configuration says so. Of
    quantised weights, a missing head may have another name, so the configuration decides.

    Args:
        folder: of the model, for messages.
        stated: the values of config.json.
        skeleton: the model that config.json describes, on the meta device.
        files: of the weights.
        shapes: of the tensors in ``files``.

    Raises InputError for weights without a head if the configuration says that there is one.
    """
    says_tied = bool(getattr(skeleton.config, KEY, False))
    embedding, head = matrices(skeleton, shapes)
    if skeleton.get_output_embeddings() is None or embedding is None:
        return says_tied
    if head is not None:
        return says_tied and _are_equal(files, embedding, head)
    text = stated.get(_TEXT)
    parts = (stated, text if isinstance(text, dict) else {})
    if says_tied or any(part.get(KEY) is True for part in parts):
        return True
    if stated.get("quantization_config") is not None:
        return False
    says = "is false" if any(KEY in part for part in parts) else "is not there, which means false"
    raise InputError(
        f"model {folder} has no LM head: its weights lack {_name(skeleton, head=True)}, and "
        f"{KEY} in {CONFIG} {says}: set it to true if the head is the embedding, else {AGAIN}"
    )


def matrices(skeleton: PreTrainedModel, shapes: Shapes) -> Matrices:
    """Return the embedding and the LM head of ``skeleton`` by their names in files of weights."""
    wanted = [_name(skeleton, head=False), _name(skeleton, head=True)]
    state = skeleton.state_dict()
    transforms = get_model_conversion_mapping(skeleton)
    renamings = [each for each in transforms if isinstance(each, WeightRenaming)]
    converters = [each for each in transforms if isinstance(each, WeightConverter)]
    prefix = skeleton.base_model_prefix
    stored_names: dict[str, str] = {}
    for name in shapes:
        renamed, _ = rename_source_key(name, renamings, converters, prefix, state)
        if renamed not in state:
            renamed, _ = rename_source_key(name, [], [], prefix, state)
        if renamed in wanted:
            stored_names[renamed] = name
    embedding, head = (stored_names.get(name) for name in wanted)
    return Matrices(embedding, head)


def _name(skeleton: PreTrainedModel, *, head: bool) -> str:
    module = skeleton.get_output_embeddings() if head else skeleton.get_input_embeddings()
    names = [name for name, each in skeleton.named_modules() if each is module]
    return f"{names[0]}.weight" if names else ""


def _are_equal(files: Sequence[Path], first: str, second: str) -> bool:
    """Return whether two tensors have the same dtype and the same bits."""
    stored = dict[str, StoredTensor]()
    for file in files:
        with safe_open(file, framework="pt") as tensors:
            for name in {first, second}.intersection(tensors.keys()):
                stored[name] = StoredTensor(file, name)
    return same_bits(stored[first], stored[second])
