"""vLLM: the plain model, and an index for ``tasc.serving.vllm.TascProposer``."""

import json
from pathlib import Path

from tasc.report.markdown import block
from tasc.serving.parts import (
    CONSTRAINT_FILES,
    INDEX_FOLDER,
    OUTPUT_GRAMMAR,
    Format,
    Start,
)

# Other backends of vLLM read another language from the same schema, regex or Lark grammar.
_BACKEND = {"backend": "guidance"}
_REQUEST = """\
import json
import urllib.request
from pathlib import Path

request = {request}
request["structured_outputs"] = {{{kind!r}: {value}}}
asked = urllib.request.Request(
    {url!r}, json.dumps(request).encode(), {{"Content-Type": "application/json"}}
)
with urllib.request.urlopen(asked) as answer:
    print(json.load(answer)["choices"][0]["text"])"""


class VllmExport(Format):
    """A plain model folder, the options that enable drafts, and the grammar of a schema."""

    def save(self, folder: Path) -> None:
        super().save(folder)
        constraint = self.parts.constraint
        if constraint is not None and constraint.kind == "schema":
            (folder / OUTPUT_GRAMMAR).write_text(constraint.lark + "\n", encoding="utf-8")

    def notes(self) -> list[str]:
        if self.parts.constraint is None:
            return []
        return [
            "with the backend `guidance` and the grammar of this folder, vLLM allows the outputs "
            "that `tasc bench` measured; `response_format` with a JSON Schema allows others"
        ]

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
        if start.constraint:
            words += ["--structured-outputs-config", json.dumps(_BACKEND)]
        return words

    @staticmethod
    def example(start: Start) -> str:
        """Return a request with OpenAI's protocol, and one for outputs of the constraint."""
        plain = Format.example(start)
        if not start.constraint:
            return plain
        ((option, constraint),) = start.constraint.items()
        file = OUTPUT_GRAMMAR if option == "schema" else CONSTRAINT_FILES.get(option)
        kind, value = (
            ("regex", repr(constraint))
            if file is None
            else ("grammar", f"Path({file!r}).read_text()")
        )
        python = _REQUEST.format(request=start.request(), kind=kind, value=value, url=start.url)
        return (
            f"{plain}\n\nFor outputs of the {option}, in this folder:\n\n{block('python', python)}"
        )
