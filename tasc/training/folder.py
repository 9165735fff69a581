"""Write a model folder that transformers loads without this package."""

import json
import os
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer, GenerationConfig, PreTrainedModel

from tasc.errors import UnavailableError
from tasc.files.disk import writing
from tasc.models.folder.quiet import quiet
from tasc.tokenizer.loaded import LoadedTokenizer

_CONFIG = "tokenizer_config.json"
_FAST = "PreTrainedTokenizerFast"


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
    save_tokenizer(tokenizer, folder)


def _saveable(config: GenerationConfig) -> GenerationConfig:
    """Return ``config``, reduced to its special tokens if transformers refuses to save it.

    Some published models have a temperature without sampling.
    """
    try:
        with quiet():
            config.validate(strict=True)
    except ValueError:
        return GenerationConfig(
            bos_token_id=config.bos_token_id,
            eos_token_id=config.eos_token_id,
            pad_token_id=config.pad_token_id,
        )
    return config


def save_tokenizer(tokenizer: LoadedTokenizer, folder: Path) -> None:
    """Write a tokenizer so that ``AutoTokenizer`` loads the same one.

    For some architectures, such as Qwen2, transformers 5 rebuilds the tokenizer from vocabulary and
    merges, and silently drops an augmented pre-tokenizer. The class name prevents this for most
    architectures; an empty ``auto_map`` makes it read tokenizer.json unchanged. Raises
    UnavailableError if neither works with this version of transformers.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.tokenizer.save(os.fspath(folder / "tokenizer.json"))
    for name, contents in tokenizer.files.items():
        (folder / name).write_bytes(contents)
    stated = json.loads(tokenizer.files.get(_CONFIG, b"{}"))
    for change in ({}, {"tokenizer_class": _FAST}, {"tokenizer_class": _FAST, "auto_map": _NO_MAP}):
        text = json.dumps(stated | change, indent=2, ensure_ascii=False)
        (folder / _CONFIG).write_text(text + "\n", encoding="utf-8")
        if _reads_the_same(folder, tokenizer):
            return
    raise UnavailableError(
        f"this version of transformers does not read the augmented tokenizer beside {folder.name}: "
        "augment with --export added, or install the version in constraints.txt"
    )


_NO_MAP: dict[str, list[str]] = {"AutoTokenizer": []}


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
