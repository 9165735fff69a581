"""Checkpoints whose config.json and weights agree about the LM head, or do not."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from tests import pico

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True)
class Checkpoint:
    """Whether the head's values are the embedding's, what config.json says, and what is there."""

    tied: bool
    says_tied: bool | None  # None: nothing
    has_head: bool
    dtype: str = "float32"

    @property
    def means_tied(self) -> bool:
        """Whether a checkpoint of Llama, whose default is untied, has one matrix for both."""
        return bool(self.says_tied) and (self.tied or not self.has_head)

    @property
    def has_no_head(self) -> bool:
        """Whether config.json promises a head that is nowhere."""
        return not self.says_tied and not self.has_head

    def __str__(self) -> str:
        says = {True: "tied", False: "untied", None: "nothing"}[self.says_tied]
        parts = "tied" if self.tied else "untied", f"says-{says}"
        return "-".join([*parts, "head" if self.has_head else "no-head", self.dtype])

    def save(self, folder: Path, architecture: str = "llama", **shape: Any) -> Path:
        """Write the checkpoint with a tokenizer, and return its folder."""
        pico.make_tokenizer(folder)
        model = pico.build_model(architecture, tied=False, **shape)
        if self.tied:
            model.get_output_embeddings().weight.data.copy_(model.get_input_embeddings().weight)
        model.to(DTYPES[self.dtype]).save_pretrained(folder)
        file = folder / "model.safetensors"
        weights = load_file(file)
        if not self.has_head:
            del weights["lm_head.weight"]
        save_file(weights, file, {"format": "pt"})
        state_tying(folder, self.says_tied)
        return folder


def state_tying(folder: Path, says_tied: bool | None) -> None:
    """Make config.json say that the head is the embedding, that it is not, or nothing."""
    file = folder / "config.json"
    values = json.loads(file.read_text())
    values.pop("tie_word_embeddings", None)
    file.write_text(json.dumps(values | says(says_tied)))


def says(tied: bool | None) -> dict[str, bool]:
    return {} if tied is None else {"tie_word_embeddings": tied}
