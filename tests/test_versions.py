"""The environments with other releases of the libraries, and the table of what was run in them."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tests import versions
from tests.versions import ENVIRONMENTS, SHOWN

ROOT = Path(__file__).parents[1]
COLUMNS = ["environment", "Python", *SHOWN, "passed", "failed", "skipped", "date"]
FILE = """
import pytest
def test_passes(): pass
def test_fails(): raise AssertionError
@pytest.mark.skip
def test_is_skipped(): pass
"""


@pytest.fixture
def rows() -> dict[str, dict[str, str]]:
    lines = (ROOT / "docs/reference/versions.md").read_text().splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    first = cells.index(COLUMNS)
    table = cells[first + 2 : next(i for i in range(first, len(cells)) if not lines[i])]
    return {row[0]: dict(zip(COLUMNS, row, strict=True)) for row in table}


def test_the_page_has_every_environment_without_a_failure(rows):
    assert list(rows) == list(ENVIRONMENTS)
    for name, row in rows.items():
        assert row["Python"] == ENVIRONMENTS[name].python
        assert row["failed"] == "0", name
        assert int(row["passed"]) > 1000, name


def test_the_lowest_releases_that_were_run_are_the_bounds(rows):
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    bounds = {}
    for requirement in map(Requirement, dependencies):
        (bound,) = requirement.specifier  # a lower one alone
        assert bound.operator == ">=", requirement
        bounds[requirement.name] = Version(bound.version)
    for name in SHOWN:
        assert Version(rows["lowest"][name]) == bounds[name]
        assert Version(rows["newest"][name]) >= bounds[name]


def test_a_row_has_the_releases_the_counts_and_the_tests_that_failed(tmp_path, monkeypatch, capsys):
    (tmp_path / "test_three.py").write_text(FILE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(versions, "PLACE", tmp_path)
    monkeypatch.setattr(versions, "make", lambda name, environment: Path(sys.executable))
    monkeypatch.setattr("sys.argv", ["", "--workers", "0", "--only", "lowest", "test_three.py"])
    assert versions.main() == 1
    row, failed = capsys.readouterr().out.splitlines()
    cells = dict(zip(COLUMNS, row.strip("| ").split(" | "), strict=True))
    assert cells["environment"] == "lowest"
    assert cells["Python"] == ".".join(map(str, sys.version_info[:2]))
    assert [cells[name] for name in ("passed", "failed", "skipped")] == ["1", "1", "1"]
    assert failed.split() == ["test_three.py::test_fails"]


def test_an_environment_resolves_the_dependencies_before_the_tools_of_the_tests(
    tmp_path, monkeypatch
):
    called = []
    monkeypatch.setattr(subprocess, "run", lambda words, **_: called.append(words[1:]))
    monkeypatch.setattr(versions, "PLACE", tmp_path)
    versions.make("newest-3.13", ENVIRONMENTS["newest-3.13"])
    made, resolved, installed, product = called
    assert made[:3] == ["venv", "--python", "3.13"]
    assert resolved[resolved.index("--resolution") + 1] == "highest"
    assert str(tmp_path / "newest-3.13-resolved.txt") in resolved
    assert str(tmp_path / "newest-3.13-resolved.txt") in installed
    assert product[-2:] == ["-e", str(ROOT)]
    wanted = (tmp_path / "newest-3.13-wanted.txt").read_text()
    tools = (tmp_path / "newest-3.13-tools.txt").read_text()
    assert "transformers>=" in wanted
    assert "pytest" not in wanted
    assert "pytest>=" in tools
