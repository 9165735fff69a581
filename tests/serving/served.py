"""A server of a tiny model in a process of its own, as tests of clients use it."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.data.test_chat_template import CHATML
from tests.pico import make_base

KEY = "a-key"
NAME = "tiny"
SECONDS = 600  # to start and to stop, on a machine with much else to do


def make_folder(folder, template=CHATML):
    """Make a model with a chat template."""
    made = make_base(folder / "model", "llama")
    (made / "chat_template.jinja").write_text(template)
    return made


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


def read(url, path, data=None, key=KEY, method=None):
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    request = Request(f"{url}{path}", data, headers, method=method)
    with urlopen(request, timeout=SECONDS) as answer:
        return answer.read().decode()


def status_of(url, path, data=None, key=KEY, method=None):
    """Return the status, the error and the headers of a request that is refused."""
    with pytest.raises(HTTPError) as caught:
        read(url, path, data, key, method)
    return caught.value.code, json.loads(caught.value.read())["error"], caught.value.headers


def wait_until(holds):
    end = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.1)


def answers(url, process):
    assert process.poll() is None, process.communicate()[1]
    try:
        return json.loads(read(url, "/health"))["status"] == "ok"
    except OSError:
        return False


def value_of(url, name):
    lines = [line.split(" ") for line in read(url, "/metrics").splitlines()]
    return sum(float(value) for key, *_, value in lines if key == name)


@contextmanager
def started(folder, *options, key=KEY):
    """Yield the address and the process of a server, which is stopped at the end."""
    port = free_port()
    words = [sys.executable, "-m", "tasc_cli.main", "serve", f"{NAME}={folder}"]
    words += ["--port", port, "--dtype", "float32", "--threads", "1", *options]
    env = {**os.environ, "TASC_API_KEY": key}
    process = subprocess.Popen(
        [str(word) for word in words], stderr=subprocess.PIPE, text=True, env=env
    )
    url = f"http://127.0.0.1:{port}"
    try:
        wait_until(lambda: answers(url, process))
        yield url, process
    finally:
        process.kill()
        process.communicate()


async def exchange(app, method, path, body=b"", *, sent=None, leaves=None):
    """Send a request to an application in this process; return the messages of its answer.

    They are collected in ``sent``. The client goes away once ``leaves`` is set, if ever.
    """
    sent, leaves = [] if sent is None else sent, leaves or asyncio.Event()
    left = [{"type": "http.request", "body": body}]

    async def receive():
        if left:
            return left.pop()
        await leaves.wait()
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "http_version": "1.1", "method": method, "path": path}
    await app(scope | {"headers": [], "query_string": b""}, receive, send)
    return sent
