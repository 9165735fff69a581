"""Check a model's config.json against the weights before building anything from it.

The numbers in config.json decide how much time and memory building takes. Numbers that do not fit
the weights are rejected first.
"""

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from transformers import CONFIG_MAPPING, PreTrainedModel
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
from transformers.quantizers.auto import AUTO_QUANTIZATION_CONFIG_MAPPING

from tasc.data.foreign import one_line
from tasc.errors import InputError, IntegrityError
from tasc.models.folder.adapters import ADAPTER, advice
from tasc.models.folder.files import AGAIN, CONFIG, Shapes, elements, ends_of, model_ends, read_json

_CAUSAL = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")
_LAYERS = re.compile(r"layers?$|depth$|blocks$|types$")
_SIZES = re.compile(
    r"(size|dim|heads?|experts|embd|inner|rank|d_model|d_ff|groups)$|^num_|^n_(?!positions|ctx)"
)
_IMPLEMENTATION = ("_implementation", "_implementation_internal")  # may name a repository
_FEW = 1 << 10  # layers that are always accepted
_QUANTISED = ["bitsandbytes", *AUTO_QUANTIZATION_CONFIG_MAPPING]
_USUAL = 1 << 16  # a size that is always accepted here; check_built compares the result
_PACKED = 8  # 4-bit weights per 32-bit word
_MOST_INTEGER = 1 << 53
_BUFFERS = 1 << 28  # numbers that a model may compute itself, such as masks and angles
_SLACK = 1 << 20


def read_config(folder: Path) -> dict[str, Any]:
    """Read config.json of a causal language model that needs no code of its own.

    Raises InputError for any other model, and for end tokens that are no token ids.
    """
    what = f"model {folder}"
    _check_complete(what, folder)
    config = read_json(folder / CONFIG, what)
    if (folder / ADAPTER).exists():
        raise InputError(
            f"{what} contains an adapter beside the model, which would be ignored: "
            f"{advice(what, folder)}, or remove {ADAPTER}"
        )
    _check_kind(what, config)
    _check_quantisation(what, config)
    _check_references(what, config)
    model_ends(folder, what)
    return config


def _check_complete(what: str, folder: Path) -> None:
    if not folder.is_dir():
        raise InputError(f"{what} is a file: give the folder that contains config.json")
    if (folder / CONFIG).exists():
        return
    if (folder / ADAPTER).exists():
        raise InputError(f"{what} is an adapter, not a model: {advice(what, folder)}")
    raise InputError(
        f"{what} has no config.json, so it is not a model folder: give one that transformers' "
        "save_pretrained wrote"
    )


def check_numbers(folder: Path, config: dict[str, Any], shapes: Shapes) -> None:
    """Reject numbers of layers and sizes in config.json that do not fit tensors of ``shapes``.

    Each layer has at least one tensor, and each size is a dimension of one. Raises InputError.
    """
    widest = max((n for shape in shapes.values() for n in shape), default=0)
    for key, value in _leaves(config):
        if type(value) is not int:
            continue
        most = _MOST_INTEGER
        if _LAYERS.search(key):
            most = max(_FEW, len(shapes))
        elif _SIZES.search(key):
            most = max(_USUAL, _PACKED * widest)
        if abs(value) > most:
            raise InputError(
                f"model {folder}: config.json says {key} {_short(value)}, but the weights are "
                f"{len(shapes)} tensors of at most {widest:,} rows: {AGAIN}"
            )


def check_built(folder: Path, skeleton: PreTrainedModel, shapes: Shapes, *, packed: bool) -> None:
    """Reject weights that do not fit ``skeleton``, the model that config.json describes.

    ``skeleton`` is on the meta device. Of ``packed`` (quantised) weights only the total number is
    compared. Raises InputError and IntegrityError.
    """
    if not skeleton.config.get_text_config().num_hidden_layers >= 1:
        raise InputError(f"model {folder}: config.json says no layers: {AGAIN}")
    needed = sum(p.numel() for p in skeleton.parameters())
    stored = elements(shapes) * (_PACKED if packed else 1)
    computed = sum(b.numel() for b in skeleton.buffers())
    if needed > 2 * stored + _SLACK or computed > max(_BUFFERS, stored):
        raise IntegrityError(
            f"model {folder}: config.json describes a model of {needed + computed:,} numbers, but "
            f"the weights have {stored:,}: {AGAIN}"
        )
    for name, parameter in skeleton.named_parameters():
        shape = None if packed else shapes.get(name)
        if shape is not None and math.prod(shape) != parameter.numel():
            raise IntegrityError(
                f"model {folder}: {name} is {tuple(shape)} in the weights and "
                f"{tuple(parameter.shape)} by config.json: {AGAIN}"
            )


def check_usable(path: str, model: PreTrainedModel, quantised: bool) -> None:
    """Run a loaded model on two tokens, so that any defect shows here.

    Raises InputError and IntegrityError, and whatever the model raises.
    """
    ends_of(getattr(model.generation_config, "eos_token_id", None), f"model {path}")
    ids = torch.zeros((1, 2), dtype=torch.int64, device=model.device)
    try:
        with torch.inference_mode():
            logits: torch.Tensor = model(input_ids=ids, use_cache=False).logits
    except Exception as error:
        if not quantised:
            raise
        raise InputError(
            f"model {path} does not run with quantised layers: {one_line(error)}: choose a model "
            "whose layers are all attention layers"
        ) from error
    if logits.isnan().any():
        raise IntegrityError(
            f"model {path}: its logits are NaN, so its weights or config.json are damaged: {AGAIN}"
        )


def _check_kind(what: str, config: dict[str, Any]) -> None:
    names = _architectures(what, config)
    kind = config.get("model_type")
    causal = any(name.endswith(_CAUSAL) for name in names) or (
        not names and isinstance(kind, str) and kind in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    )
    if not causal:
        seen = ", ".join(names) or f"model_type {_short(kind)}"
        raise InputError(
            f"{what} is not a causal language model: config.json says {seen[:200]}: use a causal "
            "one"
        )
    if not isinstance(kind, str) or kind not in CONFIG_MAPPING:
        code = ", and its own code is never run" if config.get("auto_map") else ""
        raise InputError(
            f"{what}: this version of transformers does not know model_type {_short(kind)}{code}: "
            "use a model of another architecture"
        )


def _architectures(what: str, config: dict[str, Any]) -> list[str]:
    names = config.get("architectures") or []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InputError(
            f"{what}: architectures in config.json is {_short(names)}, not a list of names: {AGAIN}"
        )
    return names


def _check_quantisation(what: str, config: dict[str, Any]) -> None:
    """Reject quantisation methods that transformers would ignore with a warning."""
    stated = config.get("quantization_config")
    method = stated.get("quant_method", "bitsandbytes") if isinstance(stated, dict) else stated
    if stated is not None and method not in _QUANTISED:
        raise InputError(
            f"{what} is quantised by {_short(method)}, a method that this version of transformers "
            "does not know: use the original model"
        )


def _check_references(what: str, config: dict[str, Any]) -> None:
    """Reject keys that make transformers read or run something outside the folder."""
    if "transformers_weights" in config:
        raise InputError(
            f"{what}: config.json refers to other weights (transformers_weights), which are never "
            "read: remove the key"
        )
    for key, value in _leaves(config, lasting=_IMPLEMENTATION):
        if key.endswith(_IMPLEMENTATION) and isinstance(value, str) and "/" in value:
            raise InputError(
                f"{what}: config.json refers to code, {_short(value)} for {key}, which is never "
                "run: remove the key"
            )


def _leaves(value: object, lasting: tuple[str, ...] = ()) -> Iterator[tuple[str, object]]:
    """Yield each scalar with its nearest key, or the key above it that ends with ``lasting``."""
    stack = [("", value)]  # not recursion: the file may be nested deeply
    while stack:
        key, item = stack.pop()
        if isinstance(item, dict):
            lasts = bool(lasting) and key.endswith(lasting)
            stack += [(key if lasts else name, below) for name, below in item.items()]
        elif isinstance(item, list):
            stack += [(key, below) for below in item]
        else:
            yield key, item


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"
