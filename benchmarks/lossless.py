"""Compare the outputs of every drafter on real prompts with the model's own outputs.

Four architectures learn the task for a few hundred steps, so that drafts are accepted and outputs
vary. All outputs must be equal, token for token, or the exit status is 1: in float32 greedy ones to
transformers' outputs, sampled ones to autoregressive decoding with the same random numbers, and in
bfloat16 with packed layers greedy ones to autoregressive decoding.
Usage: python -m benchmarks.lossless --data-dir DATA [--prompts 200] [--json FILE]
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from benchmarks.figures import publish, script
from tasc.benchmark.lossless import generate_reference, match
from tasc.benchmark.matrix import Cell, prepare, run
from tasc.benchmark.options import BenchOptions
from tasc.data.corpus import Corpus, load
from tasc.data.source import Source
from tasc.decoding.core.resources import DraftSource
from tasc.decoding.drafters import DRAFTERS
from tasc.decoding.loaded import Loaded
from tasc.models.packed import pack
from tasc.models.targets.borrowed import target_from_model
from tasc.tokenizer.loaded import LoadedTokenizer
from tasc.training.base import train_tokenizer
from tasc.training.core.batch import collate, encode_examples, pack_blocks
from tasc.training.draft_head import train_head
from tasc.training.folder import save_model
from tasc.training.objectives.language import summed_loss
from tasc.training.options import FinetuneOptions

ARCHITECTURES = ("qwen2", "llama", "mistral", "gemma")
VOCABULARY, BLOCK, ROWS, END = 2048, 256, 9, 0
METHODS = [name for name in DRAFTERS if name != "grammar"]  # which needs a grammar
SIZED = {"fr-spec": "fr-spec:size=500"}
KINDS = {"float32": torch.float32, "sampled": torch.float32, "bfloat16": torch.bfloat16}


def main() -> int:
    """Print all comparisons as JSON; return 1 if outputs differ."""
    parser = script(
        __doc__, data=True, threads=True, prompts=200, new_tokens=48, steps=250, temperature=0.8
    )
    parser.add_argument("--architectures", nargs="+", choices=ARCHITECTURES, default=ARCHITECTURES)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    source = Source(path=str(options.data_dir / "massive-en"))
    train = load(source, "train")
    test = load(source, "test", limit=options.prompts)
    tokenizer = train_tokenizer(list(train.prompts), VOCABULARY)
    results = [measure(name, train, test, tokenizer, options) for name in options.architectures]
    publish({"prompts": options.prompts, "results": results}, options.json)
    cells = [c for r in results for kind in KINDS for c in r[kind].values()]
    return int(any(cell["different"] for cell in cells))


def measure(
    name: str, train: Corpus, test: Corpus, tokenizer: LoadedTokenizer, options: argparse.Namespace
) -> dict[str, Any]:
    """Return the figures of one architecture."""
    model = trained(name, train, tokenizer, options.steps)
    result: dict[str, Any] = {"architecture": name, "parameters": model.num_parameters()}
    methods = list(dict.fromkeys(["ar", *options.methods]))
    draft = DraftSource(tokenizer, model)  # the model itself, whose drafts should all be accepted
    with TemporaryDirectory() as folder:
        head = train_draft_head(model, tokenizer, train, Path(folder))
        for kind, dtype in KINDS.items():
            temperature = options.temperature if kind == "sampled" else None
            asked = BenchOptions(
                source=train.source.path,
                models=(name,),
                methods=tuple(SIZED.get(method, method) for method in methods),
                draft_head=head,
                max_new_tokens=options.new_tokens,
                warmup=0,
                temperature=temperature,
            )
            model.to(dtype)
            if dtype == torch.bfloat16:
                pack(model)  # as tasc bench does
            with target_from_model(model) as target:
                loaded = Loaded(name, target, tokenizer, (END,))
                prompts = loaded.encode(test.prompts)
                cells = run(prepare([loaded], train, test, asked, draft=draft), asked)
                expected = [g.tokens for g in cells[0].runs[0]]
                if kind == "float32":
                    expected = [generate_reference(loaded, p, options.new_tokens) for p in prompts]
                    result["distinct_outputs"] = len({e.tobytes() for e in expected})
                result[kind] = {
                    method: compare(cell, prompts, expected, sampled=temperature is not None)
                    for method, cell in zip(methods, cells, strict=True)
                }
    return result


def compare(
    cell: Cell, prompts: list[np.ndarray], expected: list[np.ndarray], *, sampled: bool
) -> dict[str, Any]:
    """Compare the outputs of a method with ``expected``."""
    done = cell.runs[0]
    found = [g.tokens for g in done]
    compared = match(cell.model.target, prompts, expected, found, "the model", sampled=sampled)
    return {
        "different": compared.of - compared.identical,
        "match_rate": compared.match_rate,
        "largest_margin": compared.largest_margin or 0.0,
        "tokens_per_step": sum(map(len, found)) / sum(g.decoding_steps for g in done),
    }


def train_draft_head(
    model: PreTrainedModel, tokenizer: LoadedTokenizer, train: Corpus, folder: Path
) -> str:
    """Train a draft head on the model's answers to some prompts; return its folder."""
    save_model(model, tokenizer, folder / "model")
    some = replace(train, examples=train.examples[:200])
    model_path = str(folder / "model")
    options = FinetuneOptions(
        source=train.source.path, model=model_path, draft_head=True, epochs=2, max_new_tokens=48
    )
    train_head(model_path, some, None, options, work=folder / "work").save(folder)
    return str(folder / "head")


def trained(name: str, train: Corpus, tokenizer: LoadedTokenizer, steps: int) -> PreTrainedModel:
    """Return a small model of an architecture, trained on the task for ``steps`` steps."""
    sizes = {"head_dim": 32} if name in ("gemma", "mistral") else {}
    if name == "mistral":
        sizes["sliding_window"] = 16  # shorter than the texts, so that it has an effect
    config = AutoConfig.for_model(
        name,
        vocab_size=VOCABULARY,
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=END,
        pad_token_id=END,
        **sizes,
    )
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config)
    data = pack_blocks(
        encode_examples(tokenizer, train.prompts, train.outputs, sys.maxsize, learn_prompts=True),
        BLOCK,
        0,
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    random = np.random.default_rng(0)
    for _ in range(steps):
        batch = collate(data, random.choice(len(data), ROWS, replace=False))
        loss = summed_loss(model, batch, bfloat16=False) / (ROWS * BLOCK)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return model.eval()


if __name__ == "__main__":
    sys.exit(main())
