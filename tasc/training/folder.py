"""Write a model folder that transformers loads without this package."""

import json
import re
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from transformers import AutoTokenizer, GenerationConfig, PreTrainedModel

from tasc.errors import UnavailableError
from tasc.files.disk import writing
from tasc.models.folder import files
from tasc.models.folder.fetch import model_folder
from tasc.models.folder.generation import APPLIED
from tasc.models.folder.older_names import copy_config
from tasc.models.folder.quiet import quiet
from tasc.models.folder.tying import is_tied
from tasc.tokenizer.loaded import LoadedTokenizer
from tasc.vocab.exports import export

_CONFIG = "tokenizer_config.json"
_FAST = "PreTrainedTokenizerFast"
_SPECIAL = ("bos_token_id", "eos_token_id", "pad_token_id")


def save_model(model: PreTrainedModel, tokenizer: LoadedTokenizer, folder: Path) -> None:
    """Write a model (safetensors) and its tokenizer.

    Generation ends at the tokenizer's end token, and at the model's own end tokens.
    """
    generation = _saveable(model.generation_config or GenerationConfig())
    before = generation.eos_token_id
    ends = [before] if isinstance(before, int) else list(before or [])
    if tokenizer.eos_id not in ends:
        ends = [tokenizer.eos_id, *ends]
    generation.eos_token_id = ends[0] if len(ends) == 1 else ends
    if generation.pad_token_id is None:
        generation.pad_token_id = ends[0]
    model.generation_config = generation
    size = sum(p.nbytes for p in model.parameters())
    with quiet(), writing(folder, size):
        model.save_pretrained(folder)
        _add_unread(model, folder)
        copy_config(folder, folder, tied=is_tied(model))
    save_tokenizer(tokenizer, folder)


def _add_unread(model: PreTrainedModel, folder: Path) -> None:
    """Add the tensors of the checkpoint that the class does not read, such as vision towers.

    The configuration becomes the checkpoint's, with the model's as its text part.
    """
    patterns = getattr(model, "_keys_to_ignore_on_load_unexpected", None)
    if not patterns or not model.name_or_path:
        return
    source = model_folder(model.name_or_path)
    unread = dict[str, torch.Tensor]()
    prefix = f"{model.base_model_prefix}."  # which a checkpoint may lack
    written = files.tensor_shapes(files.weight_files(folder), f"model {folder}")
    written_names = {name.removeprefix(prefix) for name in written}
    for file in files.weight_files(source):
        with safe_open(file, "pt") as tensors:
            names = tensors.keys()  # no dictionary
            others = [name for name in names if name.removeprefix(prefix) not in written_names]
            ignored = [name for name in others if any(re.search(p, name) for p in patterns)]
            unread |= {name: tensors.get_tensor(name) for name in ignored}
    if not unread:
        return
    _add_shard(unread, folder)
    outer = files.read_json(source / files.CONFIG, f"model {source}")
    if "text_config" in outer:
        text = files.read_json(folder / files.CONFIG, f"model {folder}")
        text.pop("architectures", None)
        files.write_json(folder / files.CONFIG, outer | {"text_config": text})


def _add_shard(tensors: dict[str, torch.Tensor], folder: Path) -> None:
    if (folder / files.WEIGHTS).exists():
        (folder / files.WEIGHTS).rename(folder / "model-read.safetensors")
    save_file(tensors, folder / "model-unread.safetensors", {"format": "pt"})
    shards = sorted(folder.glob("model-*.safetensors"))
    names_of = {shard.name: files.tensor_shapes([shard], f"model {folder}") for shard in shards}
    where = {name: shard for shard, names in names_of.items() for name in names}
    size = sum(shard.stat().st_size for shard in shards)
    files.write_json(folder / files.INDEX, {"metadata": {"total_size": size}, "weight_map": where})


def _saveable(config: GenerationConfig) -> GenerationConfig:
    """Return ``config``, without what decoding ignores if transformers refuses to save it.

    If it still refuses, only the special tokens are left.
    """
    tokens = {name: getattr(config, name) for name in _SPECIAL}
    applied = {name: getattr(config, name, None) for name in APPLIED}
    for values in (None, tokens | applied):
        try:
            with quiet():
                settings = config if values is None else GenerationConfig(**values)
                settings.validate(strict=True)
        except ValueError:  # some published models have a temperature without sampling
            continue
        return settings
    return GenerationConfig(**tokens)


def save_tokenizer(tokenizer: LoadedTokenizer, folder: Path) -> None:
    """Write a tokenizer so that ``AutoTokenizer`` loads the same one; else raise UnavailableError.

    For some architectures, such as Qwen2, transformers 5 rebuilds the tokenizer from vocabulary and
    merges, and silently drops an augmented pre-tokenizer. The class name prevents this for most of
    them; an empty ``auto_map`` makes it read tokenizer.json unchanged.
    """
    folder.mkdir(parents=True, exist_ok=True)
    export.save(tokenizer.tokenizer, tokenizer.files, folder)
    stated = json.loads(tokenizer.files.get(_CONFIG, b"{}"))
    for change in (
        {},
        {"tokenizer_class": _FAST},
        {"tokenizer_class": _FAST, "auto_map": {"AutoTokenizer": []}},
    ):
        text = json.dumps(stated | change, indent=2, ensure_ascii=False)
        (folder / _CONFIG).write_text(text + "\n", encoding="utf-8")
        if _reads_the_same(folder, tokenizer):
            return
    raise UnavailableError(
        f"this version of transformers does not read the augmented tokenizer beside {folder.name}: "
        "augment with --export added, or install the version in constraints.txt"
    )


def _reads_the_same(folder: Path, tokenizer: LoadedTokenizer) -> bool:
    with quiet():
        try:
            # Without this argument transformers prompts the user to trust code in the files.
            loaded = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        except Exception:  # bad configurations raise errors of any class
            return False
    read = json.loads(loaded.backend_tokenizer.to_str())
    return _essence(read) == _essence(json.loads(tokenizer.tokenizer.to_str()))


def _essence(tokenizer: dict[str, Any]) -> dict[str, Any]:
    """Return the parts of a tokenizer.json that decide how text is encoded."""
    model = tokenizer["model"]
    return {
        "normalizer": tokenizer["normalizer"],
        "pre_tokenizer": tokenizer["pre_tokenizer"],
        "ignore_merges": model.get("ignore_merges"),
        "vocabulary": model.get("vocab"),
        "merges": model.get("merges"),
        "added": [(token["id"], token["content"]) for token in tokenizer["added_tokens"]],
    }
