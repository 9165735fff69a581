import pytest


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still unless a test moves it: drafting takes no time."""
    now = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    return now
