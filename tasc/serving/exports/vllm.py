"""vLLM: the plain model, and an index for ``tasc.serving.vllm.TascProposer``."""

import json

from tasc.serving.parts import INDEX_FOLDER, Format, Start


class VllmExport(Format):
    """A plain model folder, and the options that enable drafts."""

    @staticmethod
    def command(start: Start) -> list[str]:
        """Return the command; ``vllm serve`` does not start CPU builds, the module does."""
        words = start.module("vllm.entrypoints.openai.api_server", "--model")
        if start.drafts:
            speculative = {
                "method": "custom_class",
                "model": "tasc.serving.vllm.TascProposer",
                "num_speculative_tokens": start.speculative_tokens,
            }
            ours = {"index": INDEX_FOLDER, **start.constraint}
            words += ["--speculative-config", json.dumps(speculative)]
            words += ["--additional-config", json.dumps({"tasc": ours})]
        return words
