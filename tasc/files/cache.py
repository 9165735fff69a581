"""The folder of tasc's cache."""

import os
from pathlib import Path

INSTEAD = "set XDG_CACHE_HOME to another folder for tasc's cache"  # if the disk is full


def cache_folder() -> Path:
    """Return the folder of the cache: ``$XDG_CACHE_HOME/tasc``."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tasc"
