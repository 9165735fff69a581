"""Draft heads for tests: saved with random weights, or taught one model's outputs; a drafter."""

from pathlib import Path

import numpy as np
import torch

from tasc.decoding.drafters.heads.draft_vocab.full import Full
from tasc.decoding.drafters.heads.eagle import Eagle, EagleOptions
from tasc.models.draft_head import DraftHead, new_head
from tasc.models.target import Target
from tests.seeds import SEED

EAGLE_OPTIONS = EagleOptions(depth=4, width=3)
NONE = np.empty(0, np.int32)
_FEWEST_STEPS, _MOST_STEPS, _LEARNT = 60, 1000, 0.95


def save_taught(model, prompts: list[np.ndarray], outputs: list[np.ndarray], folder: Path) -> Path:
    """Save a head that has learnt the ``outputs`` of ``model`` after ``prompts``."""
    teach(model, [np.concatenate(pair) for pair in zip(prompts, outputs, strict=True)]).save(folder)
    return folder


def teach(model, sequences: list[np.ndarray]) -> DraftHead:
    """Return a head that has learnt what ``model`` says in ``sequences``, each (L,) int32.

    It is trained until its arg-max is right at nearly every position, whatever its seed: of each
    step of a decoding that writes a sequence again, its first token is then accepted.
    """
    head = new_head(model, SEED).train()
    optimizer = torch.optim.AdamW(head.parameters(), lr=3e-3)
    lm_head, embedding = model.get_output_embeddings(), model.get_input_embeddings()
    right = [0.0] * len(sequences)
    for step in range(_MOST_STEPS):
        ids = torch.from_numpy(sequences[step % len(sequences)].astype(np.int64))[None]
        with torch.no_grad():
            hidden = model.base_model(input_ids=ids, use_cache=False).last_hidden_state
        positions = torch.arange(ids.shape[1] - 1)[None]
        said = head(embedding(ids[:, 1:]).detach(), hidden[:, :-1], positions)
        wanted = lm_head(hidden[:, 1:]).detach().argmax(-1)
        logits = lm_head(said)
        right[step % len(sequences)] = float((logits.argmax(-1) == wanted).float().mean())
        if step >= _FEWEST_STEPS and min(right) >= _LEARNT:
            return head.eval().requires_grad_(False)
        torch.nn.functional.cross_entropy(logits[0], wanted[0]).backward()
        optimizer.step()
        optimizer.zero_grad()
    raise AssertionError(f"a head was right at {min(right):.0%} of the positions only")


def eagle(model, head, vocabulary=None, options=EAGLE_OPTIONS):
    """Return EAGLE's drafter of one sequence; over the whole vocabulary unless given one."""
    full = Full(model.get_output_embeddings())
    return Eagle(head, model.get_input_embeddings(), lambda: vocabulary or full, options)


def after_prefill(drafter, target: Target, prompt: np.ndarray):
    """Return the drafter once it has read ``prompt`` (L,) int32 and the token after it."""
    target.begin(len(prompt) + 40)
    row = target.join([prompt], hidden=True)
    drafter.start(prompt)
    drafter.on_hidden_states(target.states[0], row, NONE)
    drafter.observe(np.array([int(row.argmax())], np.int32))
    return drafter
