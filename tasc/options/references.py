"""References to folders and files, ``PATH`` or ``LABEL=PATH``, and to the models in artefacts."""

from pathlib import Path
from typing import Any

from tasc.errors import InputError
from tasc.files.artefact import MANIFEST, read_manifest

_TRAINING = ("base", "finetune")  # commands that train a model


def parse_label(text: str) -> tuple[str, str]:
    """Split ``LABEL=PATH`` into (label, path); the label is "" if there is none.

    A path may contain "=" too: a label has no "/", and text that is an existing path has no label.
    """
    label, separator, path = text.partition("=")
    if not separator or "/" in label or Path(text).exists():
        return "", text
    return label, path


def parse_path(text: str) -> tuple[str, str]:
    """Split ``LABEL=PATH`` like ``parse_label``. Raises InputError if the path is empty."""
    label, path = parse_label(text)
    if not path:
        raise InputError(f"{text!r} has no path: write a folder or file after the =")
    return label, path


def join(label: str, path: str) -> str:
    """Return ``LABEL=PATH``, or the path alone; the inverse of ``parse_label``."""
    return f"{label}={path}" if label else path


def expand_user(text: str) -> str:
    """Return ``PATH`` or ``LABEL=PATH`` with a leading ~ of the path expanded.

    Raises InputError if there is no such user.
    """
    label, path = parse_label(text)
    return join(label, str(expanded(Path(path)))) if path.startswith("~") else text


def expanded(path: Path) -> Path:
    """Return ``path`` with a leading ~ expanded. Raises InputError if there is no such user."""
    try:
        return path.expanduser()
    except RuntimeError:
        raise InputError(f"{path}: no such home folder: give the full path") from None


def beside(path: str, folder: Path) -> str:
    """Return ``path`` in ``folder`` if something is there, else as it is."""
    return str(folder / path) if path and (folder / path).exists() else path


def resolve_model(text: str) -> tuple[str, str]:
    """Split ``LABEL=PATH`` and find the plain model in an artefact.

    Returns (label, model folder or Hub id). Raises InputError for an artefact without one.
    """
    label, path = parse_path(text)
    folder = Path(path)
    label = label or folder.name or path
    if not (folder / MANIFEST).is_file():
        return label, path
    if plain_model := _plain_model(folder):
        return label, str(plain_model)
    if (folder / "adapter").is_dir():
        raise InputError(
            f"{folder} contains an adapter but no plain model: run tasc finetune with --merge"
        )
    raise InputError(
        f"{folder} contains no model: tasc {read_manifest(folder)['command']} wrote it; give the "
        "output of tasc base or tasc finetune --merge, or a model folder"
    )


def trained_template(text: str) -> str | None:
    """Return the prompt template that tasc trained a model with; None if it is not recorded."""
    source = (training_arguments(text) or {}).get("source")
    return source.get("template") if isinstance(source, dict) else None


def training_arguments(text: str) -> dict[str, Any] | None:
    """Return the options of the command that trained a model; None if tasc did not train it."""
    folder = Path(parse_path(text)[1])
    artefact = folder if (folder / MANIFEST).is_file() else folder.parent
    manifest = read_manifest(artefact) if (artefact / MANIFEST).is_file() else {}
    arguments = manifest.get("arguments")
    trained = manifest.get("command") in _TRAINING and isinstance(arguments, dict)
    return arguments if trained else None


def resolve_tokenizer(text: str) -> str:
    """Return the folder or Hub id of a tokenizer: a model's, or one without a model."""
    path = parse_path(text)[1]
    return str(_plain_model(Path(path)) or path)


def _plain_model(folder: Path) -> Path | None:
    """Return the plain model folder in an artefact; None if there is none."""
    parts = (folder, folder / "model")
    return next((part for part in parts if (part / "config.json").is_file()), None)


def results_file(path: str) -> Path:
    """Return a file, or the ``results.json`` of a folder. Raises InputError if there is none."""
    file = Path(path)
    file = file / "results.json" if file.is_dir() else file
    if not file.is_file():
        raise InputError(f"{file} does not exist: give the output folder of tasc bench")
    return file
