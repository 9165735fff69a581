"""What was found out about models on this machine: one small JSON file each, in the user's cache.

An entry is named by a hash of everything it depends on, so what it says is never out of date.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformers import PretrainedConfig

from tasc.files.disk import replacing

Identity = Mapping[str, Any]
_VOLATILE = {"_name_or_path", "transformers_version", "dtype", "torch_dtype"}


def cache_folder() -> Path:
    """Return where measurements of this user's machine are kept: ``$XDG_CACHE_HOME/tasc``."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tasc"


def entry(kind: str, identity: Identity, folder: Path | None = None) -> Path:
    """Return the file of what was found for ``identity``, whether it is there or not."""
    return (folder or cache_folder()) / f"{kind}-{_digest(identity)[:24]}.json"


def read(path: Path) -> dict[str, Any] | None:
    """Return an entry, or None where there is none that can be read."""
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return held if isinstance(held, dict) else None


def write(path: Path, held: Mapping[str, Any], identity: Identity) -> None:
    """Write an entry so that readers see a whole file or none.

    A folder that cannot be written costs only the caching.
    """
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as new:
            new.write_text(json.dumps({**held, "of": identity}, indent=2), encoding="utf-8")


def config_hash(config: PretrainedConfig, *, without: frozenset[str] = frozenset()) -> str:
    """Return a hash of a model's configuration; the name of the checkpoint is no part of it."""
    left_out = _VOLATILE | without
    return _digest({k: v for k, v in config.to_dict().items() if k not in left_out})


def _digest(what: Identity) -> str:
    return hashlib.sha256(json.dumps(what, sort_keys=True, default=str).encode()).hexdigest()
