"""The parts of an export, and the interface of an engine's format."""

import json
import shutil
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from tasc._native import NgramIndex
from tasc.data.corpus import Corpus
from tasc.decoding.drafters.ngram.index import save_index
from tasc.models.folder.files import (
    GENERATION,
    INDEX,
    WEIGHTS,
    copy_json,
    model_ends,
    weight_files,
    write_json,
)
from tasc.models.folder.generation import GenerationSettings, as_applied
from tasc.models.folder.older_names import copy_config
from tasc.options.constraint import Constraint
from tasc.report.markdown import block
from tasc.serving.options import LOOPBACK, PORT, ExportOptions
from tasc.tokenizer.loaded import LoadedTokenizer
from tasc.vocab.exports.export import save as save_tokenizer

INDEX_FOLDER, HEAD_FOLDER = "index", "head"
CONSTRAINT_FILES = {"schema": "schema.json", "grammar": "grammar.lark"}
OUTPUT_GRAMMAR = "outputs.lark"  # the grammar of a schema's outputs


@dataclass(frozen=True, eq=False)
class Parts:
    """The parts of an export."""

    options: ExportOptions
    name: str  # of the model, for clients
    folder: Path  # of the model: config.json and safetensors
    tied: bool  # whether the model's LM head is its embedding
    tokenizer: LoadedTokenizer  # the model's
    index: NgramIndex | None  # n-grams to draft from, or None
    head: Path | None  # folder of a draft head, or None
    corpus: Corpus | None  # examples of the task, if any
    constraint: Constraint | None = None  # on the outputs
    generation: dict[str, Any] = field(default_factory=dict)  # the model's generation_config.json

    @cached_property
    def settings(self) -> GenerationSettings:
        """The settings of the model that have an effect."""
        return GenerationSettings.of(self.generation)

    @cached_property
    def ends(self) -> list[int]:
        """The end tokens: the tokenizer's, then the model's, as in ``tasc bench``."""
        ends = self.tokenizer.eos_id, *model_ends(self.folder, f"model {self.folder}")
        return list(dict.fromkeys(ends))

    @property
    def named_constraint(self) -> dict[str, str]:
        """The constraint by its option: a file of the export, or a regular expression."""
        if self.constraint is None:
            return {}
        option = self.constraint.option
        return {option: CONSTRAINT_FILES.get(option, self.constraint.text)}

    def save_constraint(self, folder: Path) -> None:
        """Write the schema, the grammar or the labels of the outputs, if there are any."""
        if self.constraint and self.constraint.kind == "schema":
            schema = json.loads(self.constraint.text)
            text = json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
            (folder / CONSTRAINT_FILES["schema"]).write_text(text, encoding="utf-8")
        elif self.constraint and self.constraint.kind == "lark":
            file = folder / CONSTRAINT_FILES["grammar"]
            file.write_text(self.constraint.text, encoding="utf-8")

    def save_model(self, folder: Path) -> None:
        """Copy weights and configuration, without references to code; write the tokenizer.

        The settings of generation_config.json are those that ``tasc bench`` applies.
        """
        index = [] if (self.folder / WEIGHTS).exists() else [INDEX]
        copy_config(self.folder, folder, tied=self.tied)
        for file in (self.folder / name for name in index):
            if file.exists():
                copy_json(file, folder, f"model {self.folder}")
        write_json(folder / GENERATION, as_applied(self.generation, self.ends))
        for file in weight_files(self.folder):
            shutil.copyfile(file, folder / file.name)
        save_tokenizer(self.tokenizer.tokenizer, self.tokenizer.files, folder)


@dataclass(frozen=True)
class Start:
    """The settings that start an engine.

    ``exact``: the model is in float32, which engines round to 16 bits by default. ``prompt``: an
    example for the README. ``constraint``: file or expression of the outputs, by its option.
    ``repetition_penalty``: of the model's settings, for engines that do not read its files.
    ``ends``: end tokens of outputs.
    """

    name: str
    drafts: bool
    speculative_tokens: int
    exact: bool
    host: str = LOOPBACK
    port: int = PORT
    prompt: str = "your prompt"
    constraint: dict[str, str] = field(default_factory=dict)
    repetition_penalty: float = 1.0
    ends: tuple[int, ...] = ()

    def module(self, name: str, model: str) -> list[str]:
        """Return the command that starts a Python server here; ``model`` is its model option."""
        words = ["python", "-m", name, model, ".", "--served-model-name", self.name]
        words += ["--host", self.host, "--port", str(self.port)]
        return [*words, "--dtype", "float32"] if self.exact else words  # the default has 16 bits

    @property
    def url(self) -> str:
        """The address of completions with OpenAI's protocol."""
        return f"http://{self.host}:{self.port}/v1/completions"

    def request(self) -> dict[str, Any]:
        """Return an example of a request for a completion."""
        request = {"model": self.name, "prompt": self.prompt, "add_special_tokens": False}
        return request | {"max_tokens": 64, "temperature": 0, "skip_special_tokens": False}


class Format(ABC):
    """Writes an engine's folder, for one export. Measurements happen in the constructor."""

    def __init__(self, parts: Parts) -> None:
        """Take the parts. Raises InputError for parts that the engine cannot load."""
        self.parts = parts

    def save(self, folder: Path) -> None:
        """Write model, tokenizer and draft data into an existing folder."""
        self.parts.save_model(folder)
        if self.parts.index is not None:
            (folder / INDEX_FOLDER).mkdir()
            save_index(self.parts.index, self.parts.tokenizer, folder / INDEX_FOLDER)

    def findings(self) -> dict[str, Any]:
        """Return findings about this export, as JSON values."""
        return {}

    def notes(self) -> list[str]:
        return []

    @staticmethod
    @abstractmethod
    def command(start: Start) -> list[str]:
        """Return the command that starts the engine in the folder; empty for a library."""

    @staticmethod
    def example(start: Start) -> str:
        """Return Markdown for the README: by default, a request with OpenAI's protocol."""
        request = start.request()
        body = json.dumps(request).replace("'", "'\\''")
        return block("sh", f"curl {start.url} -H 'Content-Type: application/json' -d '{body}'")
