"""The examples of the Python reference, run in order in one folder."""

import json
from doctest import ELLIPSIS, DocTestFinder, DocTestRunner
from pathlib import Path

import pytest

import tasc

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
