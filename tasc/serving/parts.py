"""What every export is made from, and what a format of an engine has to do with it."""

import json
import shutil
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasc._native import NgramIndex
from tasc.data.corpus import Corpus
from tasc.decoding.drafters.ngram.index import save_index
from tasc.models.folder.files import CONFIG, INDEX, WEIGHTS, check_inside, weight_files
from tasc.serving.options import ExportOptions
from tasc.tokenizer.loaded import LoadedTokenizer
from tasc.vocab.exports.export import save as save_tokenizer

INDEX_FOLDER, HEAD_FOLDER = "index", "head"
_GENERATION = "generation_config.json"


@dataclass(frozen=True, eq=False)
class Parts:
    """What is exported."""

    options: ExportOptions  # of the command
    name: str  # that clients call the model by
    folder: Path  # of the model: config.json and safetensors
    tokenizer: LoadedTokenizer  # the model's
    index: NgramIndex | None  # n-grams to draft from, or None
    head: Path | None  # folder of a draft head, or None
    corpus: Corpus | None  # examples of the task, where data was given

    def save_model(self, folder: Path) -> None:
        """Copy configuration and weights, and write the tokenizer beside them."""
        named = [CONFIG, _GENERATION, *([INDEX] if not (self.folder / WEIGHTS).exists() else [])]
        files = [self.folder / name for name in named if (self.folder / name).exists()]
        for file in (*files, *weight_files(self.folder)):
            check_inside(file, f"model {self.folder}")
            shutil.copyfile(file, folder / file.name)
        save_tokenizer(self.tokenizer.tokenizer, self.tokenizer.files, folder)

    def save_index(self, folder: Path) -> None:
        """Write the index, where there is one."""
        if self.index is not None:
            (folder / INDEX_FOLDER).mkdir()
            save_index(self.index, self.tokenizer, folder / INDEX_FOLDER)


@dataclass(frozen=True)
class Start:
    """How an engine is started: what of the export matters, and where it listens.

    ``exact``: numbers are float32 throughout, which engines round to 16 bits unless told not to.
    ``prompt``: shows how the model is asked.
    """

    name: str
    drafts: bool
    speculative_tokens: int
    exact: bool
    host: str
    port: int
    prompt: str = "your prompt"

    def module(self, name: str, model: str) -> list[str]:
        """Return the words that start a server of Python here; ``model`` is its option."""
        words = ["python", "-m", name, model, ".", "--served-model-name", self.name]
        words += ["--host", self.host, "--port", str(self.port)]
        return [*words, "--dtype", "float32"] if self.exact else words  # it would take 16 bits


class Format(ABC):
    """An engine's folder. A format is made for one export, and measures when it is made."""

    def __init__(self, parts: Parts) -> None:
        """Take what is exported. Raises InputError for what the engine cannot load."""
        self.parts = parts

    def save(self, folder: Path) -> None:
        """Write model, tokenizer and what drafts into an existing folder."""
        self.parts.save_model(folder)
        self.parts.save_index(folder)

    def findings(self) -> dict[str, Any]:
        """Return what a person should know of this very export, as JSON values."""
        return {}

    def notes(self) -> list[str]:
        """Return the same as sentences."""
        return []

    @staticmethod
    @abstractmethod
    def command(start: Start) -> list[str]:
        """Return the words that start the engine inside of the folder; none for a library."""

    @staticmethod
    def example(start: Start) -> str:
        """Return Markdown for the README: how the model is used."""
        return completion(start)


def completion(start: Start) -> str:
    """Return a request to a server that speaks OpenAI's protocol."""
    request = {"model": start.name, "prompt": start.prompt, "max_tokens": 64, "temperature": 0}
    url = f"http://{start.host}:{start.port}/v1/completions"
    asked = json.dumps(request).replace("'", "'\\''")
    return f"```sh\ncurl {url} -H 'Content-Type: application/json' -d '{asked}'\n```"
