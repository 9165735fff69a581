"""The counts of a part of a split as files: arrays in safetensors, and sorted runs."""

import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from tasc.analysis.counted import Counted, CountedSide
from tasc.analysis.outputs import Distinct
from tasc.backend import CountedWords
from tasc.backend.base import Int64, UInt8
from tasc.errors import IntegrityError

FILE = "counted.safetensors"
_RUN = re.compile(r"(input|output)\.(words|tokens)-[0-9]+")  # a file of the same folder
_WORDS = ("letters", "ends", "first", "last")
_DTYPES = {"letters": np.uint8, "ends": np.int64, "first": np.int32, "last": np.int32}
_DTYPES |= {"weights": np.int64, "hashes": np.uint64}


def save_counted(counted: Counted, folder: Path) -> None:
    """Write the counts into ``folder``, and move their runs there."""
    arrays = {
        **_packed("sample", counted.sample.texts),
        "sample.weights": counted.sample.weights,
        "sample.hashes": counted.hashes,
        **_packed("rows", [text for row in counted.rows for text in row[1:]]),
        "rows.hashes": np.array([row[0] for row in counted.rows], np.uint64),
    }
    facts: dict[str, Any] = {"samples": counted.samples, "dropped": counted.dropped}
    for name, side in (("input", counted.input), ("output", counted.output)):
        arrays |= {f"{name}.{part}": getattr(side.words, part) for part in _WORDS}
        facts[name] = {
            "total": side.total,
            "tokens": side.tokens,
            "text_bytes": side.text_bytes,
            "longest": side.longest,
            "words": [run.name for run in side.words.runs],
            "runs": [run.name for run in side.runs],
        }
        for run in (*side.words.runs, *side.runs):
            shutil.move(run, folder / run.name)
    save_file(arrays, folder / FILE, metadata={"facts": json.dumps(facts)})


def load_counted(folder: Path) -> Counted:
    """Read counts; their runs stay in ``folder``, and are checked when they are merged.

    Raises IntegrityError if a file is missing or damaged.
    """
    try:
        with safe_open(folder / FILE, framework="numpy") as held:
            arrays = {name: held.get_tensor(name) for name in held.keys()}  # noqa: SIM118
            facts = json.loads((held.metadata() or {})["facts"])
        for name, array in arrays.items():
            if array.dtype != _DTYPES[name.partition(".")[2]] or array.ndim != 1:
                raise ValueError(f"{name} is {array.dtype} {array.shape}")
        texts = _unpacked("rows", arrays)
        hashes = arrays["rows.hashes"].tolist()
        weights = arrays["sample.weights"]
        sample = Distinct(_unpacked("sample", arrays), weights)
        if len(sample.texts) != len(weights) or weights.min(initial=1) < 1:
            raise ValueError("texts and weights do not fit together")
        return Counted(
            _number(facts["samples"]),
            _number(facts["dropped"]),
            _side("input", folder, facts["input"], arrays),
            _side("output", folder, facts["output"], arrays),
            sample,
            arrays["sample.hashes"],
            list(zip(hashes, texts[::2], texts[1::2], strict=True)),
        )
    except (SafetensorError, OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        raise IntegrityError(
            f"{folder / FILE} is damaged ({error}): run the command that made it again"
        ) from None


def _side(
    name: str, folder: Path, facts: dict[str, Any], arrays: dict[str, np.ndarray]
) -> CountedSide:
    runs = {kind: [_run(folder, run) for run in facts[kind]] for kind in ("words", "runs")}
    words = CountedWords(**{part: arrays[f"{name}.{part}"] for part in _WORDS}, runs=runs["words"])
    numbers = (_number(facts[kind]) for kind in ("tokens", "text_bytes", "longest"))
    return CountedSide(words, _number(facts["total"]), runs["runs"], *numbers)


def _run(folder: Path, name: str) -> Path:
    if not _RUN.fullmatch(name) or not (folder / name).is_file():
        raise ValueError(f"no run {name!r}")
    return folder / name


def _number(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} counts nothing")
    return value


def _packed(name: str, texts: Sequence[str]) -> dict[str, UInt8 | Int64]:
    """Return texts as UTF-8 end to end, and where each ends."""
    letters = [text.encode() for text in texts]
    return {
        f"{name}.letters": np.frombuffer(b"".join(letters), np.uint8),
        f"{name}.ends": np.cumsum([len(text) for text in letters], dtype=np.int64),
    }


def _unpacked(name: str, arrays: dict[str, np.ndarray]) -> list[str]:
    letters, ends = arrays[f"{name}.letters"].tobytes(), arrays[f"{name}.ends"].tolist()
    if (
        sorted(ends) != ends
        or (ends[-1] if ends else 0) != len(letters)
        or min(ends, default=0) < 0
    ):
        raise ValueError(f"texts of {name} do not end where they should")
    return [letters[a:b].decode() for a, b in zip([0, *ends], ends, strict=False)]
