"""benchmarks/gather.py runs where there is no GPU, and says so where it was asked for one."""

import json

import pytest
import torch

from benchmarks import gather


def run(monkeypatch, arguments: str) -> None:
    monkeypatch.setattr("sys.argv", ["gather", *arguments.split(), "--threads", "1"])
    gather.main()


def test_it_measures_on_the_cpu(monkeypatch, capsys):
    run(monkeypatch, "--vocabulary 900 --width 8 --window 64 --repeats 2")
    figures = json.loads(capsys.readouterr().out)
    assert [g["rows"] for g in figures["gather"]] == [64, 64]
    assert all(g["gather_of_copy_bandwidth"] > 0 for g in figures["gather"])
    assert figures["step"]["host_waits"] is None


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is an NVIDIA device")
def test_without_a_device_it_says_so_in_one_line(monkeypatch):
    with pytest.raises(SystemExit, match=r"^[^\n]*NVIDIA[^\n]*$"):
        run(monkeypatch, "--device cuda")
