"""The llama2.c checkpoint of 260,032 parameters as a model folder, and stories sampled from it.

Sampled stories are the text that a target with a large vocabulary learns, so that both models know
the same kind of text. Usage:
python -m benchmarks.tinystories convert CHECKPOINT_FOLDER --output DIR
python -m benchmarks.tinystories sample MODEL_FOLDER --output FILE.jsonl [--stories 16000]
python -m benchmarks.tinystories train FILE.jsonl --tokenizer TOKENIZER --output DIR [--minutes 12]
"""

import argparse
import json
import struct
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, processors
from transformers import LlamaConfig, LlamaForCausalLM

from tasc.data.tokenizer import load_tokenizer
from tasc.finetune.base import Preset, _groups, build
from tasc.finetune.batch import example_sequences, packed_blocks
from tasc.finetune.folder import save_model
from tasc.finetune.loop import Run
from tasc.finetune.schedule import Schedule
from tasc.models.load import device_has_bfloat16, load_model

UNKNOWN, BEGIN, END, FIRST_PIECE = 0, 1, 2, 259
CONTEXT = 512


def main() -> None:
    """Run one of the two commands."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    convert = commands.add_parser("convert")
    convert.add_argument("source", type=Path)
    draw = commands.add_parser("sample")
    draw.add_argument("source", type=Path)
    draw.add_argument("--stories", type=int, default=16_000)
    draw.add_argument("--rows", type=int, default=256)
    draw.add_argument("--temperature", type=float, default=0.8)
    draw.add_argument("--seed", type=int, default=0)
    learn = commands.add_parser("train")
    learn.add_argument("source", type=Path)
    learn.add_argument("--tokenizer", required=True)
    learn.add_argument("--hidden", type=int, default=384)
    learn.add_argument("--layers", type=int, default=6)
    learn.add_argument("--epochs", type=float, default=1.0)
    learn.add_argument("--minutes", type=float)
    learn.add_argument("--learning-rate", type=float, default=2e-3)
    for command in (convert, draw, learn):
        command.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    if options.command == "convert":
        save(options.source, options.output)
    elif options.command == "sample":
        sample(options)
    else:
        train(options)


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
        eos_token_id=[END, BEGIN],  # it was trained on stories behind each other
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
    """Return a function that cuts the next array of a given shape off ``flat``."""
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
    """Return the tokenizer of a llama2.c file: BPE by score with byte fallback."""
    contents, at, pieces = path.read_bytes(), 4, list[str]()
    while at < len(contents):
        _, length = struct.unpack_from("<fi", contents, at)
        at += 8 + length
        pieces.append(contents[at - length : at].decode())
    pieces[BEGIN], pieces[END] = "<s>", "</s>"
    vocabulary = {piece.replace(" ", "▁"): i for i, piece in enumerate(pieces)}
    merges = [  # pieces stand in the order of their scores
        (piece[:cut], piece[cut:])
        for piece, i in vocabulary.items()
        if i >= FIRST_PIECE
        for cut in range(1, len(piece))
        if piece[:cut] in vocabulary and piece[cut:] in vocabulary
    ]
    tokenizer = Tokenizer(
        models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    )
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        "<s> $A", special_tokens=[("<s>", BEGIN)]
    )
    special = ("<unk>", "<s>", "</s>")
    tokenizer.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in special])
    return tokenizer


@torch.inference_mode()
def sample(options: argparse.Namespace) -> None:
    """Append stories as JSONL rows ``{"input": "", "output": story}`` until there are enough."""
    model = load_model(str(options.source), "float32")
    tokenizer = load_tokenizer(str(options.source))
    options.output.parent.mkdir(parents=True, exist_ok=True)
    done = len(options.output.read_bytes().splitlines()) if options.output.is_file() else 0
    generator = torch.Generator().manual_seed(options.seed + done)
    with options.output.open("a", encoding="utf-8") as file:
        while done < options.stories:
            for ids in batch(model, options.rows, options.temperature, generator):
                file.write(json.dumps({"input": "", "output": tokenizer.decode(ids)}) + "\n")
                done += 1
            file.flush()
            print(f"{done} stories", file=sys.stderr)  # noqa: T201 - a script


def batch(
    model: LlamaForCausalLM, rows: int, temperature: float, generator: torch.Generator
) -> list[list[int]]:
    """Return ``rows`` sequences that begin at BEGIN and end before the next one, or at CONTEXT."""
    from transformers import StaticCache

    cache = StaticCache(model.config, max_cache_len=CONTEXT)
    tokens = torch.full((rows, CONTEXT), END)
    tokens[:, 0] = BEGIN
    running = torch.ones(rows, dtype=torch.bool)
    for at in range(CONTEXT - 1):
        logits = model(
            tokens[:, at : at + 1],
            past_key_values=cache,
            position_ids=torch.full((rows, 1), at),
            cache_position=torch.tensor([at]),
        ).logits[:, 0]
        law = (logits.float() / temperature).softmax(-1)
        drawn = torch.multinomial(law, 1, generator=generator)[:, 0]
        running &= (drawn != BEGIN) & (drawn != END)
        tokens[:, at + 1] = torch.where(running, drawn, END)
        if not running.any():
            break
    return [[t for t in row if t not in (BEGIN, END)] for row in tokens.tolist()]


def train(options: argparse.Namespace) -> None:
    """Train a small model with the tokenizer's whole vocabulary on the stories.

    Tokens that no story holds share one row of the embedding, so the softmax is the full one at
    the cost of the tokens that occur: that row stands for all of them, log of their number added.
    """
    tokenizer = load_tokenizer(options.tokenizer)
    stories = [json.loads(line)["output"] for line in options.source.open(encoding="utf-8")]
    documents = example_sequences(
        tokenizer, [""] * len(stories), stories, sys.maxsize, learn_prompts=True
    )
    size = len(tokenizer.vocabulary())
    used, compact = np.unique(documents.tokens, return_inverse=True)
    rows = packed_blocks(replace(documents, tokens=compact.astype(np.int32)), 256, 0)
    heads = options.hidden // 64
    preset = Preset(
        len(used) + 1,
        options.hidden,
        3 * options.hidden,
        options.layers,
        heads,
        max(1, heads // 2),
        0.0,
    )
    model = build(preset, len(used) + 1, 1024, 0)
    model.lm_head.bias = torch.nn.Parameter(torch.zeros(len(used) + 1), requires_grad=False)
    model.lm_head.bias[-1] = np.log(size - len(used))
    schedule = Schedule(
        options.epochs,
        micro_batch=3,
        effective_batch=3,
        minutes=options.minutes,
        shape="cosine",
        warmup_steps=30,
        floor=0.05,
        bfloat16=device_has_bfloat16(model.device),
    )
    run = Run(
        model,
        _groups(model, options.learning_rate),
        rows,
        schedule,
        work=options.output.with_suffix(".work"),
        name=f"tinystories {options.tokenizer} {options.hidden} {options.layers}",
    )

    def progress(what: str, done: int, total: int) -> None:
        if done % 20 == 0:
            print(f"{what} {done}/{total}", file=sys.stderr)  # noqa: T201 - a script

    run.train(resume=True, progress=progress)
    whole = build(replace(preset, vocabulary=size), size, 1024, 0)
    place = np.full(size, len(used))
    place[used] = np.arange(len(used))
    state = {k: v for k, v in model.state_dict().items() if k != "lm_head.bias"}
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        state[name] = state[name][torch.from_numpy(place)]
    whole.load_state_dict(state)
    whole.config.eos_token_id = whole.generation_config.eos_token_id = tokenizer.eos_id
    whole.config.pad_token_id = whole.generation_config.pad_token_id = tokenizer.eos_id
    save_model(whole, tokenizer, options.output)


if __name__ == "__main__":
    main()
