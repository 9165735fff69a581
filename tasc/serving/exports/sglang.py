"""SGLang: the plain model, and the task's outputs as the corpus of SGLang's own n-gram drafter."""

import json
from pathlib import Path
from typing import Any

from tasc.decoding.drafters.ngram.index import indexed_outputs
from tasc.serving.parts import Format, Start

CORPUS = "corpus.jsonl"
_DEFAULT_CORPUS = 10_000_000  # tokens; SGLang does not start with a larger corpus by default


class SglangExport(Format):
    """A model folder and ``corpus.jsonl``: one JSON string per line, an output of the task."""

    def save(self, folder: Path) -> None:
        self.parts.save_model(folder)
        if self.parts.index is not None:
            outputs = self.parts.tokenizer.decode_batch(indexed_outputs(self.parts.index))
            lines = [json.dumps(output, ensure_ascii=False) + "\n" for output in outputs]
            (folder / CORPUS).write_text("".join(lines), encoding="utf-8")

    def findings(self) -> dict[str, Any]:
        index = self.parts.index
        return {"corpus_tokens": 0 if index is None else index.tokens}

    def notes(self) -> list[str]:
        tokens = self.findings()["corpus_tokens"]
        if tokens <= _DEFAULT_CORPUS:
            return []
        return [
            "the corpus is larger than SGLang accepts by default: add "
            f"--speculative-ngram-external-corpus-max-tokens {tokens} to the command"
        ]

    @staticmethod
    def command(start: Start) -> list[str]:
        """Return the command; SGLang counts the last committed token as a draft token, too."""
        words = start.module("sglang.launch_server", "--model-path")
        if start.drafts:
            words += ["--speculative-algorithm", "NGRAM"]
            words += ["--speculative-num-draft-tokens", str(start.speculative_tokens + 1)]
            words += ["--speculative-ngram-external-corpus-path", CORPUS]
            words += ["--speculative-ngram-external-sam-budget", str(start.speculative_tokens)]
        return words
