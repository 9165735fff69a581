"""Convert a GGUF file of a Llama- or Qwen-like model into a model folder, once, in tasc's cache.

transformers has a reader of GGUF files, too. It is not used, because it trusts the lengths in the
file, and gives byte-level tokenizers GPT-2's pre-tokenizer, whichever the file names.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file

from tasc.errors import InputError, UnavailableError
from tasc.files.disk import flush_below, writing
from tasc.files.gguf_header import ADVICE, GgufHeader, TensorInfo, read_header
from tasc.files.packaged import sha256
from tasc.files.scratch import scratch
from tasc.models.folder.disk_cache import cache_folder
from tasc.models.folder.files import CONFIG, INDEX
from tasc.tokenizer.gguf import read_gguf

_FORMAT = 1  # of the folders in the cache
_SHARD = 1 << 30  # bytes of a file of weights
_CLASSES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM"}
_PAIRED = {"llama"}  # its queries and keys are reordered for rotary positions in pairs
_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_WHOLE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_FACTORS = "rope_freqs.weight"
_LLAMA3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
_ORIGINAL = 8192  # positions that Llama 3 was trained on first


def converted(file: Path) -> Path:
    """Return the model folder of a GGUF file; the cache has one for each content.

    Weights become bfloat16 if the file has only such matrices, otherwise float32, with the
    values of the file. Raises InputError if the file is damaged, or its model or tokenizer is not
    supported, and StorageError if the disk is full.
    """
    folder = cache_folder() / "models" / f"{sha256(file)[:32]}-{_FORMAT}"
    if (folder / CONFIG).is_file():
        return folder
    with writing(folder, instead="set XDG_CACHE_HOME to another folder for tasc's cache"):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with scratch(folder.parent) as work:
            (work / "model").mkdir()
            convert(file, work / "model")
            flush_below(work / "model")
            try:
                (work / "model").rename(folder)
            except OSError:  # another process was faster
                if not (folder / CONFIG).is_file():
                    raise
    return folder


def convert(file: Path, folder: Path) -> None:
    """Write configuration, weights and tokenizer into an existing folder."""
    header = read_header(file)
    config = _config(header)
    tokenizer, companions = read_gguf(file)
    dtype = torch.bfloat16 if config["dtype"] == "bfloat16" else torch.float32
    _save(_tensors(header, config), dtype, folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    for name, content in companions.items():
        (folder / name).write_bytes(content)
    (folder / CONFIG).write_text(json.dumps(config, indent=2), encoding="utf-8")


def library() -> Any:  # noqa: ANN401
    """Return the ``gguf`` package. Raises UnavailableError if it is not installed."""
    try:
        import gguf
    except ImportError as error:
        raise UnavailableError(
            "gguf is not installed: install it with pip install 'tasc-lm[llama-cpp]'"
        ) from error
    return gguf


def _config(header: GgufHeader) -> dict[str, Any]:
    """Return config.json; ``load_model`` compares its numbers with the weights."""
    kind = header.get("general.architecture", str)
    if kind not in _CLASSES:
        raise InputError(
            f"{header.path} is a model of architecture {kind!r:.60}, but tasc reads GGUF files of "
            f"{', '.join(_CLASSES)}: use the model's folder in transformers' format"
        )
    sizes = _sizes(header, kind)
    _check_plain(header, kind, sizes["head_dim"])
    return {
        "architectures": [_CLASSES[kind]],
        "model_type": kind,
        **sizes,
        "rms_norm_eps": header.get(f"{kind}.attention.layer_norm_rms_epsilon", float),
        "rope_parameters": _rope(header, kind, sizes["head_dim"]),
        "hidden_act": "silu",
        "attention_bias": "blk.0.attn_q.bias" in header.tensors,
        "tie_word_embeddings": "output.weight" not in header.tensors,
        "dtype": _dtype(header),
        **_special_ids(header),
    }


def _sizes(header: GgufHeader, kind: str) -> dict[str, int]:
    """Return the sizes of the model by their names in config.json."""
    heads = _size(header, f"{kind}.attention.head_count")
    width = _size(header, f"{kind}.embedding_length")
    return {
        "vocab_size": _tensor(header, "token_embd.weight").shape[0],
        "hidden_size": width,
        "intermediate_size": _size(header, f"{kind}.feed_forward_length"),
        "num_hidden_layers": _size(header, f"{kind}.block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": _size(header, f"{kind}.attention.head_count_kv", heads),
        "head_dim": _size(header, f"{kind}.attention.key_length", width // heads),
        "max_position_embeddings": _size(header, f"{kind}.context_length"),
    }


def _dtype(header: GgufHeader) -> str:
    half = library().GGMLQuantizationType.BF16
    matrices = [tensor for tensor in header.tensors.values() if len(tensor.shape) > 1]
    return "bfloat16" if all(matrix.kind == half for matrix in matrices) else "float32"


def _special_ids(header: GgufHeader) -> dict[str, int | None]:
    names = {"bos": "bos", "eos": "eos", "pad": "padding"}
    ids = {name: header.fields.get(f"tokenizer.ggml.{names[name]}_token_id") for name in names}
    return {f"{name}_token_id": i if type(i) is int else None for name, i in ids.items()}


def _size(header: GgufHeader, name: str, default: int | None = None) -> int:
    size = header.get(name, int, default)
    if size < 1:
        raise InputError(f"{header.path}: {name} is {size}, but must be at least 1: {ADVICE}")
    return size


def _check_plain(header: GgufHeader, kind: str, size: int) -> None:
    """Raise InputError for a part that would be ignored."""
    scaling = header.get(f"{kind}.rope.scaling.type", str, "none")
    rotated = header.get(f"{kind}.rope.dimension_count", int, size)
    for what, found in {
        "experts": header.get(f"{kind}.expert_count", int, 0),
        f"rotary positions of type {scaling!r:.60}": scaling != "none",
        "rotary positions in a part of each head": rotated != size,
    }.items():
        if found:
            raise InputError(
                f"{header.path} has {what}, which tasc does not read from GGUF files: use the "
                "model's folder in transformers' format"
            )


def _rope(header: GgufHeader, kind: str, size: int) -> dict[str, Any]:
    """Return the rotary positions: plain, or Llama 3's, if the file has exactly its factors."""
    theta = header.get(f"{kind}.rope.freq_base", float, 10_000.0)
    plain = {"rope_type": "default", "rope_theta": theta}
    if _FACTORS not in header.tensors:
        return plain
    found = _values(header, _FACTORS)
    factor = float(found.max())
    expected = _llama3_factors(theta, size, factor)
    if found.shape != expected.shape or not np.allclose(found, expected, rtol=1e-3):
        raise InputError(
            f"{header.path} has factors of rotary positions that are not Llama 3's: use the "
            "model's folder in transformers' format"
        )
    scaled = {"rope_type": "llama3", "factor": factor} | _LLAMA3
    return plain | scaled | {"original_max_position_embeddings": _ORIGINAL}


def _llama3_factors(theta: float, size: int, factor: float) -> np.ndarray:
    """Return the divisors (size / 2,) of the frequencies, as Llama 3.1 defines them."""
    turns = _ORIGINAL / (2 * np.pi) * theta ** -(np.arange(0, size, 2) / size)
    low, high = _LLAMA3["low_freq_factor"], _LLAMA3["high_freq_factor"]
    smooth = np.clip((turns - low) / (high - low), 0, 1)
    return np.asarray(1 / ((1 - smooth) / factor + smooth))


def _tensors(header: GgufHeader, config: dict[str, Any]) -> Iterator[tuple[str, np.ndarray]]:
    """Yield each tensor, float32, with its name in transformers."""
    heads: dict[str, int] = {}
    if config["model_type"] in _PAIRED:
        heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
    for given in header.tensors:
        if given == _FACTORS:
            continue
        values, name = _values(header, given), _name(header, given)
        layer = name.split(".")[-2]
        if layer in heads:
            values = _halves(header, given, values, heads[layer])
        yield name, values


def _halves(header: GgufHeader, name: str, values: np.ndarray, heads: int) -> np.ndarray:
    """Reorder queries or keys (heads · d, …) from pairs to halves."""
    if values.shape[0] % (2 * heads):
        raise InputError(f"{header.path}: {name} does not have {heads} heads: {ADVICE}")
    split = values.reshape(heads, values.shape[0] // heads // 2, 2, *values.shape[1:])
    return split.swapaxes(1, 2).reshape(values.shape)


def _name(header: GgufHeader, given: str) -> str:
    """Return the name of a tensor in transformers."""
    stem, _, kind = given.rpartition(".")
    if stem in _WHOLE:
        return f"{_WHOLE[stem]}.{kind}"
    block, _, rest = stem.partition(".")
    number, _, part = rest.partition(".")
    if block != "blk" or not number.isdecimal() or part not in _LAYER:
        raise InputError(
            f"{header.path} has the tensor {given!r:.60}, which tasc does not know: use the "
            "model's folder in transformers' format"
        )
    return f"model.layers.{int(number)}.{_LAYER[part]}.{kind}"


def _tensor(header: GgufHeader, name: str) -> TensorInfo:
    if name not in header.tensors or not header.tensors[name].shape:
        raise InputError(f"{header.path} has no tensor {name}: {ADVICE}")
    return header.tensors[name]


def _values(header: GgufHeader, name: str) -> np.ndarray:
    """Return a dequantised tensor, float32."""
    gguf, info = library(), _tensor(header, name)
    try:
        kind = gguf.GGMLQuantizationType(info.kind)
        block, size = gguf.GGML_QUANT_SIZES[kind]
        if info.shape[-1] % block:
            raise ValueError(f"rows of {info.shape[-1]} do not divide into blocks of {block}")
        shape = *info.shape[:-1], info.shape[-1] // block * size
        count = int(np.prod(shape, dtype=object))
        data = np.memmap(header.path, np.uint8, "r")
        if info.start + count > len(data):
            raise ValueError("it ends behind the end of the file")
        raw = data[info.start : info.start + count].reshape(shape)
        values: np.ndarray = gguf.quants.dequantize(raw, kind)
    except (ValueError, NotImplementedError) as error:
        raise InputError(f"{header.path}: tensor {name!r:.60}: {error}: {ADVICE}") from None
    return values


def _save(tensors: Iterator[tuple[str, np.ndarray]], dtype: torch.dtype, folder: Path) -> None:
    """Write safetensors files of about ``_SHARD`` bytes, and their index."""
    names: dict[str, str] = {}
    for number, shard in enumerate(_shards(tensors, dtype), start=1):
        file = f"model-{number:05}.safetensors"
        save_file(shard, folder / file, metadata={"format": "pt"})
        names |= dict.fromkeys(shard, file)
    index = {"metadata": {}, "weight_map": names}
    (folder / INDEX).write_text(json.dumps(index, indent=2), encoding="utf-8")


def _shards(
    tensors: Iterator[tuple[str, np.ndarray]], dtype: torch.dtype
) -> Iterator[dict[str, torch.Tensor]]:
    shard: dict[str, torch.Tensor] = {}
    for name, values in tensors:
        shard[name] = torch.tensor(values, dtype=dtype)
        if sum(tensor.nbytes for tensor in shard.values()) >= _SHARD:
            yield shard
            shard = {}
    if shard:
        yield shard
