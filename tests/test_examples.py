"""The examples of the Python reference, run in order in one folder, and the scripts."""

import json
import runpy
import sys
from doctest import ELLIPSIS, DocTestFinder, DocTestRunner
from pathlib import Path

import pytest

import tasc
from tests.trees import ROOT

CHAIN = [
    *("base", "inspect_data", "start_recipe", "analyze", "augment", "finetune", "index", "tune"),
    *("bench", "export", "compare_vocabularies"),
]
SERVED = {"load_test"}  # its example needs a server


def test_every_call_has_an_example():
    for name in {*CHAIN, *SERVED}:
        assert ">>> " in getattr(tasc, name).__doc__, name


@pytest.mark.slow
def test_the_examples_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    task = [json.dumps({"input": f"say {i}", "output": f"word {i % 7}"}) for i in range(60)]
    for name in ("task.jsonl", "commands.jsonl"):
        Path(name).write_text("\n".join(task))
    names = {"tasc": tasc, "Path": Path}
    for name in CHAIN:
        (example,) = DocTestFinder(recurse=False).find(getattr(tasc, name), name, globs=names)
        done = DocTestRunner(optionflags=ELLIPSIS).run(example, clear_globs=False)
        assert done.attempted > 0
        assert done.failed == 0, capsys.readouterr().out


def run_script(monkeypatch, capsys, name: str, *arguments: object) -> tuple[str, str]:
    """Run a script of ``examples/`` as the command line does; return what it printed."""
    monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
    capsys.readouterr()
    runpy.run_path(str(ROOT / "examples" / name), run_name="__main__")
    out, err = capsys.readouterr()
    return out, err


def test_the_decoding_script_writes_what_the_library_writes(base, tmp_path, monkeypatch, capsys):
    loaded = tasc.load(base, dtype="float32")
    prompts = ["play jazz", "call home", "say 3"]
    for prompt in prompts:
        (plain,) = tasc.generate(loaded, loaded.tokenizer, [prompt], "ar", max_new_tokens=64)
        outputs = tmp_path / "outputs.txt"
        outputs.write_text(" ".join(plain.text.split()) + "\nplay some jazz\n")
        out, err = run_script(monkeypatch, capsys, "decode.py", base, prompt, outputs)
        assert out == plain.text + "\n"
        assert err.startswith(f"{len(plain.tokens)} tokens in ")


def test_the_training_script_saves_a_model_that_decodes(base, tmp_path, monkeypatch, capsys):
    rows = [json.dumps({"input": f"say {i}", "output": f"word {i % 7}"}) for i in range(40)]
    data, saved = tmp_path / "task.jsonl", tmp_path / "saved"
    data.write_text("\n".join(rows))
    out, _ = run_script(monkeypatch, capsys, "finetune.py", base, data, saved)
    losses = [float(line.split(": ")[1].split()[0]) for line in out.splitlines()]
    assert len(losses) == 3 * 3  # epochs of 40 rows in steps of 16
    assert losses[-1] < losses[0]
    loaded = tasc.load(saved)
    assert len(tasc.generate(loaded, loaded.tokenizer, ["say 3"], max_new_tokens=4)) == 1


def test_the_scripts_are_short_and_flat():
    for name in ("decode.py", "finetune.py"):
        lines = (ROOT / "examples" / name).read_text().splitlines()
        assert len(lines) <= 60
        assert not any(line.lstrip().startswith(("def ", "class ")) for line in lines)
