"""Convert a GGUF file of a Llama- or Qwen-like model into a model folder, once, in tasc's cache.

transformers has a reader of GGUF files, too. It is not used, because it trusts the lengths in the
file, and gives byte-level tokenizers GPT-2's pre-tokenizer, whichever the file names.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

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
_T = TypeVar("_T")
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
    model = _Model(read_header(file))
    config = model.config()
    tokenizer, companions = read_gguf(file)
    dtype = torch.bfloat16 if config["dtype"] == "bfloat16" else torch.float32
    _save(model.tensors(), dtype, folder)
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


class _Model:
    def __init__(self, header: GgufHeader) -> None:
        self.header = header
        self.kind = header.get("general.architecture", str)
        if self.kind not in _CLASSES:
            raise self._unsupported(
                f"is a model of architecture {self.kind!r:.60}, but tasc reads GGUF files of "
                f"{', '.join(_CLASSES)}"
            )
        self.sizes = self._sizes()
        self._check_plain()

    def config(self) -> dict[str, Any]:
        """Return config.json; ``load_model`` compares its numbers with the weights."""
        tensors, names = self.header.tensors, {"bos": "bos", "eos": "eos", "pad": "padding"}
        half = library().GGMLQuantizationType.BF16
        matrices = [tensor for tensor in tensors.values() if len(tensor.shape) > 1]
        config: dict[str, Any] = {
            "architectures": [_CLASSES[self.kind]],
            "model_type": self.kind,
            **self.sizes,
            "rms_norm_eps": self._get("attention.layer_norm_rms_epsilon", float),
            "rope_parameters": self._rope(),
            "hidden_act": "silu",
            "attention_bias": "blk.0.attn_q.bias" in tensors,
            "tie_word_embeddings": "output.weight" not in tensors,
            "dtype": "bfloat16" if all(t.kind == half for t in matrices) else "float32",
        }
        for name, field in names.items():
            position = self.header.fields.get(f"tokenizer.ggml.{field}_token_id")
            config[f"{name}_token_id"] = position if type(position) is int else None
        return config

    def _sizes(self) -> dict[str, int]:
        heads, width = self._size("attention.head_count"), self._size("embedding_length")
        return {
            "vocab_size": self._tensor("token_embd.weight").shape[0],
            "hidden_size": width,
            "intermediate_size": self._size("feed_forward_length"),
            "num_hidden_layers": self._size("block_count"),
            "num_attention_heads": heads,
            "num_key_value_heads": self._size("attention.head_count_kv", heads),
            "head_dim": self._size("attention.key_length", width // heads),
            "max_position_embeddings": self._size("context_length"),
        }

    def _unsupported(self, what: str) -> InputError:
        advice = "use the model's folder in transformers' format"
        return InputError(f"{self.header.path} {what}: {advice}")

    def _get(self, name: str, kind: type[_T], default: _T | None = None) -> _T:
        return self.header.get(f"{self.kind}.{name}", kind, default)

    def _size(self, name: str, default: int | None = None) -> int:
        size = self._get(name, int, default)
        if size < 1:
            raise InputError(
                f"{self.header.path}: {self.kind}.{name} is {size}, but must be at least 1: "
                f"{ADVICE}"
            )
        return size

    def _check_plain(self) -> None:
        """Raise InputError for a part that would be ignored."""
        scaling, size = self._get("rope.scaling.type", str, "none"), self.sizes["head_dim"]
        rotated = self._get("rope.dimension_count", int, size)
        for what, found in {
            "experts": self._get("expert_count", int, 0),
            f"rotary positions of type {scaling!r:.60}": scaling != "none",
            "rotary positions in a part of each head": rotated != size,
        }.items():
            if found:
                raise self._unsupported(f"has {what}, which tasc does not read from GGUF files")

    def _rope(self) -> dict[str, Any]:
        """Return the rotary positions: plain, or Llama 3's, if the file has exactly its factors."""
        theta = self._get("rope.freq_base", float, 10_000.0)
        plain = {"rope_type": "default", "rope_theta": theta}
        if _FACTORS not in self.header.tensors:
            return plain
        found = self._values(_FACTORS)
        factor = float(found.max())
        expected = _llama3_factors(theta, self.sizes["head_dim"], factor)
        if found.shape != expected.shape or not np.allclose(found, expected, rtol=1e-3):
            raise self._unsupported("has factors of rotary positions that are not Llama 3's")
        scaled = {"rope_type": "llama3", "factor": factor} | _LLAMA3
        return plain | scaled | {"original_max_position_embeddings": _ORIGINAL}

    def tensors(self) -> Iterator[tuple[str, np.ndarray]]:
        """Yield each tensor, float32, with its name in transformers."""
        names = {"q_proj": "num_attention_heads", "k_proj": "num_key_value_heads"}
        for given in self.header.tensors:
            if given == _FACTORS:
                continue
            values, name = self._values(given), self._name(given)
            layer = name.split(".")[-2]
            if self.kind in _PAIRED and layer in names:
                values = self._halves(given, values, self.sizes[names[layer]])
            yield name, values

    def _halves(self, name: str, values: np.ndarray, heads: int) -> np.ndarray:
        """Reorder queries or keys (heads · d, …) from pairs to halves."""
        if values.shape[0] % (2 * heads):
            raise InputError(f"{self.header.path}: {name} does not have {heads} heads: {ADVICE}")
        split = values.reshape(heads, values.shape[0] // heads // 2, 2, *values.shape[1:])
        return split.swapaxes(1, 2).reshape(values.shape)

    def _name(self, given: str) -> str:
        stem, _, kind = given.rpartition(".")
        if stem in _WHOLE:
            return f"{_WHOLE[stem]}.{kind}"
        block, _, rest = stem.partition(".")
        number, _, part = rest.partition(".")
        if block != "blk" or not number.isdecimal() or part not in _LAYER:
            raise self._unsupported(f"has the tensor {given!r:.60}, which tasc does not know")
        return f"model.layers.{int(number)}.{_LAYER[part]}.{kind}"

    def _tensor(self, name: str) -> TensorInfo:
        tensors = self.header.tensors
        if name not in tensors or not tensors[name].shape or 0 in tensors[name].shape:
            raise InputError(f"{self.header.path} has no tensor {name}: {ADVICE}")
        return tensors[name]

    def _values(self, name: str) -> np.ndarray:
        gguf, info, path = library(), self._tensor(name), self.header.path
        try:
            kind = gguf.GGMLQuantizationType(info.kind)
            block, size = gguf.GGML_QUANT_SIZES[kind]
            if info.shape[-1] % block:
                raise ValueError(f"rows of {info.shape[-1]} do not divide into blocks of {block}")
            shape = *info.shape[:-1], info.shape[-1] // block * size
            count = int(np.prod(shape, dtype=object))
            data = np.memmap(path, np.uint8, "r")
            if info.start + count > len(data):
                raise ValueError("it ends behind the end of the file")
            raw = data[info.start : info.start + count].reshape(shape)
            values: np.ndarray = gguf.quants.dequantize(raw, kind)
        except (ValueError, NotImplementedError) as error:
            raise InputError(f"{path}: tensor {name!r:.60}: {error}: {ADVICE}") from None
        return values


def _llama3_factors(theta: float, size: int, factor: float) -> np.ndarray:
    """Return the divisors (size / 2,) of the frequencies, as Llama 3.1 defines them."""
    turns = _ORIGINAL / (2 * np.pi) * theta ** -(np.arange(0, size, 2) / size)
    low, high = _LLAMA3["low_freq_factor"], _LLAMA3["high_freq_factor"]
    smooth = np.clip((turns - low) / (high - low), 0, 1)
    return np.asarray(1 / ((1 - smooth) / factor + smooth))


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
