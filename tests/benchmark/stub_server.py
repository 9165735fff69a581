"""A server of completions and chats that behaves, or misbehaves, as told; on the loopback."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Behaviour:
    """How a server answers, and what it was sent."""

    text: Callable[[str], str] = lambda prompt: f"answer to {prompt.strip()}"
    wait: float = 0.0  # seconds before the answer
    holds: Callable[[int], bool] = lambda number: False  # requests answered once this is over
    over: threading.Event = field(default_factory=threading.Event)
    fails: Callable[[int], bool] = lambda number: False  # requests answered with ``failure``
    failure: int = 500
    drops: Callable[[int], bool] = lambda number: False  # requests answered in part
    chat: Callable[[list[dict[str, str]]], Any] = lambda messages: "no reply"
    raw: Callable[[int], bytes | None] = lambda number: None  # the body, instead of all this
    headers_sent: dict[str, str] = field(default_factory=dict)
    redirect: str = ""  # where to, instead of an answer
    seen: list[dict[str, Any]] = field(default_factory=list)  # the bodies of all requests
    headers: list[dict[str, str]] = field(default_factory=list)
    most: int = 0  # requests in flight
    busy: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


@contextmanager
def serving(behaviour: Behaviour) -> Iterator[str]:
    """Serve until the block ends; yields the URL of the API."""
    handler = type("Handler", (_Handler,), {"behaviour": behaviour})
    server = Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        behaviour.over.set()
        server.shutdown()
        server.server_close()
        thread.join()


class Server(ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True

    def handle_error(self, *_):
        """A client that went away is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    behaviour: Behaviour

    def log_message(self, *_):
        pass

    def do_GET(self):
        self._reply(200, b'{"object": "list", "data": [{"id": "m", "object": "model"}]}')

    def do_POST(self):
        told = self.behaviour
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with told.lock:
            number = len(told.seen)
            told.seen.append(body)
            told.headers.append({k.lower(): v for k, v in self.headers.items()})
            told.busy += 1
            told.most = max(told.most, told.busy)
        try:
            self._answer(told, number, body)
        finally:
            with told.lock:
                told.busy -= 1

    def _answer(self, told, number, body):
        if told.redirect:
            return self._reply(307, b"", Location=told.redirect)
        if told.fails(number):
            return self._reply(told.failure, b'{"error": {"message": "out of \x1b[31mmemory"}}')
        time.sleep(told.wait)
        if told.holds(number):
            told.over.wait()
        if self.path.endswith("/chat/completions"):
            return self._reply(200, completion(told.chat(body["messages"]), 1, chat=True))
        raw = told.raw(number)
        if raw is None:
            raw = completion(told.text(body["prompt"]))
        if told.drops(number):
            self.close_connection = True
        return self._reply(200, raw, cut=self.close_connection, **told.headers_sent)

    def _reply(self, status, body, cut=False, **headers):
        self.send_response(status)
        sent = {"Content-Type": "application/json", "Content-Length": str(len(body))} | headers
        for name, value in sent.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body[:10] if cut else body)


def completion(text: Any, tokens: Any = None, *, chat: bool = False) -> bytes:
    """Return the body of an answer; a token per word unless told otherwise."""
    usage = {"completion_tokens": len(text.split(" ")) if tokens is None else tokens}
    choice = {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
    return json.dumps({"choices": [choice | {"index": 0}], "usage": usage}).encode()
