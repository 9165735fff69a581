"""Convert the llama2.c checkpoint of 260,032 parameters to a model folder; sample stories from it.

The sampled stories train a target with a large vocabulary, so that both models know the same kind
of text. Usage:
python -m benchmarks.tinystories convert CHECKPOINT_FOLDER --output DIR
python -m benchmarks.tinystories sample MODEL_FOLDER --output FILE.jsonl [--stories 16000]
"""

import argparse
import json
import struct
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer, processors
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

from tasc.models.load import load_model
from tasc.tokenizer.loaded import load_tokenizer
from tasc.tokenizer.sentencepiece import BPE, BYTE, CONTROL, NORMAL, UNKNOWN, Pieces, build

BEGIN, END = 1, 2
CONTEXT = 512


def main() -> None:
    """Run one of the two commands."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    convert, draw = commands.add_parser("convert"), commands.add_parser("sample")
    draw.add_argument("--stories", type=int, default=16_000)
    draw.add_argument("--rows", type=int, default=256)
    draw.add_argument("--temperature", type=float, default=0.8)
    draw.add_argument("--seed", type=int, default=0)
    for command in (convert, draw):
        command.add_argument("source", type=Path)
        command.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    if options.command == "convert":
        save(options.source, options.output)
    else:
        sample(options)


def save(source: Path, folder: Path) -> None:
    """Write the checkpoint in ``source`` as a folder that transformers and ``tasc`` load."""
    folder.mkdir(parents=True, exist_ok=True)
    model = read_model(source / "checkpoint_v1.bin")
    model.save_pretrained(folder)
    read_tokenizer(source / "tokenizer.bin").save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
        "clean_up_tokenization_spaces": False,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")


def read_model(path: Path) -> LlamaForCausalLM:
    """Return the model of a llama2.c checkpoint, version 1: a header of 256 bytes, then float32."""
    contents = path.read_bytes()
    dim, hidden, layers, heads, kv_heads, vocabulary, context = struct.unpack_from(
        "<7i", contents, 8
    )
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=dim,
        intermediate_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        max_position_embeddings=context,
        rms_norm_eps=1e-5,
        tie_word_embeddings=True,
        bos_token_id=BEGIN,
        eos_token_id=[END, BEGIN],  # it was trained on concatenated stories
    )
    model = LlamaForCausalLM(config)
    floats = iter_arrays(np.frombuffer(contents, "<f4", offset=256))
    kv = kv_heads * dim // heads
    norms = {
        "input_layernorm": floats(layers, dim),
        "post_attention_layernorm": floats(layers, dim),
    }
    last, embedding = floats(dim), floats(vocabulary, dim)
    parts = norms | {
        "self_attn.q_proj": half_split(floats(layers, dim, dim), heads),
        "self_attn.k_proj": half_split(floats(layers, kv, dim), kv_heads),
        "self_attn.v_proj": floats(layers, kv, dim),
        "self_attn.o_proj": floats(layers, dim, dim),
        "mlp.gate_proj": floats(layers, hidden, dim),
        "mlp.down_proj": floats(layers, dim, hidden),
        "mlp.up_proj": floats(layers, hidden, dim),
    }
    state = {"model.norm.weight": last, "model.embed_tokens.weight": embedding}
    for name, rows in parts.items():
        state |= {f"model.layers.{i}.{name}.weight": rows[i] for i in range(layers)}
    state["lm_head.weight"] = embedding
    model.load_state_dict({k: torch.from_numpy(v.copy()) for k, v in state.items()})
    return model.eval()


def iter_arrays(flat: np.ndarray) -> Callable[..., np.ndarray]:
    """Return a function that takes the next array of a given shape from ``flat``."""
    at = 0

    def take(*shape: int) -> np.ndarray:
        nonlocal at
        at += int(np.prod(shape))
        return flat[at - int(np.prod(shape)) : at].reshape(shape)

    return take


def half_split(rows: np.ndarray, heads: int) -> np.ndarray:
    """Reorder (layers, out, in) from rotating neighbours to transformers' rotating halves."""
    layers, out, width = rows.shape
    pairs = rows.reshape(layers, heads, out // heads // 2, 2, width)
    return pairs.swapaxes(2, 3).reshape(layers, out, width)


def read_tokenizer(path: Path) -> Tokenizer:
    """Return the tokenizer of a llama2.c file: SentencePiece's BPE by score, with byte fallback."""
    contents, at, texts = path.read_bytes(), 4, list[str]()
    while at < len(contents):
        _, length = struct.unpack_from("<fi", contents, at)
        at += 8 + length
        texts.append(contents[at - length : at].decode())
    texts[BEGIN], texts[END] = "<s>", "</s>"
    kinds = [UNKNOWN, CONTROL, CONTROL, *[BYTE] * 256, *[NORMAL] * len(texts)]
    # Pieces are in the order of their scores.
    pieces = [(text.replace(" ", "▁"), float(-i), kinds[i]) for i, text in enumerate(texts)]
    tokenizer = build(Pieces(pieces, BPE, squeeze=False))
    tokenizer.post_processor = processors.TemplateProcessing(
        "<s> $A", special_tokens=[("<s>", BEGIN)]
    )
    return tokenizer


def sample(options: argparse.Namespace) -> None:
    """Append JSONL rows ``{"input": "", "output": story}`` until there are ``--stories``."""
    model = load_model(str(options.source), "float32")
    tokenizer = load_tokenizer(str(options.source))
    options.output.parent.mkdir(parents=True, exist_ok=True)
    done = len(options.output.read_bytes().splitlines()) if options.output.is_file() else 0
    torch.manual_seed(options.seed + done)
    start = torch.full((options.rows, 1), BEGIN)
    with options.output.open("a", encoding="utf-8") as file:
        while done < options.stories:
            found = model.generate(
                start,
                attention_mask=torch.ones_like(start),
                generation_config=GenerationConfig(
                    do_sample=True,
                    temperature=options.temperature,
                    top_k=0,
                    max_length=CONTEXT,
                    eos_token_id=[END, BEGIN],
                    pad_token_id=END,
                    cache_implementation="static",
                    disable_compile=True,
                ),
            )
            for row in found[:, 1:].tolist():
                ids = [token for token in row if token not in (BEGIN, END)]
                file.write(json.dumps({"input": "", "output": tokenizer.decode(ids)}) + "\n")
            done += len(found)
            file.flush()
            print(f"{done} stories", file=sys.stderr)  # noqa: T201 - a script


if __name__ == "__main__":
    main()
