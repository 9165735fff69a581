"""vLLM: the plain model, and an index that ``tasc.serving.vllm.TascProposer`` drafts from."""

import json

from tasc.serving.parts import INDEX_FOLDER, Format, Start

_PROPOSER = "tasc.serving.vllm.TascProposer"


class VllmExport(Format):
    """A folder that vLLM loads as it loads any model, and the options that make it draft."""

    @staticmethod
    def command(start: Start) -> list[str]:
        """See Format. The module, as ``vllm serve`` does not start the builds for CPUs."""
        words = start.module("vllm.entrypoints.openai.api_server", "--model")
        if start.drafts:
            speculative = {
                "method": "custom_class",
                "model": _PROPOSER,
                "num_speculative_tokens": start.speculative_tokens,
            }
            words += ["--speculative-config", json.dumps(speculative)]
            words += ["--additional-config", json.dumps({"tasc": {"index": INDEX_FOLDER}})]
        return words


FORMAT = VllmExport
