"""SGLang: the plain model, the task's outputs as its n-gram corpus, and an index for our trees."""

import json
from pathlib import Path
from typing import Any

from tasc.decoding.drafters.ngram.index import indexed_outputs
from tasc.serving.parts import Format, Start, completion

CORPUS = "corpus.jsonl"
_DEFAULT_CORPUS = 10_000_000  # tokens that SGLang takes without a word from us


class SglangExport(Format):
    """A model folder, an index for ``tasc.serving.sglang``, and a corpus for SGLang's own NGRAM."""

    def save(self, folder: Path) -> None:
        """See Format. Each line of the corpus is one JSON string, an output."""
        super().save(folder)
        if self.parts.index is not None:
            ids = [output.tolist() for output in indexed_outputs(self.parts.index)]
            outputs = self.parts.tokenizer.decode_batch(ids)
            lines = [json.dumps(output, ensure_ascii=False) + "\n" for output in outputs]
            (folder / CORPUS).write_text("".join(lines), encoding="utf-8")

    def findings(self) -> dict[str, Any]:
        """See Format."""
        index = self.parts.index
        return {"corpus_tokens": 0 if index is None else index.tokens}

    def notes(self) -> list[str]:
        """See Format."""
        if self.findings()["corpus_tokens"] > _DEFAULT_CORPUS:
            return [
                "the corpus is larger than SGLang takes by default: add "
                f"--speculative-ngram-external-corpus-max-tokens {self.findings()['corpus_tokens']}"
            ]
        return []

    @staticmethod
    def command(start: Start) -> list[str]:
        """See Format: our trees, through the plug-in that installing tasc brings."""
        words = start.module("sglang.launch_server", "--model-path")
        if start.drafts:  # the last token is one of those that it counts
            nodes = start.speculative_tokens + 1
            words += ["--speculative-algorithm", "TASC"]
            words += ["--speculative-num-draft-tokens", str(nodes)]
        return words

    @staticmethod
    def example(start: Start) -> str:
        """See Format."""
        if not start.drafts:
            return completion(start)
        own = (
            "Without the plug-in, SGLang's own n-grams draft from the same outputs: replace "
            f"`--speculative-algorithm TASC` by\n\n```\n--speculative-algorithm NGRAM\n"
            f"--speculative-ngram-external-corpus-path {CORPUS}\n"
            f"--speculative-ngram-external-sam-budget {start.speculative_tokens}\n```"
        )
        return f"{completion(start)}\n\n{own}"


FORMAT = SglangExport
