"""``tasc serve`` on an exported folder: the command that starts the installed engine."""

import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tasc.environment import requirement
from tasc.errors import InputError, UnavailableError
from tasc.models.folder.files import read_json
from tasc.serving import hook
from tasc.serving.options import ExportOptions, ServeOptions
from tasc.serving.parts import CONSTRAINT_FILES, Start
from tasc.serving.table import EXPORTS, Entry

SERVER = ("starlette", "uvicorn", "prometheus_client")


def command(options: ServeOptions) -> list[str]:
    """Return the command to run inside the folder, as words.

    It is built from the values in export.json; no command is read from a file. Raises InputError if
    the folder is not an export, or its engine is a library, and UnavailableError if the engine is
    not installed, or this version cannot load the drafter.
    """
    folder = Path(options.folder)
    file = folder / ExportOptions.spec.result_file
    if not file.is_file():
        raise InputError(f"{folder} is not a folder of tasc export: create one with tasc export")
    content = read_json(file, f"export {folder}")
    stored = ("name", "drafts", "speculative_tokens", "exact")
    values: list[Any] = [content.get(key) for key in stored]
    name, drafts, tokens, exact = values
    entry = EXPORTS.get(str(content.get("to")))
    flags = isinstance(drafts, bool) and isinstance(exact, bool) and isinstance(tokens, int)
    settings = content.get("settings", {})
    penalty = settings.get("repetition_penalty", 1.0) if isinstance(settings, dict) else None
    flags = flags and type(penalty) in (int, float)
    # The name becomes an argument of a program: no option, NUL or lone surrogate.
    plain = isinstance(name, str) and name.isprintable() and not name.startswith("-")
    if entry is None or not plain or not flags:
        raise InputError(f"{file} is damaged: create the folder again with tasc export")
    constraint = {n: path for n, path in CONSTRAINT_FILES.items() if (folder / path).is_file()}
    if isinstance(regex := content.get("regex"), str):
        constraint["regex"] = regex
    start = Start(
        name=name,
        drafts=drafts,
        speculative_tokens=tokens,
        exact=exact,
        host=options.host,
        port=options.port,
        constraint=constraint,
        repetition_penalty=float(penalty or 1),
    )
    words = entry.format.command(start)
    if not words:
        raise InputError(
            f"{entry.label} is a library, not a server: run the code in {folder / 'README.md'}"
        )
    words = _installed(words, entry)
    if content["to"] == "vllm":
        if problem := hook.device_problem(hook.installed()):
            raise UnavailableError(f"vLLM cannot start: {problem}")
        if start.drafts and (problem := hook.problem(hook.installed())):
            raise UnavailableError(f"vLLM cannot draft: {problem}, or export without --index")
    return words


def check_server() -> None:
    """Raise UnavailableError if tasc's own server is not installed."""
    if missing := [name for name in SERVER if find_spec(name) is None]:
        raise UnavailableError(
            f"tasc's own server needs {missing[0]}: type pip install 'tasc-lm[serve]'"
        )


def _installed(words: list[str], entry: Entry) -> list[str]:
    """Return the command with this Python, which must not import modules from the folder."""
    install = entry.installed_by(requirement())[0]
    if words[0] != "python":
        if shutil.which(words[0]) is None:
            raise UnavailableError(f"{words[0]} is not on PATH: {install}")
        return words
    module = words[words.index("-m") + 1].partition(".")[0]
    if find_spec(module) is None:
        raise UnavailableError(f"{entry.label} is not installed next to tasc: type {install}")
    return [sys.executable, "-P", *words[1:]]
