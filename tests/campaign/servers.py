"""Servers that answer well for a while and then misbehave: what was measured must be kept."""

import gzip
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from random import Random

from tests.benchmark.stub_server import Server, completion
from tests.campaign import verdict
from tests.campaign.process import prepare, run
from tests.campaign.seeds import ROWS, Seeds
from tests.campaign.verdict import MEMORY

Answer = tuple[int, dict[str, str], bytes]
DEEP = b"[" * 1_000_000
_PATIENT = ("endless", "dripping")  # the metric judge waits for them for ten minutes


def load(seeds: Seeds, rng: Random, sandbox: Path) -> tuple[str, list[str]]:
    """Compare a good server with one that misbehaves."""
    good, kind = rng.choice((0, 1, 2, 5, ROWS)), rng.choice(list(BAD))
    path = "/x" * rng.choice((1, 1, 1, 900, 9999))
    prepare(sandbox)
    given = ["load", str(seeds.task), "--split", "train", "--timeout", "2", "--warmup", "1"]
    given += ["--concurrency", str(rng.choice((1, 3))), "--max-new-tokens", "9", "--model", "m"]
    with _serving(rng.random(), ROWS * 9, kind) as one, _serving(rng.random(), good, kind) as two:
        given += ["--endpoint", f"a={one}", "--endpoint", f"b={two}{path}"]
        found = _played(given, sandbox, must_work=good > 0 and len(path) < 2000)
    results = sandbox / "made/out/results.json"
    if not found and results.exists():
        cells = json.loads(results.read_text())["cells"]
        kept = [cell["requests"] - cell["failed"] for cell in cells]
        found = [f"lost measurements: {kept}"] if kept[0] < ROWS or kept[1] < good - 1 else []
    return f"{kind} after {good}: {' '.join(given)[:500]}", found


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
    rng, left = Random(seed), iter(range(good))

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Print nothing."""

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            chat = self.path.endswith("/chat/completions")
            if next(left, None) is not None:
                _send(self, 200, {}, completion("4" if chat else "yes", 1, chat=chat))
            elif made := BAD[kind](rng, chat, self):
                _send(self, *made)

    server = Server(("127.0.0.1", 0), Handler)
    pid = os.fork()
    if not pid:
        try:
            server.serve_forever()
        finally:
            os._exit(0)
    server.server_close()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _send(handler: BaseHTTPRequestHandler, status: int, more: dict[str, str], body: bytes) -> None:
    handler.send_response(status)
    headers = {"Content-Type": "application/json"}
    headers |= {} if "Transfer-Encoding" in more else {"Content-Length": str(len(body))}
    for name, value in (headers | more).items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(body)


def _counts(rng: Random, chat: bool, _: object) -> Answer:
    odd = ("1e999", "9" * 401, "9" * 5000, "-1", "1e18", "true", "null", '"1"', "[]", "0.5", "NaN")
    good = completion("yes", 7, chat=chat)
    return 200, {}, good.replace(b" 7}", f" {rng.choice(odd)}}}".encode())


def _texts(rng: Random, chat: bool, _: object) -> Answer:
    odd = (None, 4, [], {"a": 1}, "\ud800", "\x00\x1b[31m", "4 " * 100_000, "", "</think>" * 999)
    return 200, {}, completion(rng.choice(odd), 1, chat=chat)


def _bodies(rng: Random, chat: bool, _: object) -> Answer:
    good = completion("4", 1, chat=chat)
    odd = [DEEP, b'{"a":' * 99_999, b"", b"null", b"[]", b"\xff\xfe", b"\xef\xbb\xbf" + good]
    odd += [good[:-9], good + good, good.replace(b"choices", b"choice"), b'{"choices": []}']
    return rng.choice((200, 200, 201, 500)), {}, rng.choice(odd)


def _encoded(rng: Random, chat: bool, _: object) -> Answer:
    names = ("gzip", "x-gzip", "br", "zstd", "deflate", "gzip, gzip", "x", "identity, gzip")
    body = completion("4", 1, chat=chat)
    made = rng.choice((body, gzip.compress(body), _bomb(), gzip.compress(_bomb())))
    return rng.choice((200, 500)), {"Content-Encoding": rng.choice(names)}, made


@cache
def _bomb() -> bytes:
    return gzip.compress(bytes(1 << 28), 1)


def _headers(rng: Random, chat: bool, _: object) -> Answer:
    odd = [("Content-Length", "-1"), ("Content-Length", "9" * 30), ("Content-Length", "99999")]
    odd += [("Content-Type", f"text/html; charset={name}") for name in ("utf-7", "zlib", "no")]
    odd += [("Content-Type", "text/event-stream"), ("Retry-After", "9" * 99)]
    odd += [("Transfer-Encoding", "chunked"), ("X", "x" * 300_000), ("Set-Cookie", "a=b\x01")]
    return rng.choice((200, 200, 500)), dict([rng.choice(odd)]), completion("4", 1, chat=chat)


def _statuses(rng: Random, *_: object) -> Answer:
    status = rng.choice((204, 301, 307, 401, 403, 404, 408, 409, 418, 429, 500, 503, 999))
    location = rng.choice(("/", "http://10.0.0.1/", "file:///etc/passwd", ""))
    return status, {"Location": location}, b""


def _endless(rng: Random, _: bool, handler: BaseHTTPRequestHandler) -> None:
    """Never stop: a body of spaces, of digits, or headers, under a good or a bad status."""
    part = rng.choice((b" ", b"9", b"X: y\r\n"))
    handler.wfile.write(b"HTTP/1.1 %d OK\r\n" % rng.choice((200, 500)))
    handler.wfile.write(b"" if b"X" in part else b"Content-Type: application/json\r\n\r\n")
    for _number in range(20_000):
        handler.wfile.write(part * 60_000)


def _dripping(rng: Random, _: bool, handler: BaseHTTPRequestHandler) -> None:
    """Send a byte now and then, or none."""
    part = rng.choice((b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 200", b""))
    for _number in range(200):
        handler.wfile.write(part)
        part = part and b" "
        time.sleep(0.1)


def _junk(rng: Random, _: bool, handler: BaseHTTPRequestHandler) -> None:
    begun = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"
    odd = (b"", bytes(99), b"HTTP/9.9 abc\r\n\r\n", begun)
    handler.wfile.write(rng.choice(odd))


Bad = Callable[[Random, bool, BaseHTTPRequestHandler], Answer | None]
BAD: dict[str, Bad] = {
    **{"counts": _counts, "texts": _texts, "bodies": _bodies, "encoded": _encoded},
    **{"headers": _headers, "statuses": _statuses, "endless": _endless, "dripping": _dripping},
    "junk": _junk,
}
