"""The runs as on other CPUs: which there are, what they report, and the order of their tests."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests import anywhere, conftest
from tests.anywhere import CELLS

LEVELS = {
    "ATEN_CPU_CAPABILITY": {"default", "avx2", "avx512"},
    "TASC_CPU_CAPABILITY": {"portable", "avx2", "avx512"},
    "ONEDNN_MAX_CPU_ISA": {"SSE41", "AVX2", "DEFAULT"},
    "MKL_CBWR": {"COMPATIBLE", "AUTO"},
    "OMP_NUM_THREADS": {"1", "2"},
    "TASC_TEST_SEED": {"1", "2", "3"},
    "TASC_TEST_ORDER": {"1", "2", "3"},
}
FILE = """
import os, pytest
def test_passes(): assert os.environ["TASC_TEST_SEED"] == "1"
def test_fails(): assert not os.environ["TASC_CPU_CAPABILITY"]
@pytest.mark.skip
def test_is_skipped(): pass
"""


@pytest.mark.parametrize("name", LEVELS)
def test_each_level_of_each_factor_has_a_cell_and_those_without_avx_512_on_any_cpu(name):
    cells = [cell.environment() for cell in CELLS.values()]
    assert {cell[name] for cell in cells} == LEVELS[name]
    older = [cell for cell in cells if "avx512" not in cell.values()]
    assert {cell[name] for cell in older} == LEVELS[name] - {"avx512"}


def test_a_cell_reports_counts_and_the_tests_that_failed(tmp_path, monkeypatch, capsys):
    (tmp_path / "test_three.py").write_text(FILE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["", "--workers", "0", "--only", "oldest", "test_three.py"])
    assert anywhere.main() == 1
    _, row, failed = capsys.readouterr().out.splitlines()
    assert row.split()[:4] == ["oldest", "1", "1", "1"]
    assert "TASC_CPU_CAPABILITY=portable" in row
    assert failed.split() == ["test_three.py::test_fails"]


def test_a_cell_whose_instructions_the_cpu_lacks_is_skipped(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("torch.backends.cpu.get_cpu_capability", lambda: "AVX2")
    monkeypatch.setattr("sys.argv", ["", "--only", "avx512", "nothing.py"])
    assert anywhere.main() == 0
    assert "skipped: this CPU lacks avx512 for torch" in capsys.readouterr().out


def test_a_seed_shuffles_the_files_and_the_tests_of_each(monkeypatch):
    def shuffled(seed: str) -> list[SimpleNamespace]:
        monkeypatch.setenv("TASC_TEST_ORDER", seed)
        items = [SimpleNamespace(path=Path(f), name=n) for f in "abcdef" for n in range(6)]
        conftest.pytest_collection_modifyitems(items)  # type: ignore[arg-type]
        return items

    first, again, other = shuffled("1"), shuffled("1"), shuffled("2")
    assert first == again
    files = [[item.path for item in items] for items in (first, other)]
    for paths in files:  # a file stays together, for its fixtures
        assert all(len({*paths[i : i + 6]}) == 1 for i in range(0, 36, 6))
    assert files[0] != files[1]
    assert [item.name for item in first[:6]] != sorted(item.name for item in first[:6])
