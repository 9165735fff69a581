"""The list of new tokens, as the search found them and as ``merges.json`` keeps them."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tasc.errors import InputError, IntegrityError

MERGES_FILE = "merges.json"


@dataclass(frozen=True)
class NewToken:
    """One token that a tokenizer gained, in order of acceptance."""

    ids: tuple[int, ...]  # what it was merged from: base ids and earlier new ids
    new_id: int
    string: str
    frequency: int  # weighted, non-overlapping, in the training outputs at that round
    reward: int  # frequency * (len(ids) - 1)
    pcs: float
    base_ids: tuple[int, ...]  # the same text in base tokens: the mean of their rows starts its row


def write_merges(folder: Path, tokens: Iterable[NewToken]) -> None:
    """Write ``merges.json`` into the folder."""
    text = json.dumps({"merges": [asdict(token) for token in tokens]}, ensure_ascii=False)
    (folder / MERGES_FILE).write_text(text + "\n", encoding="utf-8")


def read_merges(folder: Path) -> list[NewToken]:
    """Return the new tokens of an augmented tokenizer's folder, in order of acceptance.

    Raises InputError when the folder has no merges.json, IntegrityError when it cannot be read.
    """
    path = folder / MERGES_FILE
    if not path.is_file():
        raise InputError(f"{folder}: no {MERGES_FILE} here; give a folder that `augment` wrote")
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))["merges"]
        return [_token(entry) for entry in entries]
    except (ValueError, LookupError, TypeError, OverflowError, RecursionError) as error:
        raise IntegrityError(
            f"{path} is not a list of merges ({error}): run `augment` again"
        ) from None


def _token(entry: dict[str, Any]) -> NewToken:
    return NewToken(
        ids=tuple(map(int, entry["ids"])),
        new_id=int(entry["new_id"]),
        string=str(entry["string"]),
        frequency=int(entry["frequency"]),
        reward=int(entry["reward"]),
        pcs=float(entry["pcs"]),
        base_ids=tuple(map(int, entry["base_ids"])),
    )
