"""Training checkpoints: safetensors and JSON, written atomically; the newest intact one counts."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from tasc.errors import InputError
from tasc.files.disk import flush, flush_below, writing
from tasc.files.folders import remove

_KEEP = 2  # in case the newest is damaged
_TENSORS, _STATE = "state.safetensors", "state.json"
Tensors = Mapping[str, torch.Tensor]
_GROUPS = ("parameters", "optimizer", "best")  # fields of ``Checkpoint``, in names of tensors


@dataclass(frozen=True)
class Checkpoint:
    """The complete state of a run."""

    step: int  # optimizer steps done
    parameters: Tensors  # trained tensors by name
    optimizer: Tensors  # its tensors, as ``"<parameter number>.<key>"``
    journal: Mapping[str, Any]  # JSON values (losses so far, seconds)
    # Trained tensors at the best evaluation, with --patience.
    best: Tensors = field(default_factory=dict)


def save(work: Path, identity: str, state: Checkpoint) -> None:
    """Write a checkpoint to ``work`` and remove all but the newest two.

    ``identity`` is a hash of the run's options, data and model.
    """
    work.mkdir(parents=True, exist_ok=True)
    final = work / f"step-{state.step:08d}"
    temporary = final.with_suffix(".tmp")
    for unfinished in work.glob("step-*.tmp"):
        remove(unfinished)
    temporary.mkdir()
    tensors = {
        f"{group}/{key}": tensor.detach().cpu().contiguous()
        for group in _GROUPS
        for key, tensor in getattr(state, group).items()
    }
    record = {"identity": identity, "step": state.step, "journal": dict(state.journal)}
    with writing(final, sum(tensor.nbytes for tensor in tensors.values())):
        save_file(tensors, temporary / _TENSORS)
        (temporary / _STATE).write_text(json.dumps(record), encoding="utf-8")
        flush_below(temporary)
    remove(final)
    temporary.rename(final)
    flush(work)
    for old in _folders(work)[_KEEP:]:
        remove(old)


def newest(work: Path, identity: str) -> Checkpoint | None:
    """Return the newest intact checkpoint in ``work``, or None.

    Raises InputError if it belongs to a run with other options, data or model.
    """
    for folder in _folders(work):
        try:
            record = json.loads((folder / _STATE).read_text(encoding="utf-8"))
            groups: dict[str, dict[str, torch.Tensor]] = {group: {} for group in _GROUPS}
            for name, tensor in load_file(folder / _TENSORS).items():
                group, _, key = name.partition("/")
                groups[group][key] = tensor
        except (OSError, ValueError, KeyError, SafetensorError):
            continue  # damaged: use the one before
        if record["identity"] != identity:
            raise InputError(
                f"checkpoint {folder} belongs to a run with other options, data or model: use the "
                "same ones, or start again without --resume"
            )
        return Checkpoint(record["step"], journal=record["journal"], **groups)
    return None


def clear(work: Path) -> None:
    """Remove all checkpoints in ``work``."""
    for folder in work.glob("step-*"):
        remove(folder)


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    """Return the state of AdamW as a flat dictionary of tensors."""
    state = optimizer.state_dict()["state"]
    return {f"{i}.{key}": value for i, entry in state.items() for key, value in entry.items()}


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Tensors) -> None:
    """Load the result of ``optimizer_tensors``; keep the options of parameter groups."""
    state: dict[int, dict[str, torch.Tensor]] = {}
    for name, tensor in tensors.items():
        number, key = name.split(".", 1)
        state.setdefault(int(number), {})[key] = tensor
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})


def _folders(work: Path) -> list[Path]:
    return sorted((p for p in work.glob("step-*") if p.suffix != ".tmp"), reverse=True)
