"""The endurance run on few calls, and that it would notice what it is there for."""

import threading

import numpy as np
import pytest

from tests.campaign.endurance import endure, verdict


def test_some_calls_leave_memory_flat_and_no_thread_behind():
    growth, good = verdict(*endure(30, 30))
    assert good, f"memory grew by {growth:.2%}"


@pytest.fixture
def end():
    """What lets threads of a test end."""
    event = threading.Event()
    yield event
    event.set()


def test_memory_that_is_kept_and_threads_that_stay_are_noticed(end):
    kept = []
    assert not verdict(*endure(10, 2, lambda *_, **__: kept.append(np.ones(1 << 20))))[1]
    wait = lambda *_, **__: threading.Thread(target=end.wait).start()  # noqa: E731
    assert not verdict(*endure(2, 1, wait))[1]
