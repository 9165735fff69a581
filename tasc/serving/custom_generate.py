"""``generate`` of an exported model: it drafts where tasc is installed, and is plain elsewhere.

transformers runs a copy of this file, ``custom_generate/generate.py`` in the model's folder, in
position of the model's own ``generate``. So nothing of tasc is imported at the top.
"""

import warnings
from typing import Any

_said: set[str] = set()


def generate(*args: Any, model: Any, **kwargs: Any) -> Any:  # noqa: ANN401
    """Generate as ``model`` would: the same arguments, the same result."""
    plain = type(model).generate
    if kwargs.get("custom_generate") is not None:
        return plain(model, *args, **kwargs)
    try:
        from tasc.serving.drafting import drafted
    except ImportError:
        _say(model, "tasc is not installed")
        return plain(model, *args, **kwargs)
    return drafted(plain, model, lambda why: _say(model, why), args, kwargs)


def _say(model: Any, why: str) -> None:  # noqa: ANN401
    """Warn once a process, whatever the reason."""
    name = str(model.name_or_path)
    if name not in _said:
        _said.add(name)
        warnings.warn(f"{name}: {why}: generating without drafts", stacklevel=3)
