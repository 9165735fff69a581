"""A checkpoint is on the disk before it takes its name, and never reaches through a link."""

import os
from pathlib import Path

import torch

from tasc.training import checkpoint
from tasc.training.checkpoint import Checkpoint

STATE = Checkpoint(1, {"w": torch.ones(2)}, {}, {})


def test_files_and_folder_are_flushed_before_the_rename_and_the_one_above_after(
    tmp_path, monkeypatch
):
    calls = []
    fsync, rename = os.fsync, os.rename

    def flushed(handle):
        calls.append(Path(f"/proc/self/fd/{handle}").readlink().name)
        fsync(handle)

    def renamed(old, new):
        calls.append(f"-> {Path(new).name}")
        rename(old, new)

    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(os, "rename", renamed)
    checkpoint.save(tmp_path / "work", "me", STATE)
    name = "step-00000001"
    assert calls == ["state.json", "state.safetensors", f"{name}.tmp", f"-> {name}", "work"]


def test_links_with_the_names_of_checkpoints_are_removed_and_not_followed(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.txt").write_text("mine")
    for name in ("step-00000000.tmp", "step-00000001", "step-00000000"):
        (tmp_path / name).symlink_to("home")
    checkpoint.save(tmp_path, "me", STATE)
    found = checkpoint.newest(tmp_path, "me")
    assert found is not None
    assert found.step == 1
    checkpoint.clear(tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == {"home"}
    assert (tmp_path / "home" / "thesis.txt").read_text() == "mine"
