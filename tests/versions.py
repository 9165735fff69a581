"""``python -m tests.versions``: the tests that depend on libraries, under other releases of them.

Each environment is made by uv, with the product and what the tests need: ``lowest`` has the lowest
release that pyproject.toml allows of each direct dependency, ``newest`` the newest of everything,
``newest-3.12`` and ``newest-3.13`` the same under another Python, ``torch-2.14`` an older torch.
Rows for the table in docs/reference/versions.md are printed. Torch is the ordinary build from
PyPI, which takes 5 GB in each environment.
"""

import argparse
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tests import runs

ROOT = Path(__file__).parents[1]
PLACE = ROOT / "build" / "versions"
SHOWN = ("torch", "transformers", "tokenizers", "peft", "datasets", "numpy")
# Lossless decoding, the commands from start to end, tokenizers, exports, training and data.
TESTS = (
    *("tests/benchmark/test_lossless.py", "tests/chain", "tests/data", "tests/decoding"),
    *("tests/models", "tests/serving", "tests/training", "tests/vocab"),
)
# Where one thing differs from newest: the parts that use the most of the libraries.
FEWER = (
    *("tests/chain", "tests/models", "tests/vocab", "tests/serving"),
    *("tests/decoding/test_library.py", "tests/decoding/test_stateful.py"),
    *("tests/data/test_tokenizer.py", "tests/data/test_chat_template.py"),
)
VERSIONS = """
import importlib.metadata as metadata, platform
print(*platform.python_version_tuple()[:2], sep=".")
print(*(metadata.version(name).split("+")[0] for name in {names}), sep="\\n")
"""


@dataclass(frozen=True)
class Environment:
    """A Python, and which releases of the dependencies are installed into it."""

    python: str = "3.11"
    resolution: str = "highest"  # as uv names it
    also: tuple[str, ...] = ()  # requirements beside those of the product
    tests: tuple[str, ...] = TESTS


ENVIRONMENTS = {
    "lowest": Environment(resolution="lowest-direct"),
    "newest": Environment(),
    "newest-3.12": Environment(python="3.12", tests=FEWER),
    "newest-3.13": Environment(python="3.13", tests=FEWER),
    "torch-2.14": Environment(also=("torch==2.14.*",), tests=FEWER),
}


def main() -> int:
    """Make the environments that were asked for and run their tests; return 1 if one failed."""
    given = _arguments()
    PLACE.mkdir(parents=True, exist_ok=True)
    good = True
    for name in given.only or ENVIRONMENTS:
        environment = ENVIRONMENTS[name]
        python = make(name, environment)
        asked = given.pytest or environment.tests
        outcome = runs.run(python, asked, given.workers, PLACE / f"{name}.log", {})
        counts = (outcome.passed, len(outcome.failed), outcome.skipped)
        today = datetime.now(UTC).date().isoformat()
        _say("| " + " | ".join(map(str, (name, *installed(python), *counts, today))) + " |")
        for test in outcome.failed:
            _say(f"  {test}")
        good = good and not outcome.failed
    return int(not good)


def make(name: str, environment: Environment) -> Path:
    """Make an environment in build/versions with the product in it; return its Python.

    The releases of the product's dependencies are resolved alone, as for a user: what the tests
    need is added to them, and may not change them.
    """
    folder = PLACE / name
    python = folder / "bin" / "python"
    if not python.exists():
        _uv("venv", "--python", environment.python, str(folder))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = _write(name, "wanted", [*project["project"]["dependencies"], *environment.also])
    resolved = PLACE / f"{name}-resolved.txt"
    _uv(
        *("pip", "compile", "--quiet", "--python", str(python), "--output-file", str(resolved)),
        *("--upgrade", "--resolution", environment.resolution, str(wanted)),
    )
    tools = _write(name, "tools", project["dependency-groups"]["dev"])
    _uv("pip", "install", "--python", str(python), "-r", str(resolved), "-r", str(tools))
    build = ("--no-deps", "--no-build-isolation", f"-Cbuild-dir={PLACE / name}-native")
    _uv("pip", "install", "--python", str(python), *build, "-e", str(ROOT))
    return python


def installed(python: Path) -> list[str]:
    """Return the release of Python, and those of the packages in ``SHOWN``."""
    code = VERSIONS.format(names=SHOWN)
    return subprocess.run(
        [python, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()


def _write(name: str, what: str, requirements: Sequence[str]) -> Path:
    file = PLACE / f"{name}-{what}.txt"
    file.write_text("\n".join([*requirements, ""]))
    return file


def _uv(*arguments: str) -> None:
    beside = Path(sys.executable).with_name("uv")
    uv = str(beside) if beside.exists() else shutil.which("uv")
    if uv is None:
        sys.exit("uv is not installed: pip install uv")
    subprocess.run([uv, *arguments], check=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.versions", description=__doc__)
    parser.add_argument("--only", action="append", choices=ENVIRONMENTS, help="may be repeated")
    parser.add_argument("--workers", type=int, default=2, help="processes of pytest")
    parser.add_argument("pytest", nargs="*", help="folders, files, or tests, instead of its own")
    return parser.parse_args()


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - a script


if __name__ == "__main__":
    sys.exit(main())
