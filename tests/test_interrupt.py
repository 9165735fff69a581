"""An interrupt at any moment ends with its message, and leaves nothing beside a finished output."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import pytest
from tasc_cli._command import INTERRUPTED, resumable

from tasc.data.foreign import as_input_error
from tasc.files import artefact, folders
from tasc.files.folders import publish
from tests.test_artefact import make

_MOMENTS = ("call", "c_return")  # when Python looks for signals


def test_the_message_is_not_captured_with_the_output_of_native_code(tmp_path: Path) -> None:
    """Each moment around a block whose stderr is captured is interrupted once."""
    code, moment = INTERRUPTED, 0
    while code == INTERRUPTED:
        moment += 1
        errors = tmp_path / str(moment)
        child = os.fork()  # locks of the standard library may stay locked
        if not child:
            _interrupted(moment, errors)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        interrupted = "interrupted: all is kept" in errors.read_text()
        assert interrupted == (code == INTERRUPTED), f"moment {moment}: {code}"
    assert (code, moment > 20) == (0, True)


def _interrupted(moment: int, errors: Path) -> NoReturn:
    """Interrupt a captured block at its ``moment``-th moment; exit 0 if it has fewer."""
    left, code = moment, 0

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal left
        left -= event in _MOMENTS
        if not left:
            sys.setprofile(None)
            raise KeyboardInterrupt

    try:
        os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT), 2)
        sys.stderr = os.fdopen(2, "w", closefd=False)  # pytest's own does not write there
        with resumable(lambda: True, "all is kept"):
            sys.setprofile(count)
            _guarded(lambda: os.write(2, b"native\n"))
            sys.setprofile(None)
    except SystemExit as ended:
        code = int(ended.code or 0)
    except BaseException:
        code = 1
    finally:
        os._exit(code)


def _guarded(work: Callable[[], object]) -> None:
    with as_input_error("a tokenizer", "pass another"):
        work()


def test_an_interrupt_while_checkpoints_are_deleted_leaves_none(tmp_path, monkeypatch):
    def interrupted(*_):
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(folders, "discard", interrupted)
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path / "out", "whole")
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("old", [False, True])
def test_an_interrupt_after_the_rename_leaves_no_checkpoints(tmp_path, monkeypatch, old):
    def interrupted(folder, output):
        publish(folder, output)
        raise KeyboardInterrupt

    if old:
        make(tmp_path / "out", "old")
    monkeypatch.setattr(artefact, "publish", interrupted)
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path / "out", "whole", force=True)
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    assert (tmp_path / "out/data.txt").read_text() == "whole"
