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
    """How a server answers.

    Attributes:
        text: of the answer to a prompt, streamed word by word.
        wait: seconds before the first word.
        fails: whether a request, by its number, is answered with ``failure``.
        drops: whether the connection is dropped after the first word of a request.
        usage: whether tokens are counted.
        chat: the reply to a chat, by its messages.
        raw: lines of the stream instead of all this.
        redirect: where to, instead of an answer.
        seen: the bodies and headers of all requests.
    """

    text: Callable[[str], str] = lambda prompt: f"answer to {prompt.strip()}"
    wait: float = 0.0
    fails: Callable[[int], bool] = lambda number: False
    failure: int = 500
    drops: Callable[[int], bool] = lambda number: False
    usage: bool = True
    chat: Callable[[list[dict[str, str]]], Any] = lambda messages: "no reply"
    raw: tuple[bytes, ...] = ()
    redirect: str = ""
    seen: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    most: int = 0  # requests under way at a time
    busy: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


@contextmanager
def serving(behaviour: Behaviour) -> Iterator[str]:
    """Serve until the block ends; yields the URL of the API."""
    handler = type("Handler", (_Handler,), {"behaviour": behaviour})
    server = _Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
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
        self._reply(200, json.dumps({"object": "list", "data": [{"id": "m", "object": "model"}]}))

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
            return self._reply(307, "", Location=told.redirect)
        if told.fails(number):
            return self._reply(told.failure, '{"error": {"message": "out of \x1b[31mmemory"}}')
        if self.path.endswith("/chat/completions"):
            message = {"role": "assistant", "content": told.chat(body["messages"])}
            time.sleep(told.wait)
            return self._reply(200, json.dumps({"choices": [{"index": 0, "message": message}]}))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        time.sleep(told.wait)
        for line in told.raw or self._stream(told, number, body):
            if line is None:
                self.close_connection = True
                return None
            self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")
        return None

    def _stream(self, told, number, body):
        words = told.text(body["prompt"]).split(" ")
        for i, word in enumerate(words):
            end = "stop" if i + 1 == len(words) else None
            yield event(choices=[{"text": " " * (i > 0) + word, "index": 0, "finish_reason": end}])
            if told.drops(number):
                yield None
        if told.usage:
            yield event(choices=[], usage={"prompt_tokens": 1, "completion_tokens": len(words)})
        yield b"data: [DONE]\n\n"

    def _reply(self, status, text, **headers):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())


def event(**fields: Any) -> bytes:
    """Return an event of a stream as it is sent."""
    held = {"id": "c", "object": "text_completion", "created": 0, "model": "m", **fields}
    return f"data: {json.dumps(held)}\n\n".encode()
