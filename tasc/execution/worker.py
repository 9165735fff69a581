"""The common parts of executors with workers: a worker's job, and the queue of pieces."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tasc.errors import TascError
from tasc.execution import MOST_LOSSES

Outcome = tuple[Any, Exception | None]


@dataclass(frozen=True)
class Piece:
    """A task, its number, and how many workers have died on it."""

    number: int
    task: Any
    losses: int = 0


class Queue:
    """Pieces that wait for a worker; pieces whose worker died come first."""

    def __init__(self, tasks: Iterable[Any]) -> None:
        self._tasks: Iterator[tuple[int, Any]] = enumerate(tasks)
        self._lost: deque[Piece] = deque()

    def next(self) -> Piece | None:
        """Return the next piece; None if there is none at present."""
        if self._lost:
            return self._lost.popleft()
        return next((Piece(number, task) for number, task in self._tasks), None)

    def lose(self, piece: Piece) -> None:
        """Return a piece whose worker died; TascError if it happens MOST_LOSSES times."""
        if piece.losses + 1 >= MOST_LOSSES:
            raise TascError(
                f"{MOST_LOSSES} workers died on the same piece of work, perhaps because memory is "
                "short: use fewer workers"
            )
        self._lost.append(Piece(piece.number, piece.task, piece.losses + 1))


def prepare() -> None:
    """Prepare a worker process: with many of them, each tokenizer uses one thread."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"


def outcome(work: Callable[[Any, Any], Any], shared: object, task: object) -> Outcome:
    """Return the result of ``work``, or its exception."""
    try:
        return work(shared, task), None
    except Exception as error:
        return None, error
