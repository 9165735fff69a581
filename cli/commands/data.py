"""``tasc data``: show examples as the model sees them."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.text import Text

from tasc.commands.inspect_data import DataOptions, DataReport, Sample, inspect_data
from tasc.visible import visible_line

from .._console import out, print_json, say, table
from .._derive import RunFlags

_SEPARATOR = "│"
# Text and background colours, readable on light and dark terminals.
_SHADES = {
    "cut": ("#5a5a5a on #e3e3e3", "#5a5a5a on #cfcfcf"),
    "read": ("#1d2733 on #dbe4ee", "#1d2733 on #b9cbdd"),
    "learnt": ("#12331d on #c9ecd4", "#12331d on #97d3ab"),
}
_SHOWN = 300  # tokens; of a longer part, only both ends are shown
_MEANINGS = {"cut": "not seen in training", "read": "without loss", "learnt": "with loss"}


def run(options: DataOptions, flags: RunFlags) -> None:
    """Print examples and their lengths."""
    report = inspect_data(options)
    if flags.json:
        print_json(report.to_dict())
        return
    for line in filter(None, (report.recognised, report.unread_marks)):
        say(line)
    if report.chat_template:
        say(f"The chat template of {report.tokenizer} writes the prompts.")
    for note in report.chat_notes:
        say(note)
    for sample in report.samples:
        _show(sample, report)
    _lengths(report)
    for line in _cuts(report):
        say(line)


def _show(sample: Sample, report: DataReport) -> None:
    say(f"Example {sample.number:,} of {report.examples:,}")
    half = _SHOWN // 2
    for state, group in groupby(enumerate(sample.tokens), key=lambda pair: pair[1].state):
        tokens = [(token.text, number) for number, token in group]
        say(f"  {state} ({len(tokens):,} tokens, {_MEANINGS[state]})")
        if len(tokens) <= _SHOWN:
            _say_tokens(tokens, state)
            continue
        _say_tokens(tokens[:half], state)
        say(f"    … {len(tokens) - 2 * half:,} tokens not shown …")
        _say_tokens(tokens[-half:], state)
    if sample.unlisted:
        say(f"  … {sample.unlisted:,} more tokens at the ends are cut …")
    say("")


def _say_tokens(tokens: Sequence[tuple[str, int]], state: str) -> None:
    """Print tokens, pairs of text and shade, line by line; without colours, separate them."""
    lines: list[list[tuple[str, int]]] = [[]]
    for text, shade in tokens:
        lines[-1].append((visible_line(text), shade))
        if text.endswith("\n"):
            lines.append([])
    for line in filter(None, lines):
        if not out.is_terminal or out.no_color:
            say("    " + _SEPARATOR.join(text for text, _ in line))
            continue
        pieces = [(text, _SHADES[state][shade % 2]) for text, shade in line]
        out.print(Text.assemble("    ", *pieces), soft_wrap=True)


def _lengths(report: DataReport) -> None:
    skipped = f"; skipped {report.dropped:,} without an output" if report.dropped else ""
    both = f"both and {report.end}"
    sides = (("prompt", report.prompts), ("output", report.outputs), (both, report.together))
    table(
        f"Tokens of {report.path} ({report.split}, {report.examples:,} examples{skipped})",
        ["", "shortest", "10 %", "50 %", "90 %", "99 %", "longest"],
        [[name, *(f"{length:,}" for length in lengths)] for name, lengths in sides],
    )


def _cuts(report: DataReport) -> Iterator[str]:
    """Yield lines on truncated examples, with the option that keeps all of them."""
    cuts = report.cuts
    most = report.together[-1]
    keeps = f"tasc finetune --max-length {most} keeps all"
    if cuts.prompts:
        yield f"{cuts.prompts:,} of {report.examples:,} prompts lose their beginning: {keeps}"
    if cuts.outputs:
        yield (
            f"{cuts.outputs:,} of {report.examples:,} outputs lose their end, so the model does "
            f"not learn to stop: {keeps}"
        )
    if not (cuts.prompts or cuts.outputs):
        yield f"tasc finetune --max-length {report.max_length} cuts no example."
    if cuts.unfinished:
        yield (
            f"{cuts.unfinished:,} of {report.examples:,} outputs are longer than the limit of tasc "
            f"bench --max-new-tokens {report.max_new_tokens}: {report.outputs[-1] + 1} is enough"
        )
    if report.rewritten:
        yield (
            f"{report.rewritten:,} of {report.examples:,} outputs change when encoded and decoded "
            "(such as e and an accent to é): no model with this tokenizer can write them exactly; "
            f"the first is example {report.first_rewritten:,}"
        )
    if report.ended:
        yield (
            f"{report.ended:,} of {report.examples:,} outputs contain the end token {report.end}, "
            "where decoding stops, so no model can write what follows: remove the token from the "
            f"data; the first is example {report.first_ended:,}"
        )
