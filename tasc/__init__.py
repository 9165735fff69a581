"""TASC: task-adaptive compression pipelines for small language models."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tasc.spec.custom_generate import custom_generate
    from tasc.spec.library import Completion, generate
    from tasc.spec.sampling import Sampling

__version__ = "0.1.0"

__all__ = ["Completion", "Sampling", "custom_generate", "generate"]

# name -> where it is; torch and transformers are imported when one of them is first asked for
_PUBLIC = {
    "Completion": "tasc.spec.library",
    "Sampling": "tasc.spec.sampling",
    "custom_generate": "tasc.spec.custom_generate",
    "generate": "tasc.spec.library",
}


def __dir__() -> list[str]:
    return [*globals(), *__all__]


def __getattr__(name: str) -> Any:  # noqa: ANN401
    if name not in _PUBLIC:
        raise AttributeError(f"module 'tasc' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_PUBLIC[name]), name)
