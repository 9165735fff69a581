"""What the window of MicroSpec is, in ten lines: the definition that all windows are held to."""

from collections.abc import Iterable, Iterator, Sequence

import torch

from tasc.decoding.drafters.heads.draft_vocab.window import Window


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


class Slots:
    """The slot of each token: it keeps it while it is in the window; new ones take the first."""

    def __init__(self, vocabulary: int, size: int) -> None:
        self.vocabulary, self.ids, self.stream = vocabulary, [-1] * size, list[int]()

    def push(self, tokens: Sequence[int], unique: bool) -> None:
        real = [token for token in tokens if 0 <= token < self.vocabulary]
        distinct = list(dict.fromkeys(real))
        self.stream = [*self.stream, *(distinct if unique else real)][-len(self.ids) :]
        self.ids = [token if token in self.stream else -1 for token in self.ids]
        for token in distinct:
            if token in self.stream and token not in self.ids:
                self.ids[self.ids.index(-1)] = token

    def check(self, found: Window, weight: torch.Tensor, buffer: torch.Tensor) -> None:
        used = [slot for slot, token in enumerate(self.ids) if token >= 0]
        assert found.ids.tolist() == self.ids
        assert torch.equal(buffer[used], weight[[self.ids[slot] for slot in used]])
        assert found.held[used].tolist() == found.ids[used].tolist()
        assert found.state[2:].tolist() == [len(used), found.extent]
        assert found.extent == max(used, default=-1) + 1
