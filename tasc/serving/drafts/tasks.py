"""Several tasks in one engine: an index for each, chosen by a tag in the prompt.

Engines pass a plug-in no more than the tokens of a request: neither its model name nor its adapter.
So the text of a prompt's beginning decides. Tasks share no drafter, index or learnt output.
"""

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from tasc.data.foreign import text_of
from tasc.decoding.drafters import Factory
from tasc.decoding.drafters.ngram.index import FILE
from tasc.errors import InputError, TascError
from tasc.serving.drafts.state import memory_of, teach
from tasc.tokenizer.loaded import LoadedTokenizer

EVERY = 1.0  # seconds between two checks for changed files
WINDOW = 256  # first tokens of a prompt, in which its tag is found
TAG = ".txt"  # of the file with a task's tag, next to the task's index folder
Stamp = tuple[int, int, int]  # changes with the file
_log = logging.getLogger("vllm.tasc")


class Tasks:
    """Drafter factories by the name of their task, kept up to date with the files.

    The task "" has the indexes in ``plain``, and all prompts without a tag. The other tasks are the
    index folders in ``folder``; the tag of ``sql/`` is the text in ``sql.txt``, or ``[sql]``.
    """

    def __init__(
        self,
        make: Callable[[Sequence[Path]], Factory],
        tokenizer: LoadedTokenizer,
        plain: Sequence[Path],
        folder: Path | None,
    ) -> None:
        """Load all indexes; ``make`` builds the factory of some index folders.

        Raises InputError if the folder is missing, an index cannot be used, or tasks share a tag.
        """
        if folder is not None and not folder.is_dir():
            raise InputError(f"tasks: {folder} is not a folder: create it, or name another one")
        self.make, self.tokenizer, self.plain, self.folder = make, tokenizer, plain, folder
        self.clock = time.monotonic
        self.next = self.clock() + EVERY
        self.factories: dict[str, Factory] = {}
        self.tags: dict[str, str] = {}
        self.stamps: dict[str, list[Stamp | None]] = {}
        for name in dict.fromkeys(["", *self._changed()]):
            self._load(name)

    def poll(self) -> bool:
        """Return whether factories changed, at most once per ``EVERY`` seconds.

        An index that cannot be used causes a warning, and changes nothing.
        """
        now = self.clock()
        if now < self.next:
            return False
        self.next = now + EVERY
        changed = self._changed()
        removed = [name for name in self.tags if name not in self.stamps]
        for name in removed:
            del self.tags[name], self.factories[name]
            _log.info("task %s was removed", name)
        if not (changed or removed):
            return False
        # A refused task is tried again, as another one with its tag may have gone.
        asked = [name for name in self.stamps if name in changed or name not in self.factories]
        loaded = [name for name in asked if self._reload(name)]
        return bool(loaded or removed)

    def route(self, prompt: np.ndarray) -> str:
        """Return the task of ``prompt`` (T,): that of the first tag, and of the longest there."""
        if not self.tags:
            return ""
        size = len(self.tokenizer.vocabulary())
        text = self.tokenizer.decode([t for t in prompt[:WINDOW].tolist() if 0 <= t < size])
        places = [(text.find(tag), -len(tag), name) for name, tag in self.tags.items()]
        return min((one for one in places if one[0] >= 0), default=(0, 0, ""))[2]

    def _changed(self) -> list[str]:
        """Return the tasks whose files changed, and remember them."""
        indexes = {"": [folder / FILE for folder in self.plain]}
        if self.folder is not None:
            indexes |= {file.parent.name: [file] for file in self.folder.glob(f"*/{FILE}")}
        changed = []
        for name, files in sorted(indexes.items()):
            stamps = [_stamp(file) for file in files]
            if None in stamps:  # about to be replaced
                continue
            whole = [*stamps, _stamp(self._tag_file(name)) if name else None]
            if whole != self.stamps.get(name):
                self.stamps[name] = whole
                changed.append(name)
        self.stamps = {name: self.stamps[name] for name in self.stamps if name in indexes}
        return changed

    def _tag_file(self, name: str) -> Path:
        assert self.folder is not None
        return self.folder / f"{name}{TAG}"

    def _reload(self, name: str) -> bool:
        """Load a task again and return True, or log why that fails."""
        try:
            self._load(name)
        except (TascError, OSError) as error:
            _log.warning("%s: the new index is not used: %s", name or "index", error)
            return False
        return True

    def _load(self, name: str) -> None:
        """Load the indexes of a task; it keeps the outputs that it has learnt."""
        if name and self.folder is not None:
            file = self._tag_file(name)
            tag = text_of(file.read_bytes(), str(file)).strip() if file.is_file() else f"[{name}]"
            if not tag or tag in (t for n, t in self.tags.items() if n != name):
                raise InputError(
                    f"{file}: the tag {tag!r} is empty or another task's: write one of its own"
                )
            factory = self.make([self.folder / name])
            self.tags[name] = tag
            _log.info("task %s: requests with %r in the first %d tokens", name, tag, WINDOW)
        else:
            factory = self.make(self.plain)
        if name in self.factories and (old := memory_of(self.factories[name])):
            teach(factory, old.outputs)
        self.factories[name] = factory


def _stamp(file: Path) -> Stamp | None:
    try:
        stat = file.stat()
    except OSError:  # deleted, or about to be replaced
        return None
    return stat.st_ino, stat.st_mtime_ns, stat.st_size
