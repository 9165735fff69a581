"""tasc serve: the installed engine, the right arguments, the loopback, and nothing else."""

import json
import os
import shlex
import subprocess
import sys

import pytest

import tasc
from tasc.environment import requirement
from tasc.serving.hook import INSTALL
from tasc.serving.table import EXPORTS
from tests.cli import tasc as run
from tests.pico import make_base
from tests.serving.sources import CONFIG, write


def export(tmp_path, engine):
    base = make_base(tmp_path / "base")
    out = tmp_path / "served"
    out.mkdir()
    made = tasc.export(tasc.ExportOptions(model=str(base), to=engine))
    made.save(out)
    (out / "export.json").write_text(json.dumps(made.to_dict()))
    return out, made.to_dict()


def engine_on_path(folder, name):
    """A program that writes where it runs and what it was given."""
    folder.mkdir()
    code = "import json, os, sys; print(json.dumps([os.getcwd(), sys.argv[1:]]))"
    (folder / name).write_text(f"#!{sys.executable}\n{code}\n")
    (folder / name).chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


def test_the_engine_takes_the_place_of_the_command(tmp_path):
    pytest.importorskip("gguf", reason="the extra llama-cpp is not installed")
    out, result = export(tmp_path, "llama-cpp")
    path = engine_on_path(tmp_path / "bin", "llama-server")
    words = [sys.executable, "-m", "tasc_cli.main", "serve", str(out), "--port", "9123"]
    ran = subprocess.run(
        words, capture_output=True, text=True, check=False, env={**os.environ, "PATH": path}
    )
    assert ran.returncode == 0, ran.stderr
    where, arguments = json.loads(ran.stdout)
    assert where == str(out)
    assert arguments == shlex.split(result["command"].replace("8000", "9123"))[1:]
    assert arguments[arguments.index("--host") + 1] == "127.0.0.1"


def test_a_python_engine_is_run_without_the_modules_of_the_folder(tmp_path, monkeypatch, capsys):
    out, _ = export(tmp_path, "vllm")
    write(tmp_path / "site" / "vllm")
    monkeypatch.syspath_prepend(tmp_path / "site")
    called = []
    monkeypatch.setattr(os, "execvp", lambda *words: called.append(words))
    monkeypatch.chdir(tmp_path)
    code, _, err = run(capsys, "serve", out)
    assert code == 0, err
    ((program, words),) = called
    assert program == sys.executable
    assert words[1:4] == ["-P", "-m", "vllm.entrypoints.openai.api_server"]


def test_a_vllm_that_loads_no_drafter_is_told_with_what_to_install(tmp_path, monkeypatch, capsys):
    out, result = export(tmp_path, "vllm")
    (out / "export.json").write_text(json.dumps(result | {"drafts": True}))
    write(tmp_path / "site" / "vllm", {CONFIG: ""})
    monkeypatch.syspath_prepend(tmp_path / "site")
    code, _, err = run(capsys, "serve", out)
    assert code == 2
    assert f"{INSTALL}, or export without --index" in " ".join(err.split())


@pytest.mark.parametrize("engine", ["vllm", "sglang", "llama-cpp"])
def test_a_missing_engine_is_told_with_what_to_install(tmp_path, monkeypatch, capsys, engine):
    if engine == "llama-cpp":
        pytest.importorskip("gguf", reason="the extra llama-cpp is not installed")
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("tasc.serving.serve.find_spec", lambda name: None)
    out, _ = export(tmp_path, engine)
    code, _, err = run(capsys, "serve", out)
    assert code == 2
    assert EXPORTS[engine].installed_by(requirement())[0] in " ".join(err.split())


def test_what_is_no_server_or_no_export_is_refused(tmp_path, capsys):
    out, result = export(tmp_path, "transformers")
    assert "README.md" in run(capsys, "serve", out)[2]
    assert "not a folder of tasc export" in run(capsys, "serve", tmp_path / "base")[2]
    wrong = [
        ("name", "--trust-remote-code"),
        ("name", "a\0b"),
        ("name", "\ud800"),
        ("to", "other"),
        ("drafts", "yes"),
    ]
    for key, value in wrong:
        (out / "export.json").write_text(json.dumps(result | {"to": "vllm", key: value}))
        code, _, err = run(capsys, "serve", out)
        assert code == 2
        assert "damaged" in err
