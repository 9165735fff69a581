"""Do two runs on the same samples have the same prompts?"""

from collections.abc import Iterator, Sequence
from operator import ne
from os.path import commonprefix

from tasc.benchmark.results.bench import BenchResults

_SHOWN = 30  # characters


def prompt_notes(old: BenchResults, new: BenchResults) -> Iterator[str]:
    """Yield a line if prompts of the same samples differ, with the cause where it is known."""
    before, after = ([sample.prompt_id for sample in bench.samples] for bench in (old, new))
    count = different(before, after)
    if not count:
        return
    templates = old.task.template, new.task.template
    cause = "a chat template that writes the date, or another chat template"
    if templates[0] != templates[1]:
        cause = f"--template is {templates[1]!r:.80}, was {templates[0]!r:.80}"
    shown = next(_differences(old, new), "")
    yield f"{count:,} of {len(after):,} prompts of the same samples differ{shown}: {cause}"


def different(before: Sequence[str], after: Sequence[str]) -> int:
    """Count the prompts that differ, by their ids, of two runs on the same samples."""
    return sum(map(ne, before, after))


def _differences(old: BenchResults, new: BenchResults) -> Iterator[str]:
    """Yield the first differing words of the prompts that are stored."""
    for first, second in zip(old.samples, new.samples, strict=True):
        was, now = first.prompt, second.prompt
        if was is None or now is None or was == now:
            continue
        at = len(commonprefix([was, now]))  # noqa: RUF071 - texts, not paths
        begin = max(was.rfind(" ", 0, at), was.rfind("\n", 0, at), at - _SHOWN) + 1
        words = [text[begin : begin + _SHOWN] for text in (now, was)]
        yield f" ({words[0]!r}, was {words[1]!r})"
