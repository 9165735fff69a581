"""Small JSON files in the user's cache, with measurements of models on this machine.

The name of an entry is a hash of everything it depends on, so entries are never out of date.
"""

import contextlib
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformers import PretrainedConfig

from tasc.files.cache import cache_folder
from tasc.files.disk import replacing

Identity = Mapping[str, Any]
_VOLATILE = {"_name_or_path", "transformers_version", "dtype", "torch_dtype"}


def entry(kind: str, identity: Identity) -> Path:
    """Return the path of the entry for ``identity``, whether it exists or not."""
    return cache_folder() / f"{kind}-{_digest(identity)[:24]}.json"


def read(path: Path) -> dict[str, Any] | None:
    """Return an entry, or None if it cannot be read."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def write(path: Path, content: Mapping[str, Any], identity: Identity) -> None:
    """Write an entry atomically; do nothing if the folder is not writable."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as new:
            new.write_text(json.dumps({**content, "of": identity}, indent=2), encoding="utf-8")


def config_hash(config: PretrainedConfig, *, without: frozenset[str] = frozenset()) -> str:
    """Return a hash of a model's configuration without the checkpoint's name."""
    ignored = _VOLATILE | without
    return _digest({k: v for k, v in config.to_dict().items() if k not in ignored})


def _digest(identity: Identity) -> str:
    return hashlib.sha256(json.dumps(identity, sort_keys=True, default=str).encode()).hexdigest()
