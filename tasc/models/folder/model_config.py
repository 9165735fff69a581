"""What a model's config.json may say: compared with the weights before anything is built from it.

Building a model takes the time of its layers and the memory of its sizes, which are just numbers
in a file. A number that the weights cannot bear out is refused before it costs either.
"""

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
from tasc.models.folder.files import CONFIG, Shapes, elements, read_json

_CAUSAL = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")
_ADAPTER = "adapter_config.json"
_LAYERS = re.compile(r"layers?$|depth$|blocks$|types$")
_SIZES = re.compile(
    r"(size|dim|heads?|experts|embd|inner|rank|d_model|d_ff|groups)$|^num_|^n_(?!positions|ctx)"
)
_FEW = 1 << 10  # layers that are no reason to look closer
_QUANTISED = ["bitsandbytes", *AUTO_QUANTIZATION_CONFIG_MAPPING]
_USUAL = 1 << 16  # a size that is no reason to look closer; what is built of it is compared anyway
_PACKED = 8  # 4-bit weights in 32-bit words
_MOST_INTEGER = 1 << 53
_BUFFERS = 1 << 28  # numbers that a model may compute for itself, as masks and angles are
_SLACK = 1 << 20


def read_config(folder: Path) -> dict[str, Any]:
    """Return config.json of a causal language model that needs no code of its own.

    Raises InputError for anything else.
    """
    what = f"model {folder}"
    if not folder.is_dir():
        raise InputError(f"{what} is a file: give the folder that holds config.json")
    if not (folder / CONFIG).exists():
        if (folder / _ADAPTER).exists():
            raise InputError(
                f"{what} is an adapter, which is not a model by itself: run tasc finetune with "
                "--merge, and give the folder model/ that it writes"
            )
        raise InputError(
            f"{what} has no config.json: it is not a model folder; give one that "
            "save_pretrained of transformers wrote"
        )
    config = read_json(folder / CONFIG, what)
    if (folder / _ADAPTER).exists():
        raise InputError(
            f"{what} holds an adapter beside the model, which is not read: merge it with PEFT's "
            f"merge_and_unload, or remove {_ADAPTER}"
        )
    _check_kind(what, config)
    _check_quantisation(what, config)
    _check_doors(what, config)
    return config


def check_numbers(folder: Path, config: dict[str, Any], shapes: Shapes) -> None:
    """Refuse counts and sizes in config.json that tensors of ``shapes`` cannot be of.

    Each layer has a tensor, and a size is one of a tensor's. Raises InputError.
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
                f"model {folder}: config.json says {key} {_short(value)}, and its weights are "
                f"{len(shapes)} tensors of at most {widest:,} rows: fetch or save the model again"
            )


def check_built(folder: Path, skeleton: PreTrainedModel, shapes: Shapes, *, packed: bool) -> None:
    """Refuse weights that are not those of ``skeleton``, the model that config.json makes.

    ``skeleton`` is on the meta device, without values. Of ``packed`` weights, which are quantised,
    only the number is compared. Raises IntegrityError.
    """
    wanted = dict(skeleton.named_parameters())
    needed = sum(p.numel() for p in wanted.values())
    there = elements(shapes) * (_PACKED if packed else 1)
    computed = sum(b.numel() for b in skeleton.buffers())
    if needed > 2 * there + _SLACK or computed > max(_BUFFERS, there):
        raise IntegrityError(
            f"model {folder}: config.json makes a model of {needed + computed:,} numbers, and the "
            f"weights hold {there:,}: fetch or save the model again"
        )
    for name, parameter in wanted.items():
        held = shapes.get(name)
        if held is not None and not packed and elements({name: held}) != parameter.numel():
            raise IntegrityError(
                f"model {folder}: {name} is {tuple(held)} in the weights and "
                f"{tuple(parameter.shape)} by config.json: fetch or save the model again"
            )


def check_usable(path: str, model: PreTrainedModel, quantised: bool) -> None:
    """Refuse a loaded model that cannot read two tokens: whatever is wrong with it shows here.

    Raises InputError and IntegrityError, and what the model itself raises.
    """
    if not model.config.get_text_config().num_hidden_layers >= 1:
        raise InputError(f"model {path}: config.json says no layers: fetch or save the model again")
    given = getattr(model.generation_config, "eos_token_id", None)
    if not all(type(i) is int for i in (given if isinstance(given, list) else [given]) if given):
        raise InputError(
            f"model {path}: the end token {_short(given)} is no token id: set eos_token_id in "
            "generation_config.json"
        )
    ids = torch.zeros((1, 2), dtype=torch.int64, device=model.device)
    try:
        with torch.inference_mode():
            logits: torch.Tensor = model(input_ids=ids, use_cache=False).logits
    except Exception as error:
        if not quantised:
            raise
        raise InputError(
            f"model {path} does not run with its layers quantised: {one_line(error)}: choose one "
            "whose layers all attend"
        ) from error
    if logits.isnan().any():
        raise IntegrityError(
            f"model {path}: its logits are not numbers: its weights or config.json are damaged; "
            "fetch or save the model again"
        )


def _check_kind(what: str, config: dict[str, Any]) -> None:
    names = config.get("architectures") or []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InputError(
            f"{what}: architectures in config.json is {_short(names)}, not a list of names: "
            "fetch or save the model again"
        )
    kind = config.get("model_type")
    causal = any(name.endswith(_CAUSAL) for name in names) or (
        not names and isinstance(kind, str) and kind in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    )
    if not causal:
        seen = ", ".join(names) or f"model_type {_short(kind)}"
        raise InputError(
            f"{what} is not a causal language model: config.json says {seen[:200]}; "
            "give one that continues text"
        )
    if not isinstance(kind, str) or kind not in CONFIG_MAPPING:
        own = ": it comes with code, which is not run" if config.get("auto_map") else ""
        raise InputError(
            f"{what}: model_type {_short(kind)} is not one that this version of transformers "
            f"knows{own}; give a model of another architecture"
        )


def _check_quantisation(what: str, config: dict[str, Any]) -> None:
    """Refuse what transformers would pass over with a warning."""
    stated = config.get("quantization_config")
    method = stated.get("quant_method", "bitsandbytes") if isinstance(stated, dict) else stated
    if stated is not None and method not in _QUANTISED:
        raise InputError(
            f"{what} is quantised by a method that this version of transformers does not know "
            f"({_short(method)}): give the model that it was made from"
        )


def _check_doors(what: str, config: dict[str, Any]) -> None:
    """Refuse keys that make transformers read or run something beside the folder's weights."""
    if "transformers_weights" in config:
        raise InputError(
            f"{what}: config.json names its weights (transformers_weights), which is not followed: "
            "remove the key"
        )
    for key, value in _leaves(config):
        door = key.endswith(("_implementation", "_implementation_internal"))
        if door and isinstance(value, str) and "/" in value:
            raise InputError(
                f"{what}: config.json wants the code {_short(value)} for {key}, which is not run: "
                "remove the key"
            )


def _leaves(value: object) -> Iterator[tuple[str, object]]:
    """Yield each value that holds no others, with the nearest key above it; not by recursion."""
    waiting = [("", value)]
    while waiting:
        key, found = waiting.pop()
        if isinstance(found, dict):
            waiting += found.items()
        elif isinstance(found, list):
            waiting += [(key, below) for below in found]
        else:
            yield key, found


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"
