"""Run the commands of an exported README unchanged, in an environment that was empty.

    python -m tests.campaign.readmes EXPORT... [--leave-out TEXT...]

Each folder of ``tasc export`` gets a new virtual environment. What its README says is typed there,
in its order, inside the folder: what pip installs, the server, the request, the code. A block that
holds one of the texts is left out, such as "vllm &&" on a machine without a GPU. The network is
used. Lines of pip beside Python code count, too.
"""

import argparse
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tasc.serving.options import LOOPBACK, PORT

BESIDE = r"(?:[^\n`]*`(pip install [^`\n]*)`[^\n]*\n\n)?"
BLOCK = re.compile(rf"^{BESIDE}```(\w+)\n(.*?)\n```", re.MULTILINE | re.DOTALL)
SERVERS = ("llama-server", "api_server", "sglang.launch_server")
LIMIT_S = 900.0


def main() -> int:
    """Run all; 1 if a command failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--leave-out", nargs="*", default=[])
    given = parser.parse_args()
    failed = 0
    for folder in given.folders:
        with tempfile.TemporaryDirectory(prefix="readme-") as place:
            failed += not followed(folder, empty(Path(place)), given.leave_out)
    return int(failed > 0)


def empty(place: Path) -> dict[str, str]:
    """Make a virtual environment; return the variables of a shell in which it is active."""
    subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
    known = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    return known | {"PATH": f"{place / 'bin'}:/usr/local/bin:/usr/bin:/bin"}


def commands(readme: str) -> Iterator[list[str]]:
    """Yield what is typed, in order."""
    for beside, kind, block in BLOCK.findall(readme):
        if beside:
            yield ["bash", "-c", beside]
        yield ["bash", "-c", block] if kind == "sh" else ["python", "-c", block]


def followed(folder: Path, shell: Mapping[str, str], left_out: list[str]) -> bool:
    """Type what the README of ``folder`` says; whether all of it worked."""
    waiting = [
        words
        for words in commands((folder / "README.md").read_text(encoding="utf-8"))
        if not any(text in words[-1] for text in left_out)
    ]
    for i, words in enumerate(waiting):
        print(f"{folder.name} $ {words[-1]}", flush=True)  # noqa: T201 - a script
        if any(server in words[-1] for server in SERVERS):
            with listening(words, folder, shell):
                return all(typed(rest, folder, shell) for rest in waiting[i + 1 :])
        if not typed(words, folder, shell):
            return False
    return True


def typed(words: list[str], folder: Path, shell: Mapping[str, str]) -> bool:
    """Run one command; whether it worked."""
    done = subprocess.run(words, cwd=folder, env=shell, check=False, timeout=LIMIT_S)
    print(f"{folder.name}: exit {done.returncode}", flush=True)  # noqa: T201 - a script
    return done.returncode == 0


@contextmanager
def listening(words: list[str], folder: Path, shell: Mapping[str, str]) -> Iterator[None]:
    """Run a server until the body ends."""
    begin = [*words[:2], f"exec {words[2]}"]
    server = subprocess.Popen(begin, cwd=folder, env=shell)
    try:
        until = time.monotonic() + LIMIT_S
        while server.poll() is None and time.monotonic() < until:
            with socket.socket() as attempt:
                if attempt.connect_ex((LOOPBACK, PORT)) == 0:
                    break
            time.sleep(1)
        yield
    finally:
        server.terminate()
        server.wait(60)


if __name__ == "__main__":
    sys.exit(main())
