"""What is said of the machine and the source tree."""

import json
import os
import subprocess
from types import SimpleNamespace

import pytest

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


@pytest.mark.parametrize(
    ("origin", "wanted"),
    [
        ({}, environment.CHECKOUT),
        ({"url": "file:///a%20b", "dir_info": {"editable": True}}, "tasc @ file:///a%20b"),
        (
            {"url": "https://example.org/t.git", "vcs_info": {"vcs": "git", "commit_id": "0af"}},
            "tasc @ git+https://example.org/t.git@0af",
        ),
    ],
)
def test_pip_is_told_where_this_tasc_came_from(monkeypatch, origin, wanted):
    found = SimpleNamespace(read_text=lambda _name: json.dumps(origin) if origin else None)
    monkeypatch.setattr("importlib.metadata.distribution", lambda _name: found)
    assert environment.requirement() == wanted
