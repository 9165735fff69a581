"""Versions, commit and machine, which every manifest records."""

import json
import os
import platform
import shlex
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from tasc import __version__

PACKAGES = (
    *("torch", "transformers", "tokenizers", "datasets", "peft", "bitsandbytes", "numpy"),
    "openai",
)
NEWEST_TRANSFORMERS = "5.24.0"  # that all tests ran with, as in constraints.txt
API_KEY = "TASC_API_KEY"  # the variable with the key of servers; not one company's own
DISTRIBUTION = "tasc-lm"  # on PyPI, where "tasc" is another project


def environment() -> dict[str, Any]:
    """Return the versions, the commit and the machine of this process."""
    return {
        "tasc": __version__,
        "git": _commit(),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "machine": {"processor": processor(), "cores": os.cpu_count(), "system": platform.system()},
    }


def launched() -> tuple[int, int]:
    """Return rank and number of the processes started by torchrun or accelerate launch."""
    rank, size = os.environ.get("RANK", ""), os.environ.get("WORLD_SIZE", "")
    return (int(rank), int(size)) if rank.isdecimal() and size.isdecimal() else (0, 1)


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:  # some packages are optional
        return None


def requirement() -> str:
    """Return the requirement that installs this version of tasc with pip.

    If it was not installed from an index, that is its folder, file or repository (PEP 610).
    """
    try:
        record = metadata.distribution(DISTRIBUTION).read_text("direct_url.json")
    except metadata.PackageNotFoundError:  # imported from a source tree
        record = None
    origin = json.loads(record) if record else {}
    if "url" not in origin:
        return f"{DISTRIBUTION}=={__version__}"
    commit = origin.get("vcs_info", {})
    at = f"{commit['vcs']}+{origin['url']}@{commit['commit_id']}" if commit else origin["url"]
    return f"{DISTRIBUTION} @ {at}"


def shell_line() -> str:
    """Return the command line of this program for a shell."""
    return shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])


def _commit() -> str | None:
    """Return the commit of the source tree, with '+' if it has uncommitted changes."""
    root = Path(__file__).resolve().parents[1]
    if not (root / ".git").exists():  # installed from a wheel
        return None
    git = ["git", "--no-optional-locks", "-C", str(root)]  # a commit may be in progress
    try:
        sha = subprocess.check_output([*git, "rev-parse", "HEAD"], stderr=subprocess.DEVNULL)
        state = subprocess.check_output([*git, "status", "--porcelain"], stderr=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError):
        return None
    return sha.decode().strip()[:12] + ("+" if state.strip() else "")


def processor() -> str:
    """Return the name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
