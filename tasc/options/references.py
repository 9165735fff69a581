"""What a person writes for a folder, ``PATH`` or ``LABEL=PATH``, and what tasc wrote into one."""

from pathlib import Path

from tasc.errors import InputError
from tasc.files.artefact import MANIFEST, read_manifest


def parse_label(text: str) -> tuple[str, str]:
    """Split ``LABEL=PATH`` into (label, path); the label is "" where there is none.

    A path may hold "=", too: a label has no "/", and whatever exists as it stands is a path.
    """
    label, found, path = text.partition("=")
    if not found or "/" in label or Path(text).exists():
        return "", text
    return label, path


def parse_path(text: str) -> tuple[str, str]:
    """Do as ``parse_label`` for a folder or file. Raises InputError where none is named."""
    label, path = parse_label(text)
    if not path:
        raise InputError(f"{text!r} names no folder or file: write it behind the label")
    return label, path


def join(label: str, path: str) -> str:
    """Write ``LABEL=PATH``, or the path alone: what ``parse_label`` splits."""
    return f"{label}={path}" if label else path


def expand_user(text: str) -> str:
    """Return ``PATH`` or ``LABEL=PATH`` with a leading ~ of the path written out.

    Raises InputError where ~ names somebody who is not there.
    """
    label, path = parse_label(text)
    return join(label, str(expanded(Path(path)))) if path.startswith("~") else text


def expanded(path: Path) -> Path:
    """Return ``path`` with a leading ~ written out. Raises InputError where nobody is named so."""
    try:
        return path.expanduser()
    except RuntimeError:
        raise InputError(f"{path}: no such home folder: write the path out") from None


def resolve_model(text: str) -> tuple[str, str]:
    """Split ``label=path`` and find the plain model folder inside an artefact.

    Returns (label, folder or Hub id). Raises InputError for an artefact without a plain model.
    """
    label, path = parse_path(text)
    folder = Path(path)
    label = label or folder.name or path
    if not (folder / MANIFEST).is_file():
        return label, path
    if found := _plain_model(folder):
        return label, str(found)
    if (folder / "adapter").is_dir():
        raise InputError(
            f"{folder} holds an adapter but no plain model: run tasc finetune with --merge"
        )
    raise InputError(
        f"{folder} holds no model: tasc {read_manifest(folder)['command']} wrote it; name a folder "
        "of tasc base, of tasc finetune --merge, or of a model"
    )


def trained_template(text: str) -> str | None:
    """Return the template of the prompts that tasc trained a model on, where its folder tells."""
    folder = Path(parse_path(text)[1])
    made = folder if (folder / MANIFEST).is_file() else folder.parent
    if not (made / MANIFEST).is_file():
        return None
    source = read_manifest(made).get("arguments", {}).get("source")
    return source.get("template") if isinstance(source, dict) else None


def resolve_tokenizer(text: str) -> str:
    """Do as ``resolve_model`` where a tokenizer alone will do: return folder or Hub id.

    What tasc augment wrote holds no model.
    """
    path = parse_path(text)[1]
    return str(_plain_model(Path(path)) or path)


def _plain_model(folder: Path) -> Path | None:
    """Return the plain model folder inside an artefact, None where there is none."""
    parts = (folder, folder / "model")
    return next((part for part in parts if (part / "config.json").is_file()), None)


def results_file(path: str) -> Path:
    """Return a file, or the ``results.json`` of a folder. Raises InputError where it is none."""
    position = Path(path)
    file = position / "results.json" if position.is_dir() else position
    if not file.is_file():
        raise InputError(f"{file} is not there: name the folder of a tasc bench, or run it")
    return file
