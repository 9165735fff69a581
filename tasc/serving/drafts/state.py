"""What drafters learnt from finished requests, in one file: the recent outputs of each task.

The file is a safetensors file with two int32 tensors per task: the tokens of its outputs, and their
lengths. It contains private data, so only its owner can read it.
"""

import atexit
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from tasc.decoding.drafters import Factory
from tasc.decoding.drafters.ngram.tasc_spec import Memory
from tasc.errors import InputError
from tasc.files.disk import replacing
from tasc.tokenizer.loaded import LoadedTokenizer

FORMAT, VERSION = "tasc-learnt-outputs", "1"
EVERY = 60.0  # seconds between two writes
MOST_BYTES = 1 << 28  # of a file that is read
Outputs = Mapping[str, Iterable[np.ndarray]]  # by task, each (T,) int32


def memory_of(factory: Factory) -> Memory | None:
    """Return the outputs that the drafters of ``factory`` share; None if they learn nothing."""
    memory: Memory | None = getattr(getattr(factory(), "learnt", None), "memory", None)
    return memory


def teach(factory: Factory, outputs: Iterable[np.ndarray]) -> None:
    """Let the drafters of ``factory`` know ``outputs``, oldest first."""
    if (memory := memory_of(factory)) is not None:
        for output in outputs:
            memory.add(output)


class State:
    """Writes the learnt outputs to a file, once per ``EVERY`` seconds and at the end."""

    def __init__(
        self, file: Path, tokenizer: LoadedTokenizer, outputs: Callable[[], Outputs]
    ) -> None:
        self.file, self.tokenizer, self.outputs = file, tokenizer, outputs
        self.clock = time.monotonic
        self.next, self.known, self.saved = self.clock() + EVERY, 0, 0
        atexit.register(self.finish)

    def record(self, outputs: int) -> None:
        """Write the file if it is time and ``outputs``, the number of outputs so far, has grown."""
        self.known = outputs
        if self.known > self.saved and self.clock() >= self.next:
            self.finish()

    def finish(self) -> None:
        """Write the file now, if there is anything new; log a failure."""
        if self.known == self.saved:
            return
        self.next = self.clock() + EVERY
        try:
            write_state(self.file, self.outputs(), self.tokenizer)
            self.saved = self.known
        except OSError as error:
            logging.getLogger("vllm.tasc").warning("cannot write %s: %s", self.file, error)


def write_state(file: Path, outputs: Outputs, tokenizer: LoadedTokenizer) -> None:
    """Replace ``file`` in one move. Raises OSError if the system refuses."""
    tensors, size = {}, len(tokenizer.vocabulary())
    for name, some in outputs.items():
        parts = [p for p in (np.asarray(o, np.int32) for o in some) if p.max(initial=0) < size]
        tensors[f"{name}/tokens"] = np.concatenate([np.empty(0, np.int32), *parts])
        tensors[f"{name}/lengths"] = np.array([len(part) for part in parts], np.int32)
    with replacing(file) as new:
        new.touch(0o600)
        new.write_bytes(save(tensors, metadata=_marks(tokenizer)))


def _marks(tokenizer: LoadedTokenizer) -> dict[str, str]:
    return {"format": FORMAT, "version": VERSION, "tokenizer": tokenizer.identity.hex()}


def read_state(file: Path, tokenizer: LoadedTokenizer) -> dict[str, list[np.ndarray]]:
    """Return the outputs by task; none if there is no such file yet.

    Raises InputError if the file is damaged, too large, or of another tokenizer or version.
    """
    if not file.exists():
        return {}
    try:
        if file.stat().st_size > MOST_BYTES:
            raise ValueError(f"it has {file.stat().st_size:,} bytes")
        with safe_open(file, "np") as opened:
            if opened.metadata() != _marks(tokenizer):
                raise ValueError("it has another format, version or tokenizer")
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
        names = [name.removesuffix("/tokens") for name in tensors if name.endswith("/tokens")]
        size = len(tokenizer.vocabulary())
        return {n: _split(tensors[f"{n}/tokens"], tensors[f"{n}/lengths"], size) for n in names}
    except (OSError, SafetensorError, ValueError, TypeError, KeyError) as error:
        raise InputError(
            f"state: cannot use {file} ({error}): delete it, or name another file"
        ) from None


def _split(tokens: np.ndarray, lengths: np.ndarray, size: int) -> list[np.ndarray]:
    """Return the outputs. Raises ValueError for wrong lengths, or ids not below ``size``."""
    flat = tokens.dtype == lengths.dtype == np.int32 and tokens.ndim == lengths.ndim == 1
    if not flat or lengths.min(initial=1) < 1 or int(lengths.sum(dtype=np.int64)) != len(tokens):
        raise ValueError("its lengths are wrong")
    if len(tokens) and not (tokens.min() >= 0 and tokens.max() < size):
        raise ValueError("it contains tokens that the tokenizer lacks")
    return np.split(tokens, np.cumsum(lengths)[:-1]) if len(lengths) else []
