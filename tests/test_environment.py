"""What is said of the machine and the source tree."""

import json
import os
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest

from tasc import __version__, environment
from tasc.models.packed import can_pack
from tests import cli


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
    assert re.fullmatch(r"[0-9a-f]+", environment.environment()["git"])
    assert index.stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("origin", "wanted"),
    [
        ({}, f"tasc-lm=={__version__}"),
        ({"url": "file:///a%20b", "dir_info": {"editable": True}}, "tasc-lm @ file:///a%20b"),
        (
            {"url": "https://example.org/t.git", "vcs_info": {"vcs": "git", "commit_id": "0af"}},
            "tasc-lm @ git+https://example.org/t.git@0af",
        ),
    ],
)
def test_the_requirement_names_the_source_of_the_installation(monkeypatch, origin, wanted):
    found = SimpleNamespace(read_text=lambda _name: json.dumps(origin) if origin else None)
    monkeypatch.setattr("importlib.metadata.distribution", lambda _name: found)
    assert environment.requirement() == wanted


def test_a_source_tree_that_is_not_installed_is_required_by_version(monkeypatch):
    monkeypatch.setattr(environment, "DISTRIBUTION", "no-such-distribution")
    assert environment.requirement() == f"no-such-distribution=={__version__}"


def test_doctor_measures_the_steps_of_a_model(capsys, base):
    measured = cli.done(capsys, "doctor", "--model", base)[f"T(k) of {base}, ms"]
    assert measured.keys() - {"int8"} == {"float32", "bfloat16"}
    assert ("int8" in measured) == can_pack()
    assert all(0 < times["k=1"] <= times["k=64"] for times in measured.values())


def doctor(capability: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tasc_cli.main", "doctor", "--json"]
    env = os.environ | {"TASC_CPU_CAPABILITY": capability}
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


def test_an_environment_variable_chooses_the_instruction_set_of_the_kernels():
    portable = doctor("portable")
    assert json.loads(portable.stdout)["kernels"]["instructions"] == "portable"
    unknown = doctor("sse9")
    assert (unknown.returncode, unknown.stdout) == (2, "")
    said = "error: TASC_CPU_CAPABILITY is 'sse9', which this CPU does not have: unset it, or choose"
    assert unknown.stderr.startswith(said)
    assert unknown.stderr.endswith("portable\n")


@pytest.mark.parametrize(
    ("cpuinfo", "name"),
    [
        ("processor\t: 0\nmodel name\t: AMD EPYC\n", "AMD EPYC"),
        ("processor\t: 0\nCPU implementer\t: 0x41\n", "aarch64"),  # Linux on ARM names no model
        (None, "aarch64"),
    ],
)
def test_the_processor_has_a_name(monkeypatch, tmp_path, cpuinfo, name):
    file = tmp_path / "cpuinfo"
    if cpuinfo is not None:
        file.write_text(cpuinfo)
    monkeypatch.setattr(environment, "Path", lambda _path: file)
    monkeypatch.setattr("platform.processor", lambda: "")
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert environment.processor() == name
