"""Tables show texts as they are and stay readable where there is little room."""

import io
import threading
from functools import partial

import pytest
from rich.console import Console
from tasc_cli import _console, _progress

COLUMNS = ["model", "method", "ms", "tokens", "lossless", "tok.acc"]
ROW = ["tuned [/b] :x:", "tasc-spec:width=1,budget=8", "1234.56", "25.10", "8/8", "0.512"]


@pytest.fixture
def shown(monkeypatch, capsys):
    def table(width: int) -> str:
        monkeypatch.setattr(_console, "out", Console(**_console._plain, width=width))
        _console.table("of [x]", COLUMNS, [ROW], text_columns=2)
        return capsys.readouterr().out

    return table


def test_brackets_and_colons_of_labels_are_no_markup(shown):
    text = shown(100)
    assert text.startswith("of [x]")
    assert all(cell in text for cell in ROW)


def test_a_narrow_table_folds_texts_and_never_figures(shown):
    text = shown(60)
    assert all(len(line) <= 60 for line in text.splitlines())
    assert all(cell in text for cell in (*COLUMNS, *ROW[2:]))
    assert ROW[1] not in text


def test_where_there_is_no_terminal_lines_tell_the_progress(capsys, monkeypatch):
    monkeypatch.setattr(_progress, "LINE_EVERY_S", 0.02)
    monkeypatch.setattr("time.monotonic", lambda: 7.0)
    note, printed = _progress.note, threading.Semaphore(0)

    def noted(line: str) -> None:
        note(line)
        printed.release()

    monkeypatch.setattr(_progress, "note", noted)
    with _progress.show_progress() as report:
        printed.acquire()  # nothing is reported yet, as while a model loads
        report("training, loss \x1b[2J1.5", 1200, 4800)
        for _ in range(3):  # one line may have been begun before
            printed.acquire()
    lines = capsys.readouterr().err.splitlines()
    assert "working, 0 s" in lines
    assert r"training, loss \x1b[2J1.5: 1,200 of 4,800, 0 s" in lines
    assert all(line.endswith(", 0 s") for line in lines)


def test_on_a_terminal_one_bar_is_of_what_is_done_just_now(monkeypatch):
    screen = io.StringIO()
    monkeypatch.setattr(_progress, "err", Console(file=screen, force_terminal=True, width=80))
    bars, drawn = [], threading.Condition()

    class Watched(_progress.Bars):
        def get_renderables(self):
            with drawn:
                bars.append([task.description for task in self.tasks])
                drawn.notify_all()
            return super().get_renderables()

    monkeypatch.setattr(_progress, "Bars", Watched)
    with _progress.show_progress() as report:
        for description, total in (("read", 0), ("train, loss 2.0", 9), ("train, loss 1.5", 9)):
            report(description, 1, total)
            with drawn:  # ten times a second, as far as the machine can
                assert drawn.wait_for(partial(bars.__contains__, [description]), timeout=60)
        report("read", 3, 0)
    assert max(map(len, bars)) == 1
    assert "1/9" in screen.getvalue()
