"""What the window of MicroSpec is: ten lines of Python, then with slots and rows in torch."""

from collections.abc import Iterable, Iterator, Sequence

import torch


def vocabularies(
    prompt: Sequence[int],
    prefill_top: Sequence[int],
    steps: Iterable[tuple[Sequence[int], Sequence[int]]],
    size: int,
) -> Iterator[set[int]]:
    """Yield the active vocabulary I before each step: equations 2 to 4, section 3.2.

    ``prefill_top`` are the top-K_pre tokens after each position of the prompt, in order; a step is
    the tokens of its draft tree and the top-K_ver tokens of the target. Of tokens that come
    together, repetitions are dropped, except in the prompt.
    """
    stream = [*prompt, *dict.fromkeys(prefill_top)]
    yield set(stream[-size:])
    for drafted, top in steps:
        stream += [*dict.fromkeys(drafted), *dict.fromkeys(top)]
        yield set(stream[-size:])


class TorchWindow:
    """The window in plain torch: the definition of what the kernels do, and their stand-in.

    ``ids`` (size,) int32 is the token of each slot, -1 where it is free. A token keeps its slot as
    long as it is in the window; new ones take the first free slots in their order.
    """

    def __init__(self, vocabulary: int, size: int, device: torch.device | str = "cpu") -> None:
        """Open an empty window over the last ``size`` tokens, of ids below ``vocabulary``."""
        self.vocabulary, self.size = vocabulary, size
        self.stream = torch.empty(0, dtype=torch.int32, device=device)
        self.ids = torch.full((size,), -1, dtype=torch.int32, device=device)
        self.held = self.ids.clone()

    @property
    def memory(self) -> tuple[torch.Tensor, ...]:
        """All that a push or a gather writes to, and does not make itself."""
        return self.ids, self.held

    def push(self, tokens: torch.Tensor, unique: bool) -> None:
        """Append ``tokens`` (m,) int32, with ``unique`` only the first of those that are alike."""
        tokens = tokens[(tokens >= 0) & (tokens < self.vocabulary)]
        distinct = _first_of_each(tokens)
        self.stream = torch.cat([self.stream, distinct if unique else tokens])[-self.size :]
        self.ids[~torch.isin(self.ids, self.stream)] = -1
        new = distinct[torch.isin(distinct, self.stream) & ~torch.isin(distinct, self.ids)]
        free = (self.ids < 0).nonzero()[:, 0]
        self.ids[free[: len(new)]] = new

    def gather(self, weight: torch.Tensor, buffer: torch.Tensor) -> None:
        """Copy the rows of ``weight`` (V, d) that ``buffer`` (size, d) does not hold yet."""
        due = (self.ids >= 0) & (self.ids != self.held)
        buffer[due] = weight[self.ids[due].long()]
        self.held[due] = self.ids[due]

    @property
    def extent(self) -> int:
        """One more than the last slot in use."""
        used = (self.ids >= 0).nonzero()[:, 0]
        return int(used[-1]) + 1 if len(used) else 0

    @property
    def active(self) -> int:
        """Tokens in the window."""
        return int((self.ids >= 0).sum())


def _first_of_each(tokens: torch.Tensor) -> torch.Tensor:
    """Return the distinct ``tokens`` in the order in which they first occur."""
    values, which = torch.unique(tokens, return_inverse=True)
    at = torch.arange(len(tokens), device=tokens.device)
    first = at.new_full((len(values),), len(tokens)).scatter_reduce(0, which, at, "amin")
    return tokens[first.sort().values]
