"""What all executors with workers share: what a worker does, and pieces that wait for one."""

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
    """A task with its number, and how many workers it has cost."""

    number: int
    task: Any
    losses: int = 0


class Queue:
    """Pieces that wait for a worker: those that lost theirs first."""

    def __init__(self, tasks: Iterable[Any]) -> None:
        """Tasks are taken one by one, as workers are free."""
        self._tasks: Iterator[tuple[int, Any]] = enumerate(tasks)
        self._lost: deque[Piece] = deque()

    def next(self) -> Piece | None:
        """Return the next piece; None where none is left for now."""
        if self._lost:
            return self._lost.popleft()
        return next((Piece(number, task) for number, task in self._tasks), None)

    def lose(self, piece: Piece) -> None:
        """Take back a piece whose worker is gone; TascError where that is no accident."""
        if piece.losses + 1 >= MOST_LOSSES:
            raise TascError(
                f"{MOST_LOSSES} workers died on the same piece of work, perhaps for lack of "
                "memory: use fewer --workers"
            )
        self._lost.append(Piece(piece.number, piece.task, piece.losses + 1))


def prepare() -> None:
    """Begin a worker: it is one of many, so its tokenizer uses one thread."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"


def outcome(work: Callable[[Any, Any], Any], shared: object, task: object) -> Outcome:
    """Return what ``work`` returns, or what it raises."""
    try:
        return work(shared, task), None
    except Exception as error:
        return None, error
