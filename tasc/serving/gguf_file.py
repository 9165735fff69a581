"""Convert a model folder to one GGUF file, with the ``gguf`` package."""

import struct
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import safe_open

from tasc.errors import InputError
from tasc.files.disk import writing
from tasc.models.folder.files import CONFIG, read_json, weight_files
from tasc.models.folder.gguf_model import library
from tasc.serving.gguf_vocabulary import Vocabulary
from tasc.tokenizer.loaded import LoadedTokenizer

if TYPE_CHECKING:
    from gguf import GGUFWriter

# The names in llama.cpp and transformers. For Llama, the rotary embedding of llama.cpp pairs
# neighbours where transformers pairs the two halves, so queries and keys are reordered.
ARCHITECTURES = ("llama", "qwen2", "qwen3")
_PAIRED = {"llama"}
_EPSILON, _THETA = 1e-6, 10_000.0  # transformers' defaults


@dataclass(frozen=True)
class Source:
    """A checked model folder with its config.json."""

    folder: Path
    config: dict[str, Any]

    @classmethod
    def of(cls, folder: Path) -> "Source":
        """Read config.json. Raises InputError for a model that cannot be exported."""
        config = read_json(folder / CONFIG, f"model {folder}")
        kind = config.get("model_type")
        if kind not in ARCHITECTURES:
            raise InputError(
                f"model {folder}: llama.cpp exports take {', '.join(ARCHITECTURES)}, not {kind}: "
                "choose another engine"
            )
        rope = {**(config.get("rope_scaling") or {}), **(config.get("rope_parameters") or {})}
        rotary = rope.get("rope_type", rope.get("type", "default"))
        for what, found in {
            f"rotary positions of type {rotary}": rotary != "default",
            "a sliding window": config.get("use_sliding_window"),
            "quantised weights": config.get("quantization_config"),
        }.items():
            if found:
                raise InputError(
                    f"model {folder} has {what}, which tasc cannot export to llama.cpp: choose "
                    "another engine"
                )
        theta = rope.get("rope_theta", config.get("rope_theta"))
        return cls(folder, {**config, "rope_theta": theta})

    @property
    def heads(self) -> tuple[int, int]:
        """Number of query heads, and of key and value heads."""
        queries = int(self.config["num_attention_heads"])
        return queries, int(self.config.get("num_key_value_heads") or queries)

    def tensors(self) -> Iterator[tuple[str, np.ndarray]]:
        """Yield each tensor, float32, with its name in transformers."""
        for file in weight_files(self.folder):
            with safe_open(file, framework="pt") as weights:
                for name in weights.keys():  # noqa: SIM118 - no mapping
                    tensor = weights.get_tensor(name).float().numpy()
                    if self.config["model_type"] in _PAIRED:
                        tensor = self._paired(name, tensor)
                    yield name, tensor

    def _paired(self, name: str, tensor: np.ndarray) -> np.ndarray:
        """Reorder queries or keys (heads · d, …) from halves to pairs."""
        parts = {"q_proj": self.heads[0], "k_proj": self.heads[1]}
        heads = next((n for part, n in parts.items() if f".{part}." in name), 0)
        if not heads:
            return tensor
        split = tensor.reshape(heads, 2, tensor.shape[0] // heads // 2, *tensor.shape[1:])
        return split.swapaxes(1, 2).reshape(tensor.shape)


def write_gguf(
    source: Source, tokenizer: LoadedTokenizer, vocabulary: Vocabulary, weights: str, path: Path
) -> None:
    """Write the file with ``weights`` in f32, f16, bf16 or q8_0; vectors stay in float32.

    Raises InputError for a tensor that llama.cpp lacks, and UnavailableError without ``gguf``.
    """
    gguf = library()
    name = source.config["model_type"]
    writer = gguf.GGUFWriter(None, name)
    _describe(writer, source, name)
    _add_vocabulary(writer, tokenizer, vocabulary)
    kinds = gguf.GGMLQuantizationType
    wanted = getattr(kinds, weights.upper())
    file_type = "ALL_F32" if weights == "f32" else f"MOSTLY_{weights.upper()}"
    writer.add_file_type(getattr(gguf.LlamaFileType, file_type))
    names = gguf.get_tensor_name_map(
        getattr(gguf.MODEL_ARCH, name.upper()), int(source.config["num_hidden_layers"])
    )
    for given, tensor in source.tensors():
        known = names.get_name(given, try_suffixes=(".weight", ".bias"))
        if known is None:
            raise InputError(
                f"model {source.folder}: llama.cpp has no tensor {given}: choose another engine"
            )
        kind = kinds.F32 if tensor.ndim == 1 else wanted
        if kind == kinds.Q8_0 and tensor.shape[-1] % gguf.GGML_QUANT_SIZES[kind][0]:
            kind = kinds.F16  # a block may not span two rows
        data = gguf.quants.quantize(np.ascontiguousarray(tensor), kind)
        writer.add_tensor(known, data, raw_dtype=kind)
    with writing(path), closing(writer):
        writer.write_header_to_file(path)
        try:
            writer.write_kv_data_to_file()
        except struct.error as error:  # such as 2^40 positions
            raise InputError(
                f"{source.folder / CONFIG} has a number that a GGUF file cannot store ({error}): "
                "correct it"
            ) from None
        writer.write_tensors_to_file()


def _describe(writer: "GGUFWriter", source: Source, name: str) -> None:
    config = source.config
    writer.add_name(source.folder.name)
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    queries, keys = source.heads
    writer.add_head_count(queries)
    writer.add_head_count_kv(keys)
    size = config.get("head_dim") or config["hidden_size"] // queries
    writer.add_key_length(size)
    writer.add_value_length(size)
    if name in _PAIRED:
        writer.add_rope_dimension_count(size)
    writer.add_rope_freq_base(config["rope_theta"] or _THETA)
    writer.add_layer_norm_rms_eps(config.get("rms_norm_eps", _EPSILON))
    writer.add_vocab_size(config["vocab_size"])


def _add_vocabulary(
    writer: "GGUFWriter", tokenizer: LoadedTokenizer, vocabulary: Vocabulary
) -> None:
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(vocabulary.pre)
    writer.add_token_list(vocabulary.tokens)
    writer.add_token_types(vocabulary.types)
    writer.add_token_merges(vocabulary.merges)
    writer.add_eos_token_id(tokenizer.eos_id)
    ids, alone = tokenizer.tokenizer.encode("a").ids, tokenizer.encode(["a"]).tokens
    adds_first = len(ids) != len(alone)
    writer.add_add_bos_token(adds_first)
    if adds_first:
        writer.add_bos_token_id(int(ids[0]))
