"""What the window of MicroSpec is, in ten lines: the definition that all windows are held to."""

from collections.abc import Iterable, Iterator, Sequence


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
