"""What is said of the machine and the source tree."""

import os
import subprocess

from tasc import environment


def test_asking_for_the_commit_does_not_touch_the_repository(tmp_path, monkeypatch):
    module = tmp_path / "tasc" / "environment.py"
    module.parent.mkdir()
    module.write_text("")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init"], ["add", "."], ["commit", "-m", "one"]):
        subprocess.run([*git, *command], check=True, capture_output=True)
    os.utime(module, (1e9, 1e9))  # git would refresh what it knows of the file
    index = tmp_path / ".git" / "index"
    before = index.stat().st_mtime_ns
    monkeypatch.setattr(environment, "__file__", str(module))
    commit = environment.environment()["git"]
    assert commit is not None
    assert not commit.endswith("+")
    assert index.stat().st_mtime_ns == before
