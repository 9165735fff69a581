"""A part of the campaign, the same one each time: ``make campaign`` goes on from there."""

import shutil
import subprocess
import sys

import pytest

from tests.campaign.process import Ended
from tests.campaign.verdict import problems, state


def run(*arguments: object) -> str:
    """Run a module of this folder, which must end well; return what it prints."""
    command = [sys.executable, "-m", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="the calls that fail are made with g++")
def test_a_slice_of_the_campaign_breaks_nothing(tmp_path):
    run("tests.campaign", "--jobs", 1, "--rounds", 1, "--minutes", 0, "--keep", tmp_path)


@pytest.mark.slow
def test_a_recipe_that_is_killed_ends_with_the_same_artefacts(tmp_path):
    given = ("--recipes", "quickstart", "--kills", 2, "--limit", 12, "--data-dir", tmp_path)
    assert "'kills': 2" in run("tests.campaign.recipes", *given)


def test_a_campaign_notices_what_is_wrong(tmp_path):
    def judged(code: int | None, err: str, out: str = "", signal: int = 0) -> list[str]:
        for name in ("in", "made", "cwd", "tmp"):
            (tmp_path / name).mkdir(exist_ok=True)
        ended = Ended(code, signal, False, out, err, 1.0, 0, 0, "")
        return problems(ended, tmp_path, state(tmp_path / "in"))

    assert judged(0, "") == []
    assert judged(2, "error: no such file: name another\n") == []
    assert judged(1, "Traceback (most recent call last)\n") == ["traceback", "exit 1"]
    assert judged(2, "error: it is broken\n") == ["no action: error: it is broken"]
    assert judged(2, "warning: x\nerror: name another\n")[0].startswith("not one line")
    assert judged(None, "", signal=11) == ["crash: signal 11"]
    assert judged(0, "", "\x1b[31m") == ["control characters"]
    (tmp_path / "made" / "out").mkdir()
    (tmp_path / "made" / "out" / "a.json").write_text("half")
    (tmp_path / "tmp" / "left").touch()
    assert judged(0, "") == ["left left", "half-written"]
