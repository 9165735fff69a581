"""The endurance run on few calls, and that it would notice what it is there for."""

import subprocess
import sys
import threading

import numpy as np
import pytest

from tests.campaign.endurance import endure, verdict


def test_some_calls_leave_memory_flat_and_no_thread_behind():
    """In a process of its own: what other tests let go of would count, too."""
    command = [sys.executable, "-m", "tests.campaign.endurance", "--calls", "40", "--warmup", "60"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def end():
    """What lets threads of a test end."""
    event = threading.Event()
    yield event
    event.set()


def test_memory_that_is_kept_and_threads_that_stay_are_noticed(end):
    kept = []
    assert not verdict(*endure(10, 2, lambda *_, **__: kept.append(np.ones(1 << 22))))[1]
    wait = lambda *_, **__: threading.Thread(target=end.wait).start()  # noqa: E731
    assert not verdict(*endure(2, 1, wait))[1]
