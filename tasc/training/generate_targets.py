"""Generate a model's greedy answers to prompts, in batches, and save them in parts."""

import hashlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file
from torch.nn.utils.rnn import pad_sequence
from transformers import GenerationConfig, PreTrainedModel

from tasc.files.disk import replacing, writing
from tasc.progress import Progress, silent
from tasc.tokenizer.loaded import Encoded, LoadedTokenizer
from tasc.training.core.batch import Examples, join_examples

_BATCH = 32  # prompts
_PART = 8  # batches per file


def generate_targets(
    model: PreTrainedModel,
    tokenizer: LoadedTokenizer,
    prompts: Sequence[str],
    work: Path,
    *,
    max_length: int,
    config: GenerationConfig,
    resume: bool = False,
    progress: Progress = silent,
) -> Examples:
    """Return one example per prompt: its last tokens and the answer, whose tokens are the targets.

    Prompt and answer have at most ``max_length`` tokens. Prompts of similar length share a batch.
    ``resume`` reads complete parts for the same prompts and ``config`` instead of repeating them.
    """
    ids = tokenizer.encode(prompts).split()
    ids = [p[-(max_length - config.max_new_tokens) :] for p in ids if len(p)]
    ids.sort(key=len, reverse=True)  # the slowest first, so that the rest takes less than predicted
    work.mkdir(parents=True, exist_ok=True)
    answers: list[np.ndarray] = []
    for begin in range(0, len(ids), _BATCH * _PART):
        part = ids[begin : begin + _BATCH * _PART]
        file = work / f"{begin:08d}-{_fingerprint(part, config)}.safetensors"
        saved = _read(file) if resume else None
        if saved is None:
            saved = []
            for first in range(0, len(part), _BATCH):
                progress("answering prompts", begin + first, len(ids))
                saved += answer(model, part[first : first + _BATCH], config)
            arrays = vars(Encoded.of(saved))
            size = sum(array.nbytes for array in arrays.values())
            with writing(file, size), replacing(file) as new:
                save_file(arrays, new)
            progress("answering prompts", begin + len(part), len(ids))
        answers += saved
    examples = [np.concatenate(pair) for pair in zip(ids, answers, strict=True)]
    targets = [np.arange(len(e)) >= len(p) for e, p in zip(examples, ids, strict=True)]
    return join_examples(examples, targets)


@torch.inference_mode()
def answer(
    model: PreTrainedModel, prompts: Sequence[np.ndarray], config: GenerationConfig
) -> list[np.ndarray]:
    """Generate answers (T_i,) int32, up to the end token, to prompts (L_i,) in one batch."""
    longest = max(map(len, prompts))
    rows = [torch.from_numpy(prompt).long() for prompt in prompts]
    pad = partial(pad_sequence, batch_first=True, padding_side="left")
    ids = pad(rows).to(model.device)
    mask = pad([torch.ones_like(row) for row in rows]).to(model.device)
    generate: Any = model.generate
    out = generate(ids, attention_mask=mask, generation_config=config)
    answers = []
    for added in out[:, longest:].to(torch.int32).cpu().numpy():
        ends = np.flatnonzero(added == config.eos_token_id)
        answers.append(added[: ends[0] + 1] if len(ends) else added)
    return answers


def _fingerprint(prompts: Sequence[np.ndarray], config: GenerationConfig) -> str:
    digest = hashlib.sha256(config.to_json_string().encode())
    for prompt in prompts:
        digest.update(len(prompt).to_bytes(4, "little") + prompt.tobytes())
    return digest.hexdigest()[:16]


def _read(file: Path) -> list[np.ndarray] | None:
    """Return the answers of a part, or None if it is missing or damaged."""
    try:
        arrays = load_file(file)
    except (OSError, SafetensorError):
        return None
    return Encoded(arrays["tokens"], arrays["offsets"]).split()
