"""Convert a GGUF file into a model folder, once, in tasc's cache.

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

from tasc.errors import InputError
from tasc.files.cache import INSTEAD, cache_folder
from tasc.files.disk import flush_below, writing
from tasc.files.gguf_header import ADVICE, GgufHeader, read_header
from tasc.files.packaged import sha256
from tasc.files.scratch import scratch
from tasc.models.folder.files import CONFIG, INDEX
from tasc.models.folder.gguf_architectures import (
    ARCHITECTURES,
    FACTORS,
    Fields,
)
from tasc.models.folder.gguf_tensors import USE_FOLDER, library, tensor_info, tensor_values
from tasc.tokenizer.gguf import read_gguf

_FORMAT = 2  # of the folders in the cache
_SHARD = 1 << 30  # bytes of a file of weights


def converted(file: Path) -> Path:
    """Return the model folder of a GGUF file; the cache has one for each content.

    Weights become bfloat16 if the file has only such matrices, otherwise float32, with the
    values of the file. Raises InputError if the file is damaged, or its model or tokenizer is not
    supported, and StorageError if the disk is full.
    """
    folder = cache_folder() / "models" / f"{sha256(file)[:32]}-{_FORMAT}"
    if (folder / CONFIG).is_file():
        return folder
    with writing(folder, instead=INSTEAD):
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


class _Model:
    def __init__(self, header: GgufHeader) -> None:
        self.header = header
        kind = header.get("general.architecture", str)
        if kind not in ARCHITECTURES:
            raise self._unsupported(
                f"is a model of architecture {kind!r:.60}, but tasc reads GGUF files of "
                f"{', '.join(ARCHITECTURES)}"
            )
        self.fields, self.architecture = Fields(header, kind), ARCHITECTURES[kind]
        self.sizes = self._sizes()
        self._check_plain()

    def config(self) -> dict[str, Any]:
        """Return config.json; ``load_model`` compares its numbers with the weights."""
        tensors = self.header.tensors
        half = library().GGMLQuantizationType.BF16
        matrices = [tensor for tensor in tensors.values() if len(tensor.shape) > 1]
        epsilon = self.fields.float_or_none("attention.layer_norm_rms_epsilon")
        return {
            "architectures": [self.architecture.model_class],
            "model_type": self.architecture.model_type,
            **self.sizes,
            **({} if epsilon is None else {"rms_norm_eps": epsilon}),
            "attention_bias": "blk.0.attn_q.bias" in tensors,
            "mlp_bias": "blk.0.ffn_up.bias" in tensors,
            "tie_word_embeddings": "output.weight" not in tensors,
            "dtype": "bfloat16" if all(t.kind == half for t in matrices) else "float32",
            **self.architecture.settings(self.fields),
            "bos_token_id": self._token("bos"),
            "eos_token_id": self._ends(),
            "pad_token_id": self._token("padding"),
        }

    def _token(self, name: str) -> int | None:
        position = self.header.fields.get(f"tokenizer.ggml.{name}_token_id")
        return position if type(position) is int else None

    def _ends(self) -> int | list[int] | None:
        """Return the end token, or all where turns or messages have one of their own."""
        tokens = [self._token(name) for name in ("eos", "eot", "eom")]
        ends = [token for token in dict.fromkeys(tokens) if token is not None]
        return ends if len(ends) > 1 else next(iter(ends), None)

    def _sizes(self) -> dict[str, int]:
        fields = self.fields
        return {
            "vocab_size": tensor_info(self.header, "token_embd.weight").shape[0],
            "hidden_size": fields.size("embedding_length"),
            "intermediate_size": fields.size("feed_forward_length"),
            "num_hidden_layers": fields.layers,
            "num_attention_heads": fields.size("attention.head_count"),
            "num_key_value_heads": max(fields.key_value_heads),
            "head_dim": fields.head_dim,
            "max_position_embeddings": fields.size("context_length"),
        }

    def _unsupported(self, what: str) -> InputError:
        return InputError(f"{self.header.path} {what}: {USE_FOLDER}")

    def _check_plain(self) -> None:
        """Raise InputError for a part that would be ignored."""
        fields, size = self.fields, self.sizes["head_dim"]
        scaling = fields.get("rope.scaling.type", str, "none")
        architecture = self.architecture
        rotated = fields.get("rope.dimension_count", int, size)
        for what, present in {
            "experts": fields.get("expert_count", int, 0) > 0,
            f"rotary positions of type {scaling!r:.60}": scaling not in architecture.rope_types,
            "rotary positions in a part of each head": not (
                rotated == size or architecture.partial_rope
            ),
            "attention to later tokens": not fields.get("attention.causal", bool, True),
        }.items():
            if present:
                raise self._unsupported(f"has {what}, which tasc does not read from GGUF files")

    def tensors(self) -> Iterator[tuple[str, np.ndarray]]:
        """Yield each tensor, float32, with its name in transformers."""
        paired = {"q_proj": "num_attention_heads", "k_proj": "num_key_value_heads"}
        for stored in self.header.tensors.keys() - FACTORS:
            values, name = tensor_values(self.header, stored), self._name(stored)
            layer = name.split(".")[-2]
            if self.architecture.paired and layer in paired:
                values = self._halves(stored, values, self.sizes[paired[layer]])
            elif self.architecture.norms_plus_one and layer.endswith("norm"):
                values = values - np.float32(1)
            elif stored.endswith("shortconv.conv.weight"):
                values = values[:, None]
            yield name, values

    def _halves(self, name: str, values: np.ndarray, heads: int) -> np.ndarray:
        """Reorder queries or keys (heads · d, …) from pairs to halves."""
        if values.shape[0] % (2 * heads):
            raise InputError(f"{self.header.path}: {name} does not have {heads} heads: {ADVICE}")
        split = values.reshape(heads, values.shape[0] // heads // 2, 2, *values.shape[1:])
        return split.swapaxes(1, 2).reshape(values.shape)

    def _name(self, stored: str) -> str:
        stem, _, kind = stored.rpartition(".")
        whole, layer = self.architecture.whole, self.architecture.layer
        if stem in whole:
            return f"{whole[stem]}.{kind}"
        block, _, rest = stem.partition(".")
        number, _, part = rest.partition(".")
        if block != "blk" or not number.isdecimal() or part not in layer:
            raise self._unsupported(f"has the tensor {stored!r:.60}, which tasc does not know")
        return f"model.layers.{int(number)}.{layer[part]}.{kind}"


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
