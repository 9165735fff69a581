"""Servers that answer well for a while and then misbehave: what was measured must be kept."""

import gzip
import json
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random

from tests.campaign import verdict
from tests.campaign.process import prepare, run
from tests.campaign.seeds import ROWS, Seeds
from tests.campaign.verdict import MEMORY

JSON = {"Content-Type": "application/json"}
Answer = tuple[int, dict[str, str], bytes]
DEEP = b"[" * 1_000_000
_PATIENT = ("endless", "dripping", "silent")  # the metric judge waits for them for ten minutes
_ENDLESS_S = 20.0


def load(seeds: Seeds, rng: Random, sandbox: Path) -> tuple[str, list[str]]:
    """Compare a good server with one that misbehaves."""
    good, kind = rng.choice((0, 1, 2, 5, ROWS)), rng.choice(list(BAD))
    prepare(sandbox)
    with _serving(rng.random(), ROWS * 9, kind) as one, _serving(rng.random(), good, kind) as two:
        given = ["load", str(seeds.task), "--split", "train", "--timeout", "1", "--warmup", "1"]
        given += [
            "--endpoint",
            f"a={one}",
            "--endpoint",
            f"b={two}{'/x' * rng.choice((0, 0, 900))}",
        ]
        given += ["--concurrency", str(rng.choice((1, 3))), "--max-new-tokens", "9"]
        found = _played([*given, "--json"], sandbox, must_work=good > 0 and "/x" not in given[-5])
    results = sandbox / "made/out/results.json"
    if not found and results.exists():
        cells = json.loads(results.read_text())["cells"]
        if cells[0]["failed"] or cells[1]["requests"] - cells[1]["failed"] < good - 1:
            found.append("measurements were lost")
    return f"{kind} after {good}: {' '.join(given)}", found


def judge(seeds: Seeds, rng: Random, sandbox: Path) -> tuple[str, list[str]]:
    """Let a judge misbehave; what the bench measured is kept either way."""
    good, kind = rng.choice((0, 1, 2, 9)), rng.choice([k for k in BAD if k not in _PATIENT])
    prepare(sandbox)
    given = ["bench", str(seeds.task), "--model", str(seeds.base), "--split", "train"]
    given += ["--limit", "3", "--max-new-tokens", "8", "--warmup", "0", "--metric", "judge"]
    with _serving(rng.random(), good, kind) as url:
        given += ["--judge-endpoint", url, "--judge-model", "m"]
        found = _played(given, sandbox, must_work=good > 0)
    kept = sandbox / "made/.out.work"
    if not (sandbox / "made/out").exists() and not list(kept.rglob("*.jsonl")):
        found.append("measurements were lost")
    return f"{kind} after {good}: {' '.join(given)}", found


def _played(given: list[str], sandbox: Path, *, must_work: bool) -> list[str]:
    before = verdict.state(sandbox / "in")
    ended = run([*given, "--output", str(sandbox / "made/out")], sandbox)
    found = verdict.problems(ended, sandbox, before)
    if must_work and ended.code != 0:
        found.append(f"exit {ended.code} after a good answer: {ended.err[-300:]}")
    if ended.grown > MEMORY:
        found.append(f"took {ended.grown >> 20} MiB")
    return found


@contextmanager
def _serving(seed: float, good: int, kind: str) -> Iterator[str]:
    """Serve in a process of its own: it answers ``good`` requests well, and then as ``kind``."""
    door = socket.create_server(("127.0.0.1", 0), backlog=64)
    pid = os.fork()
    if not pid:
        try:
            _serve(door, Random(seed), good, kind)
        finally:
            os._exit(0)
    port = door.getsockname()[1]
    door.close()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _serve(door: socket.socket, rng: Random, good: int, kind: str) -> None:
    left = iter(range(good))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            self._send(200, JSON, b'{"data": [{"id": "m"}]}')

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            chat = self.path.endswith("/chat/completions")
            if next(left, None) is not None:
                self._send(200, JSON, completion(chat, "4" if chat else "yes", 1))
                return
            self.close_connection = True
            made = BAD[kind](rng, chat, self)
            if made:
                self._send(*made)

        def _send(self, status: int, headers: dict[str, str], body: bytes) -> None:
            self.send_response(status)
            if "Content-Length" not in headers and "Transfer-Encoding" not in headers:
                self.send_header("Content-Length", str(len(body)))
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            pass  # a client that went away

    server = Server(door.getsockname(), Handler, bind_and_activate=False)
    server.socket.close()
    server.socket = door
    server.serve_forever()


def completion(chat: bool, text: object, tokens: object = 1) -> bytes:
    """Return the body of an answer, whatever its parts are."""
    choice = {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
    usage = {"completion_tokens": tokens}
    return json.dumps({"choices": [choice], "usage": usage}).encode()


def _counts(rng: Random, chat: bool, _: object) -> Answer:
    number = rng.choice(
        (b"1e999", b"9" * 401, b"9" * 5000, b"-1", b"1e18", b"true", b"null", b'"1"')
    )
    return 200, JSON, completion(chat, "yes", 7).replace(b" 7}", b" " + number + b"}")


def _texts(rng: Random, chat: bool, _: object) -> Answer:
    odd = (
        None,
        4,
        [],
        [[]],
        {"a": 1},
        "\ud800",
        "\x00\x1b[31m",
        "4 " * 100_000,
        "",
        "</think>" * 999,
    )
    return 200, JSON, completion(chat, rng.choice(odd))


def _bodies(rng: Random, chat: bool, _: object) -> Answer:
    good = completion(chat, "4")
    odd = (DEEP, b'{"a":' * 99_999, b"", b"null", b"[]", b"{}", b"\xff\xfe", b"\xef\xbb\xbf" + good)
    odd += (good[:-9], good + good, good.replace(b"choices", b"choice"), b'{"choices": []}', b"NaN")
    return rng.choice((200, 200, 201, 500)), JSON, rng.choice(odd)


def _encoded(rng: Random, chat: bool, _: object) -> Answer:
    name = rng.choice(("gzip", "br", "zstd", "deflate", "gzip, gzip", "x", "identity, gzip"))
    body = completion(chat, "4")
    made = rng.choice((body, gzip.compress(body), gzip.compress(gzip.compress(bytes(1 << 20)))))
    return rng.choice((200, 500)), JSON | {"Content-Encoding": name}, made


def _bomb(rng: Random, *_: object) -> Answer:
    body = gzip.compress(b" " * (1 << 28), 1)
    coded = {"Content-Encoding": rng.choice(("gzip", "GZip", "x-gzip"))}
    return rng.choice((200, 500, 429)), JSON | coded, body


def _headers(rng: Random, chat: bool, _: object) -> Answer:
    odd = (("Content-Length", "-1"), ("Content-Length", "9" * 30), ("Content-Length", "99999"))
    odd += (("Content-Type", "text/html; charset=utf-7"), ("Content-Type", "text/event-stream"))
    odd += (("Content-Type", "application/json; charset=no"), ("Retry-After", "9" * 99))
    odd += (("Transfer-Encoding", "chunked"), ("X", "x" * 300_000), ("Set-Cookie", "a=b\x01"))
    return rng.choice((200, 200, 500)), dict([rng.choice(odd)]), completion(chat, "4")


def _statuses(rng: Random, *_: object) -> Answer:
    status = rng.choice((204, 301, 307, 401, 403, 404, 408, 409, 418, 429, 500, 503, 999))
    return (
        status,
        {"Location": rng.choice(("/", "http://10.0.0.1/", "file:///etc/passwd", ""))},
        b"",
    )


def _endless(rng: Random, _: bool, handler: BaseHTTPRequestHandler) -> None:
    """Never stop: a body of spaces, of digits, or headers, under a good or a bad status."""
    part = rng.choice((b" ", b"9", b"X: y\r\n")) * 60_000
    first = b"HTTP/1.1 %d OK\r\n" % rng.choice((200, 500))
    _write(handler, first if b"X" in part else first + b"Content-Type: application/json\r\n\r\n")
    end = time.monotonic() + _ENDLESS_S
    while time.monotonic() < end:
        _write(handler, part)


def _dripping(rng: Random, _: bool, handler: BaseHTTPRequestHandler) -> None:
    _write(handler, rng.choice((b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 200")))
    for _number in range(200):
        _write(handler, b" ")
        time.sleep(0.1)


def _silent(*_: object) -> None:
    time.sleep(_ENDLESS_S)


def _junk(rng: Random, _: bool, handler: BaseHTTPRequestHandler) -> None:
    odd = (
        b"",
        b"\x00" * 99,
        b"HTTP/9.9 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{",
    )
    _write(handler, rng.choice(odd))


def _write(handler: BaseHTTPRequestHandler, data: bytes) -> None:
    handler.wfile.write(data)
    handler.wfile.flush()


BAD: dict[str, Callable[..., Answer | None]] = {
    "counts": _counts,
    "texts": _texts,
    "bodies": _bodies,
    "encoded": _encoded,
    "bomb": _bomb,
    "headers": _headers,
    "statuses": _statuses,
    "endless": _endless,
    "dripping": _dripping,
    "silent": _silent,
    "junk": _junk,
}
