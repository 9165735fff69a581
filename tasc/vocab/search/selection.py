"""Select the tokens to keep from the merges of a search.

A long n-gram is often built over shorter ones that then occur nowhere else. The tokenizer would
never produce such intermediate merges, so they are dropped: the search still merges them, and a
token built over them lists the tokens that remain (its ``ids`` can be longer than n_max).
"""

from collections import Counter, deque
from collections.abc import Container, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from tasc.backend import Alias, Merge, MergeResult
from tasc.vocab.exports.export import Addition, Rule
from tasc.vocab.exports.merges import NewToken


@dataclass(frozen=True)
class Selection:
    """The tokens to add, as stored in merges.json and as passed to the exporter."""

    tokens: tuple[NewToken, ...]
    left_over: tuple[int, ...]  # weighted occurrences of each at the end of the search
    additions: tuple[Addition, ...]
    rules: tuple[Rule, ...]  # BPE merges that produce them inside a pre-token, in order
    length: int  # number of merges of the search that they need


def steps(result: MergeResult, length: int) -> list[Merge | Alias]:
    """Return the first ``length`` merges of a search and the aliases before the last, in order."""
    ordered: list[Merge | Alias] = []
    aliases = deque(result.aliases)
    for position, merge in enumerate(result.merges[:length]):
        while aliases and aliases[0].after <= position:
            ordered.append(aliases.popleft())
        ordered.append(merge)
    return ordered


def select(
    result: MergeResult,
    vocabulary: Sequence[bytes],
    dropped: AbstractSet[bytes],
    budget: int | None,
) -> Selection:
    """Keep the first ``budget`` tokens that are live after the fewest merges, and renumber them.

    New ids count up from the length of ``vocabulary``, the strings of the base tokens. ``dropped``
    strings are not kept. There may be fewer than ``budget``; None keeps all live at the end.
    """
    size = len(vocabulary)
    length, live = 0, dict[int, int]()
    for _, live in live_tokens(result, size, dropped):
        length += 1
        if len(live) == budget:
            break
    merges = result.merges[:length]
    tokens = _renumbered(merges, live, size)
    spans = [merge.inner < merge.frequency for merge in merges if merge.new_id in live]
    named = zip(tokens, spans, strict=True)
    additions = tuple(Addition(token.new_id, token.string, several) for token, several in named)
    left_over = tuple(live[token] for token in sorted(live))
    return Selection(tokens, left_over, additions, _rules(result, length, vocabulary, live), length)


def _renumbered(merges: Sequence[Merge], live: Container[int], size: int) -> tuple[NewToken, ...]:
    written: dict[int, tuple[int, ...]] = {}  # the search's id -> base ids and kept tokens
    spelled: dict[int, tuple[int, ...]] = {}  # the search's id -> base ids
    tokens: list[NewToken] = []
    for merge in merges:
        ids = tuple(t for part in merge.ids for t in written.get(part, (part,)))
        base_ids = tuple(t for part in merge.ids for t in spelled.get(part, (part,)))
        spelled[merge.new_id] = base_ids
        new_id = size + len(tokens)
        written[merge.new_id] = (new_id,) if merge.new_id in live else ids
        if merge.new_id in live:
            string, count = merge.string.decode(), merge.frequency
            reward = count * (len(ids) - 1)
            tokens.append(NewToken(ids, new_id, string, count, reward, merge.pcs, base_ids))
    return tuple(tokens)


def live_tokens(
    result: MergeResult, size: int, dropped: AbstractSet[bytes] = frozenset()
) -> Iterator[tuple[set[int], dict[int, int]]]:
    """Yield, after each merge, the new tokens that it touched and the counts of live tokens.

    The counts are one dictionary that is updated in place. ``dropped`` strings are not live, nor
    are tokens that occur once, which compress nothing that recurs.
    """
    counts: Counter[int] = Counter()
    live: dict[int, int] = {}
    touched: set[int] = set()
    for step in steps(result, len(result.merges)):
        counts[step.new_id] += step.frequency
        for token in step.ids:
            counts[token] -= step.frequency
        changed = {t for t in (step.new_id, *step.ids) if t >= size}
        for token in changed:
            live.pop(token, None)
            if counts[token] > 1 and result.merges[token - size].string not in dropped:
                live[token] = counts[token]
        touched |= changed
        if isinstance(step, Merge):
            yield touched, live
            touched = set()


def most_tokens(result: MergeResult, size: int) -> int:
    """Return the largest number of live tokens; there may be fewer at the end, as whole outputs."""
    return max((len(live) for _, live in live_tokens(result, size)), default=0)


def _rules(
    result: MergeResult, length: int, vocabulary: Sequence[bytes], kept_ids: Container[int]
) -> tuple[Rule, ...]:
    """Return the pairs that become kept tokens inside a pre-token, if both parts are kept."""
    size = len(vocabulary)
    strings = [*vocabulary, *(merge.string for merge in result.merges)]
    return tuple(
        (strings[step.ids[0]], strings[step.ids[1]])
        for step in steps(result, length)
        if step.inner
        and step.new_id in kept_ids
        and all(t < size or t in kept_ids for t in step.ids)
    )
