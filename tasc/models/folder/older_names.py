"""Write config.json so that older loaders read the same model from it.

transformers 5 writes ``rope_parameters`` and ``dtype``. A loader that knows only the earlier names
ignores them and silently takes its defaults, such as a ``rope_theta`` of 10,000.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tasc.models.folder import files, tying

_BY_LAYER = {"full_attention": "rope_theta", "sliding_attention": "rope_local_base_freq"}
_OWN_KEYS = ("rope_theta", "partial_rotary_factor")  # beside the scaling in earlier versions
# Names that only some architectures had.
_OWN_NAMES = {"gpt_neox": {"rope_theta": "rotary_emb_base", "partial_rotary_factor": "rotary_pct"}}


def copy_config(source: Path, folder: Path, *, tied: bool) -> None:
    """Copy a model's config.json, made ``portable`` and without references to code."""
    values = files.read_json(source / files.CONFIG, f"model {source}")
    files.write_json(folder / files.CONFIG, portable(values, tied=tied))


def portable(values: Mapping[str, Any], *, tied: bool) -> dict[str, Any]:
    """Return the values of a config.json with explicit tying, and with earlier names beside new.

    Where the names contradict each other, both get the value that this transformers reads, by which
    the model was trained and measured.
    """
    config = tying.corrected(values, tied=tied)
    text = config.get("text_config")
    if isinstance(text, dict):
        config["text_config"] = text | _consistent(text)
    return config | _consistent(config)


def _consistent(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings in ``values`` that have two names, under both."""
    settings: dict[str, Any] = {}
    if isinstance(dtype := values.get("dtype"), str):
        settings["torch_dtype"] = dtype
    scaling = values.get("rope_scaling")
    rope = values.get("rope_parameters")
    if isinstance(scaling, dict) and scaling:
        # transformers 5.24 reads rope_scaling instead of rope_parameters.
        if rope is not None:
            settings["rope_parameters"] = {k: values[k] for k in _OWN_KEYS if k in values} | scaling
        rope = scaling
    return settings | _earlier_rope(values, rope)


def _earlier_rope(values: Mapping[str, Any], rope: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the earlier names of the rotary positions ``rope`` of a configuration."""
    earlier: dict[str, Any] = {}
    if not isinstance(rope, dict):
        return earlier
    if rope.keys() == _BY_LAYER.keys() and all(isinstance(part, dict) for part in rope.values()):
        for layers, name in _BY_LAYER.items():
            if "rope_theta" in rope[layers]:
                earlier[name] = rope[layers]["rope_theta"]
        rope = rope["full_attention"]
    elif any(isinstance(part, dict) for part in rope.values()):
        return earlier  # an architecture that earlier versions do not have
    names = _OWN_NAMES.get(str(values.get("model_type")), {})
    for key in _OWN_KEYS:
        if key in rope:
            earlier |= {key: rope[key], names.get(key, key): rope[key]}
    if rope.get("rope_type", "default") != "default":
        scaling = {key: value for key, value in rope.items() if key not in _OWN_KEYS}
        earlier["rope_scaling"] = scaling | {"type": rope["rope_type"]}
    return earlier
