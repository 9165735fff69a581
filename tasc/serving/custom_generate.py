"""``generate`` of an exported model: with drafts if tasc is installed, without them otherwise.

transformers runs a copy of this file, ``custom_generate/generate.py`` in the model's folder,
instead of the model's own ``generate``. Nothing of tasc may be imported at the top.
"""

import warnings
from typing import Any

_warned: set[str] = set()


def generate(*args: Any, model: Any, **kwargs: Any) -> Any:  # noqa: ANN401
    """Take the arguments of the model's own ``generate`` and return the same result."""
    plain = type(model).generate
    if kwargs.get("custom_generate") is not None:
        return plain(model, *args, **kwargs)
    try:
        from tasc.serving.drafting import drafted
    except ImportError:
        _warn(model, "tasc is not installed")
        return plain(model, *args, **kwargs)
    return drafted(plain, model, lambda why: _warn(model, why), args, kwargs)


def _warn(model: Any, why: str) -> None:  # noqa: ANN401
    """Warn once per process and model."""
    name = str(model.name_or_path)
    if name not in _warned:
        _warned.add(name)
        warnings.warn(f"{name}: {why}: generating without drafts", stacklevel=3)
