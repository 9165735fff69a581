"""What a model says to prompts: greedy answers in batches, kept on disk part by part."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file
from transformers import GenerationConfig, PreTrainedModel

from tasc.files.disk import replacing, writing
from tasc.progress import Progress, silent
from tasc.tokenizer.loaded import LoadedTokenizer
from tasc.training.core.batch import Sequences, joined

_AT_ONCE = 32  # prompts a batch
_PART = 8  # batches a file


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
) -> Sequences:
    """Return one row a prompt: its last tokens, and the answer, whose tokens are the targets.

    ``config`` says how to answer; prompt and answer have at most ``max_length`` tokens. Prompts of
    like length share a batch. Parts that are whole are read again with ``resume``, if they answer
    the same prompts.
    """
    ids = tokenizer.encode(prompts).split()
    ids = [p[-(max_length - config.max_new_tokens) :] for p in ids if len(p)]
    ids.sort(key=len, reverse=True)  # the slowest first: what is left is never more than it seems
    work.mkdir(parents=True, exist_ok=True)
    rows: list[tuple[np.ndarray, np.ndarray]] = []
    for begin in range(0, len(ids), _AT_ONCE * _PART):
        some = ids[begin : begin + _AT_ONCE * _PART]
        file = work / f"{begin:08d}-{_fingerprint(some, config)}.safetensors"
        answers = _read(file) if resume else None
        if answers is None:
            answers = []
            for first in range(0, len(some), _AT_ONCE):
                batch = some[first : first + _AT_ONCE]
                answers += answer(model, batch, config)
                progress("answering prompts", begin + first + len(batch), len(ids))
            _write(file, answers)
        rows += zip(some, answers, strict=True)
    return _sequences(rows)


@torch.inference_mode()
def answer(
    model: PreTrainedModel,
    prompts: Sequence[np.ndarray],
    config: GenerationConfig,
    **more: Any,  # noqa: ANN401 - further options of generate
) -> list[np.ndarray]:
    """Return what ``generate`` adds to prompts (L_i,), a batch padded on the left: (T_i,) int32.

    Nothing stands behind an end token.
    """
    longest = max(map(len, prompts))
    ids = torch.zeros((len(prompts), longest), dtype=torch.int64)
    mask = torch.zeros_like(ids)
    for row, prompt in enumerate(prompts):
        ids[row, longest - len(prompt) :] = torch.from_numpy(prompt)
        mask[row, longest - len(prompt) :] = 1
    generate: Any = model.generate
    ids, mask = ids.to(model.device), mask.to(model.device)
    out = generate(ids, attention_mask=mask, generation_config=config, **more)
    answers = []
    for added in out[:, longest:].to(torch.int32).cpu().numpy():
        ends = np.flatnonzero(added == config.eos_token_id)
        answers.append(added[: ends[0] + 1] if len(ends) else added)
    return answers


def _sequences(rows: Sequence[tuple[np.ndarray, np.ndarray]]) -> Sequences:
    targets = [np.repeat([False, True], [len(p), len(a)]) for p, a in rows]
    return joined([np.concatenate(row) for row in rows], targets)


def _fingerprint(prompts: Sequence[np.ndarray], config: GenerationConfig) -> str:
    digest = hashlib.sha256(config.to_json_string().encode())
    for prompt in prompts:
        digest.update(len(prompt).to_bytes(4, "little") + prompt.tobytes())
    return digest.hexdigest()[:16]


def _read(file: Path) -> list[np.ndarray] | None:
    """Return the answers of a part, or None where it is not there or damaged."""
    try:
        arrays = load_file(file)
    except (OSError, SafetensorError):
        return None
    return np.split(arrays["tokens"], arrays["offsets"][1:-1])


def _write(file: Path, answers: Sequence[np.ndarray]) -> None:
    offsets = np.concatenate([[0], np.cumsum([len(a) for a in answers])]).astype(np.int64)
    tokens = np.concatenate(answers)
    with writing(file, tokens.nbytes + offsets.nbytes), replacing(file) as new:
        save_file({"tokens": tokens, "offsets": offsets}, new)
