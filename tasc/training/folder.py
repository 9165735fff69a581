"""Writing a model folder that transformers loads with nothing of ours."""

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
    """Write a model (safetensors) and its tokenizer; generation ends at the tokenizer's end token.

    End tokens the model had before are kept beside it.
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
    """Return ``config``, or what it says of tokens, where transformers loads it and saves it not.

    Some published models state a temperature for decoding that does not sample.
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
    """Write a tokenizer so that ``AutoTokenizer`` reads the very same one from this folder.

    For some architectures (Qwen2 is one) transformers 5 rebuilds the tokenizer from vocabulary
    and merges alone, whatever tokenizer.json says, and so drops an augmented pre-tokenizer without
    a word. It is then told not to: by the class name, which is enough for most architectures, or
    by an empty ``auto_map``, after which it falls back to reading tokenizer.json as it is.

    Raises:
        UnavailableError: neither helps with this version of transformers.
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
            # Without a word on it, transformers would ask whether to run code that the files name.
            loaded = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        except Exception:  # a configuration says anything, and what it raises is of any class
            return False
    read = json.loads(loaded.backend_tokenizer.to_str())
    return _essence(read) == _essence(json.loads(tokenizer.tokenizer.to_str()))


def _essence(tokenizer: dict[str, Any]) -> dict[str, Any]:
    """What decides how text is encoded, of a tokenizer.json."""
    model = tokenizer["model"]
    return {
        "normalizer": tokenizer["normalizer"],
        "pre_tokenizer": tokenizer["pre_tokenizer"],
        "ignore_merges": model.get("ignore_merges"),
        "vocabulary": model.get("vocab"),
        "merges": model.get("merges"),
        "added": [(token["id"], token["content"]) for token in tokenizer["added_tokens"]],
    }
