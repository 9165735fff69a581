"""Send tasc serve many short requests, some of them bad, and watch its memory.

Clients go away amid answers, read slowly, send too much or broken JSON. Every answer must be what
its request deserves, memory must stay flat, and the server must end by itself after SIGTERM.
"""

import argparse
import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import median

HOST = "127.0.0.1"
SCHEMA = {"type": "object", "properties": {"a": {"enum": ["x", "y"]}}, "required": ["a"]}
# What clients do, with how often, and the status that each deserves.
KINDS = {
    "whole": (40, 200),
    "stream": (20, 200),
    "schema": (5, 200),
    "long prompt": (3, 200),
    "goes away": (15, 0),
    "reads slowly": (4, 200),
    "broken JSON": (6, 400),
    "unknown field": (4, 400),
    "no such model": (2, 404),
    "oversized": (1, 413),
}
BROKEN = -1  # status without an answer
TEXT = "set an alarm for nine and play some jazz in the kitchen "


@dataclass
class Soak:
    """What happened: answers by kind and status, and the memory of the server over time."""

    port: int
    process: int
    model: str
    statuses: Counter[tuple[str, int]] = field(default_factory=Counter)
    memory: list[tuple[float, float]] = field(default_factory=list)  # requests, MiB

    @property
    def requests(self) -> int:
        return sum(self.statuses.values())

    def look(self) -> None:
        """Note the memory of the server."""
        lines = Path(f"/proc/{self.process}/status").read_text(encoding="ascii").splitlines()
        fields = dict(line.split(":", 1) for line in lines)
        self.memory.append((self.requests, int(fields["VmRSS"].split()[0]) / 1024))

    async def client(self, number: int, end: float, most: int) -> None:
        """Send one request after another."""
        draw = Random(number)
        kinds, weights = [*KINDS], [weight for weight, _ in KINDS.values()]
        while time.monotonic() < end and self.requests < most:
            (kind,) = draw.choices(kinds, weights)
            try:
                status = await asyncio.wait_for(self._ask(kind, draw), 300)
            except (OSError, asyncio.IncompleteReadError, IndexError):
                status = BROKEN
            self.statuses[kind, status] += 1

    async def _ask(self, kind: str, draw: Random) -> int:
        reader, writer = await asyncio.open_connection(HOST, self.port)
        try:
            data = self._body(kind, draw)
            head = f"POST /v1/completions HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n"
            writer.write(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
            if kind != "oversized":  # the server may answer before it has read all
                await writer.drain()
            if kind == "goes away":
                await asyncio.sleep(draw.random() * 0.05)
                return 0
            status = int((await reader.readline()).split()[1])
            while part := await reader.read(64 if kind == "reads slowly" else 1 << 16):
                if kind == "reads slowly" and len(part) == 64:
                    await asyncio.sleep(0.01)
            return status
        finally:
            writer.close()

    def _body(self, kind: str, draw: Random) -> bytes:
        start = draw.randrange(len(TEXT) - 10)
        asked: dict[str, object] = {"model": self.model, "prompt": TEXT[start:]}
        asked |= {"max_tokens": draw.randint(1, 12), "temperature": draw.choice([0, 1])}
        asked |= {"stream": kind in ("stream", "reads slowly")}
        if kind == "broken JSON":
            return json.dumps(asked).encode()[:-2]
        if kind == "oversized":
            return b" " * (5 << 20)
        if kind in ("goes away", "reads slowly"):
            asked |= {"max_tokens": 100, "n": 2}
        more: dict[str, dict[str, object]] = {
            "schema": {
                "response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}},
                "max_tokens": 32,
            },
            "long prompt": {"prompt": TEXT * draw.randint(7, 11)},
            "unknown field": {"unheard_of": 1},
            "no such model": {"model": "another"},
        }
        return json.dumps(asked | more.get(kind, {})).encode()

    def report(self) -> tuple[list[str], bool]:
        """Return the lines of the report, and whether all was as it should be."""
        wrong = {
            (kind, status): count
            for (kind, status), count in self.statuses.items()
            if status not in (KINDS[kind][1], 429)
            and (kind, status) != ("oversized", BROKEN)  # the answer may come before all is sent
        }
        lines = [f"{self.requests:,} requests"]
        for kind in KINDS:
            own = {status: n for (k, status), n in sorted(self.statuses.items()) if k == kind}
            lines.append(
                f"  {kind}: " + ", ".join(f"{n:,} × {s or 'none'}" for s, n in own.items())
            )
        quarter = max(len(self.memory) // 4, 1)
        second = median(mib for _, mib in self.memory[quarter : 2 * quarter] or self.memory)
        last = median(mib for _, mib in self.memory[-quarter:])
        lines.append(
            f"memory: {second:,.1f} MiB in the second quarter, {last:,.1f} MiB in the last "
            f"({100 * (last / second - 1):+.1f} %)"
        )
        lines.append(f"answers that should not be: {wrong or 'none'}")
        return lines, not wrong


async def soak(run: Soak, clients: int, minutes: float, most: int) -> None:
    """Let ``clients`` send requests for ``minutes``, or until there are ``most``."""
    end = time.monotonic() + 60 * minutes
    tasks = [asyncio.create_task(run.client(i, end, most)) for i in range(clients)]
    while not all(task.done() for task in tasks):
        run.look()
        await asyncio.wait(tasks, timeout=2)
    await asyncio.gather(*tasks)


def started(model: str, options: Sequence[str]) -> tuple[subprocess.Popen[bytes], int]:
    """Start the server; return it and its port."""
    with socket.create_server((HOST, 0)) as free:
        port = int(free.getsockname()[1])
    words = [sys.executable, "-m", "tasc_cli.main", "serve", f"soaked={model}"]
    process = subprocess.Popen([*words, "--port", str(port), *options])
    while process.poll() is None:
        try:
            socket.create_connection((HOST, port)).close()
        except OSError:
            time.sleep(0.1)
            continue
        return process, port
    raise SystemExit("the server did not start")


def main() -> None:
    """Soak a server, and print what happened."""
    words = sys.argv[1:]
    at = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(description=__doc__, epilog="Options of tasc serve follow --.")
    parser.add_argument("model", help="model folder")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--clients", type=int, default=16)
    arguments = parser.parse_args(words[:at])
    os.environ.pop("TASC_API_KEY", None)
    process, port = started(arguments.model, words[at + 1 :])
    try:
        run, begun = Soak(port, process.pid, "soaked"), time.monotonic()
        asyncio.run(soak(run, arguments.clients, arguments.minutes, arguments.requests))
        seconds = time.monotonic() - begun
        process.send_signal(signal.SIGTERM)
        ended = process.wait(60)
    finally:
        process.kill()
    lines, good = run.report()
    lines.append(f"{seconds:,.0f} s; the server ended with {ended}")
    sys.stdout.write("\n".join(lines) + "\n")
    raise SystemExit(0 if good and ended == 0 else 1)


if __name__ == "__main__":
    main()
