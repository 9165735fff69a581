"""Run the whole chain of commands on small models of other architectures, trained from scratch.

Usage: python -m benchmarks.architectures --data-dir DIR --output FOLDER [--json FILE]
"""

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from benchmarks.figures import publish, script
from cli.main import main as tasc
from tasc.training import base
from tasc.training.base import Preset

_MIXED = "linear_attention", "linear_attention", "full_attention"
_SLIDING = "sliding_attention", "sliding_attention", "full_attention"
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "lfm2": {
        "layer_types": ["conv", "conv", "full_attention", "conv", "full_attention"],
        "block_auto_adjust_ff_dim": False,
    },
    "qwen3_5_text": {
        "layer_types": [*_MIXED, *_MIXED[1:]],
        **{"linear_num_key_heads": 2, "linear_num_value_heads": 4, "head_dim": 64},
        **{"linear_key_head_dim": 64, "linear_value_head_dim": 64},
    },
    "gemma4_text": {
        "layer_types": [*_SLIDING, *_SLIDING[1:]],
        **{"num_kv_shared_layers": 2, "head_dim": 64, "global_head_dim": 128},
        **{"sliding_window": 64, "hidden_size_per_layer_input": 32},
    },
}
_TRAINED = "--quantize none --batch-size 32 --effective-batch 32 --learning-rate 3e-3 --merge"


def _build(
    kind: str, preset: Preset, vocabulary: int, positions: int, seed: int, *, end: int
) -> PreTrainedModel:
    """Build a model with the sizes of a preset of ``tasc base``."""
    more = {"vocab_size_per_layer_input": vocabulary} if kind == "gemma4_text" else {}
    config = AutoConfig.for_model(
        kind,
        **{"vocab_size": vocabulary, "max_position_embeddings": positions},
        **{"hidden_size": preset.hidden, "intermediate_size": preset.intermediate},
        **{"num_attention_heads": preset.heads, "num_key_value_heads": preset.key_value_heads},
        **{"bos_token_id": None, "eos_token_id": end, "pad_token_id": end},
        **{"tie_word_embeddings": True, "num_hidden_layers": 5},
        **ARCHITECTURES[kind],
        **more,
    )
    torch.manual_seed(seed)
    model: PreTrainedModel = AutoModelForCausalLM.from_config(config)
    return model


def _run(line: str) -> None:
    sys.stderr.write(f"tasc {line}\n")
    try:
        tasc(line.split())
    except SystemExit as end:
        if end.code:
            raise


def chain(kind: str, data: str, folder: Path) -> list[dict[str, Any]]:
    """Run the chain below ``folder``; return the cells of its bench, with speed-ups."""
    with patch.object(base, "build", partial(_build, kind)):
        _run(f"base {data} --preset small --epochs 3 --limit 3000 --output {folder}/base")
    _run(f"analyze {data} --tokenizer {folder}/base --model {folder}/base --output {folder}/a")
    tokens = f"--tokenizer {folder}/base --new-tokens 150 --output {folder}/tokens"
    _run(f"augment {data} --limit 3000 {tokens}")
    tune = f"finetune {data} --limit 3000 --model {folder}/base {_TRAINED}"
    _run(f"{tune} --epochs 1 --output {folder}/baseline")
    of = f"--augmented {folder}/tokens --tokens-of {folder}/baseline"
    _run(f"{tune} {of} --output {folder}/tasc-ft")
    models = f"--model {folder}/baseline --model {folder}/tasc-ft --method ar --method tasc-spec"
    limits = f"--limit 150 --repeats 3 --threads 1 --output {folder}/bench"
    _run(f"bench {data} {models} {limits}")
    for engine in ("transformers", "vllm"):
        _run(f"export {folder}/tasc-ft --to {engine} --output {folder}/{engine}")
    cells: list[dict[str, Any]] = json.loads((folder / "bench/results.json").read_text())["cells"]
    first = cells[0]["ms_per_sample"]
    for cell in cells:
        del cell["outputs"]
        cell["speedup"] = first / cell["ms_per_sample"]
    return cells


def main() -> None:
    """Measure every architecture and print the figures as JSON."""
    options = script(__doc__, data_dir=str, output=str).parse_args()
    folder = Path(options.output)
    found = {kind: chain(kind, options.data_dir, folder / kind) for kind in ARCHITECTURES}
    publish({"architectures": found}, options.json)


if __name__ == "__main__":
    main()
