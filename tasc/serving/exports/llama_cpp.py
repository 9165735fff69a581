"""llama.cpp: the model as GGUF, and n-gram caches for drafts."""

import re
import struct
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tasc.decoding.drafters.ngram.index import indexed_outputs
from tasc.models.folder.files import CONFIG, read_json
from tasc.models.folder.vocabulary import stated
from tasc.options.constraint import Constraint
from tasc.report.markdown import block, code
from tasc.serving.gguf_ends import end_notes
from tasc.serving.gguf_file import library, write_gguf
from tasc.serving.gguf_vocabulary import Vocabulary, differences, vocabulary
from tasc.serving.parts import Format, Parts, Start
from tasc.vocab.exports.export import save as save_tokenizer

MODEL, GRAMMAR = "model.gguf", "outputs.gbnf"
# option -> file, and the lengths of the n-grams that llama.cpp reads from it
CACHES = {"-lcs": ("ngrams-static.bin", (2,)), "-lcd": ("ngrams-dynamic.bin", (1, 2, 3, 4))}
# Types of models whose greedy outputs in llama.cpp equal transformers' in the tests.
COMPARED = {
    *("cohere", "falcon_h1", "granite", "jamba", "lfm2", "lfm2_moe", "llama", "mamba", "mamba2"),
    *("mistral", "mixtral", "phi3", "qwen2", "qwen3", "smollm3"),
}
_LONGEST = 4
# Last tokens that a repetition penalty counts, prompt included. More than a context: transformers
# counts all, and -1, llama.cpp's word for all, turns the penalty off in some builds.
_PENALISED = 1 << 17
Ngram = tuple[int, ...]
_MOST = 2000  # texts to compare encodings on
_PYTHON = """\
import xllamacpp

params = xllamacpp.CommonParams()
params.model.path = "model.gguf"
params.n_ctx, params.cpuparams.n_threads = 2048, 1
{exact}{penalty}{drafts}server = xllamacpp.Server(params)
asked = {{"prompt": {prompt}, "max_tokens": 64, "temperature": 0}}
print(server.handle_completions(asked)["choices"][0]["text"])"""
_EXACT = """\
params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
"""
_PENALTY = """\
params.sampling.penalty_repeat, params.sampling.penalty_last_n = {penalty}, {tokens}
"""
_DRAFTS = """\
params.speculative.types = [
    xllamacpp.common_speculative_type.COMMON_SPECULATIVE_TYPE_NGRAM_CACHE
]
params.speculative.ngram_cache.lookup_cache_static = "ngrams-static.bin"
params.speculative.ngram_cache.lookup_cache_dynamic = "ngrams-dynamic.bin"
"""


class LlamaCppExport(Format):
    """A GGUF file, and the number of the task's texts that llama.cpp encodes differently."""

    def __init__(self, parts: Parts) -> None:
        """Raises UnavailableError if llama.cpp's converter is missing."""
        library()
        super().__init__(parts)
        self.vocabulary, self.encoding = _best(parts)

    def save(self, folder: Path) -> None:
        parts = self.parts
        write_gguf(parts, self.vocabulary, folder / MODEL)
        save_tokenizer(parts.tokenizer.tokenizer, parts.tokenizer.files, folder)
        if parts.constraint is not None:
            text = grammar(parts.constraint, labels=parts.options.choices is not None)
            (folder / GRAMMAR).write_text(text, encoding="utf-8")
        if parts.index is not None:
            outputs = indexed_outputs(parts.index)
            for name, lengths in CACHES.values():
                counts = count_ngrams(outputs, parts.index.end, lengths)
                write_cache(counts, folder / name)

    def findings(self) -> dict[str, Any]:
        return {
            "weights": self.parts.options.weights,
            "pre_tokenizer": self.vocabulary.pre,
            "encoding": self.encoding,
        }

    def notes(self) -> list[str]:
        notes = [
            f"llama.cpp encodes {counts['differ']:,} of the task's {counts['texts']:,} {what} "
            "differently from the tokenizer"
            for what, counts in (self.encoding or {}).items()
        ]
        kind = read_json(self.parts.folder / CONFIG, "model")["model_type"]
        if kind not in COMPARED:
            notes.append(
                f"llama.cpp's outputs were not compared with transformers' for models of the type "
                f"{code(kind)}: compare them with `tasc load`"
            )
        notes += end_notes(self.parts)
        if not self.encoding:
            notes.append("differences in encoding were not counted: add --data to count them")
        if self.parts.constraint is not None and self.parts.options.choices is None:
            notes.append(
                f"{code(GRAMMAR)} needs a build of llama.cpp with LLGuidance, such as xllamacpp; "
                "other builds take a JSON Schema as `json_schema` in the request"
            )
        if self.parts.index is not None:
            notes.append("it drafts at most 8 tokens per step, from n-grams of up to 4 tokens")
            notes.append("on a CPU, its drafts can cost more than they save: compare both")
        return notes

    @staticmethod
    def command(start: Start) -> list[str]:
        words = ["llama-server", "--model", MODEL, "--alias", start.name]
        words += ["--host", start.host, "--port", str(start.port)]
        if start.exact:  # flash attention and the usual cache round to float16
            words += ["--flash-attn", "off", "--cache-type-k", "f32", "--cache-type-v", "f32"]
        if start.repetition_penalty != 1:
            words += ["--repeat-penalty", str(start.repetition_penalty)]
            words += ["--repeat-last-n", str(_PENALISED)]
        if start.drafts:
            words += ["--spec-type", "ngram-cache"]
            words += [word for flag, (name, _) in CACHES.items() for word in (flag, name)]
        return words

    @staticmethod
    def example(start: Start) -> str:
        penalty = start.repetition_penalty
        python = _PYTHON.format(
            exact=_EXACT if start.exact else "",
            penalty="" if penalty == 1 else _PENALTY.format(penalty=penalty, tokens=_PENALISED),
            drafts=_DRAFTS if start.drafts else "",
            prompt=repr(start.prompt),
        )
        how = "Without a server, from Python (`pip install xllamacpp`):"
        return f"{Format.example(start)}\n\n{how}\n\n{block('python', python)}"


def _best(parts: Parts) -> tuple[Vocabulary, dict[str, dict[str, int]] | None]:
    """Choose the vocabulary that encodes more prompts, then outputs, like the tokenizer."""
    size = stated(parts.folder, "vocab_size") or len(parts.tokenizer.vocabulary())
    ways = [
        vocabulary(parts.tokenizer, size, parts.ends, user_defined=one) for one in (True, False)
    ]
    if parts.corpus is None:
        return ways[0], None
    texts = {"prompts": parts.corpus.prompts[:_MOST], "outputs": parts.corpus.outputs[:_MOST]}
    counts = [
        {what: differences(way, parts.tokenizer, some) for what, some in texts.items()}
        for way in ways
    ]
    best = min((0, 1), key=lambda i: [counts[i][what]["differ"] for what in texts])
    return ways[best], counts[best]


def grammar(constraint: Constraint, *, labels: bool) -> str:
    """Return a constraint as llama.cpp reads it: ``labels`` in GBNF, others in LLGuidance's Lark.

    llama.cpp passes a grammar that begins with %llguidance to LLGuidance, if it was built with it.
    """
    if labels:
        return constraint.text.replace("start: LABEL\nLABEL:", "root ::=", 1) + "\n"
    if constraint.kind == "schema":
        rules = constraint.lark
    elif constraint.kind == "regex":
        escaped = re.sub(r"\\.|/", lambda m: m[0] if len(m[0]) > 1 else r"\/", constraint.text)
        rules = f"start: /{escaped}/"
    else:
        rules = constraint.text
    return f"%llguidance {{}}\n{rules}\n"


def count_ngrams(
    outputs: Iterable[np.ndarray], end: int, lengths: Sequence[int]
) -> dict[Ngram, Counter[int]]:
    """Count the tokens after each n-gram of ``outputs`` (T_i,) int32, followed by ``end``."""
    counts: dict[Ngram, Counter[int]] = defaultdict(Counter)
    for output in outputs:
        tokens = [*output.tolist(), end]
        for n in lengths:
            for at in range(n, len(tokens)):
                counts[tuple(tokens[at - n : at])][tokens[at]] += 1
    return counts


def write_cache(counts: dict[Ngram, Counter[int]], path: Path) -> None:
    """Write an n-gram cache (common/ngram-cache.cpp), sorted so that equal counts give equal files.

    It is a list of records without a header, in the machine's byte order: the n-gram, int32[4]
    padded with -1; the number m > 0 of continuations, int32; m pairs of token and count > 0, int32.
    """
    with path.open("wb") as file:
        for ngram in sorted(counts):
            padded = ngram + (-1,) * (_LONGEST - len(ngram))
            pairs = [number for pair in sorted(counts[ngram].items()) for number in pair]
            file.write(struct.pack(f"=5i{len(pairs)}i", *padded, len(pairs) // 2, *pairs))
