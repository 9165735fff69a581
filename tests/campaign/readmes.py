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
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tasc.serving.options import LOOPBACK, PORT

BESIDE = r"(?:[^\n`]*`(pip install [^`\n]*)`[^\n]*\n\n)?"
BLOCK = re.compile(rf"^{BESIDE}```(\w+)\n(.*?)\n```", re.MULTILINE | re.DOTALL)
SERVERS = ("llama-server", "api_server", "sglang.launch_server")
LIMIT_S = 1800
# The first command that fails is the last; the server's group of processes ends with the shell.
BEGIN = "set -emv; trap '[ -z \"$!\" ] || kill -- -$!' EXIT"
LISTENING = (
    f"until (exec 3<> /dev/tcp/{LOOPBACK}/{PORT}) 2> /dev/null; do kill -0 $!; sleep 1; done"
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--leave-out", nargs="*", default=[])
    given = parser.parse_args()
    return sum(not followed(folder, given.leave_out) for folder in given.folders)


def followed(folder: Path, left_out: list[str]) -> bool:
    """Type what the README of ``folder`` says; whether all of it worked."""
    readme = (folder / "README.md").read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory(prefix="readme-") as place:
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
        shell = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
        shell["PATH"] = f"{place}/bin:/usr/local/bin:/usr/bin:/bin"
        script = "\n".join([BEGIN, *typed(readme, left_out)])
        done = subprocess.run(
            ["timeout", str(LIMIT_S), "bash", "-c", script], cwd=folder, env=shell
        )
    print(f"{folder.name}: exit {done.returncode}", flush=True)  # noqa: T201 - a script
    return done.returncode == 0


def typed(readme: str, left_out: list[str]) -> Iterator[str]:
    """Yield what is typed, in order; a server runs on while the rest is."""
    for beside, kind, block in BLOCK.findall(readme):
        for text in filter(None, (beside, block)):
            if any(part in text for part in left_out):
                continue
            if any(server in text for server in SERVERS):
                yield f"(\n{text}\n) &\n{LISTENING}"
            else:
                yield text if text == beside or kind == "sh" else f"python <<'END'\n{text}\nEND"


if __name__ == "__main__":
    sys.exit(main())
