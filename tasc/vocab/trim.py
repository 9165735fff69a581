"""Drop the tokens that a task does not need from a tokenizer.

The kept tokens encode and decode any text, and the texts of the task keep their tokens:

- BPE: kept tokens are closed under their derivations, and all merges among them stay in order. At
  each step of a kept derivation the merge of the lowest rank is kept, and so still the lowest.
- Unigram: the best path is among fewer paths, and still the best.

Characters without a token of their own are spelt in bytes; if the tokenizer has no tokens for
bytes, all tokens of one character are kept.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from tasc.errors import InputError
from tasc.tokenizer.loaded import LoadedTokenizer
from tasc.tokenizer.token_bytes import BYTE_PIECE, MARK
from tasc.vocab.exports.export import companions
from tasc.vocab.search.embedding_cost import EmbeddingCost

ROWS = 8192  # kept if the task needs fewer
_PREDICTED = (4096, 8192, 16_384)  # rows


@dataclass(frozen=True)
class Trimmed:
    """A tokenizer with fewer tokens: token i is token ``kept[i]`` of the one that was trimmed."""

    tokenizer: LoadedTokenizer
    kept: tuple[int, ...]  # ascending
    used: int  # tokens that the texts use


@dataclass(frozen=True)
class TrimPoint:
    """A model after ``tasc augment --trim --rows N``, by the weights that a step reads."""

    rows: int  # N
    parameters: int
    parameter_share: float  # of the model's parameters now
    step_ratio: float  # weights that a step reads now, divided by those after


@dataclass(frozen=True)
class _Vocabulary:
    """What trimming needs to know of a tokenizer."""

    tokenizer: LoadedTokenizer
    state: dict[str, Any]  # its tokenizer.json
    ids: dict[str, int]
    ranked: list[str]  # the most frequent first, as the training of the tokenizer saw them
    parts: Callable[[str], Iterable[str]]  # the tokens that a token is derived from, and itself


def trim(
    tokenizer: LoadedTokenizer,
    texts: Sequence[str],
    rows: int | None = None,
    model_rows: int | None = None,
) -> Trimmed:
    """Keep special tokens, bytes, what ``texts`` use, and the most frequent others up to ``rows``.

    Without ``rows``, ``ROWS`` tokens are kept, or as many more as the texts need. Special tokens
    beyond the ``model_rows`` of the model, if given, are dropped, as the model cannot read them.

    Raises InputError if ``rows`` are too few, or the tokenizer is neither BPE nor Unigram.
    """
    vocabulary = _vocabulary(tokenizer)
    used = {int(i) for i in np.unique(tokenizer.encode(texts).tokens)}
    kept_ids = _needed(vocabulary, used, model_rows)
    if rows is not None and rows < len(kept_ids):
        raise InputError(
            f"--rows {rows:,} are too few: the task needs {len(kept_ids):,} tokens of "
            f"{tokenizer.path}, with special tokens, bytes and the parts of tokens: use --rows "
            f"{len(kept_ids)} or more"
        )
    _fill(kept_ids, vocabulary, max(rows or ROWS, len(kept_ids)))
    new = {old: position for position, old in enumerate(sorted(kept_ids))}
    trimmed = Tokenizer.from_str(json.dumps(_cut(vocabulary, new), ensure_ascii=False))
    smaller = replace(tokenizer, tokenizer=trimmed, files=companions(tokenizer))
    return Trimmed(smaller, tuple(new), len(used))


def can_trim(tokenizer: LoadedTokenizer) -> bool:
    """Return whether ``trim`` supports the kind of a tokenizer."""
    try:
        _vocabulary(tokenizer)
    except InputError:
        return False
    return True


def predict_trim(
    cost: EmbeddingCost, tokenizer: LoadedTokenizer, used: Iterable[int]
) -> tuple[TrimPoint, ...]:
    """Predict the effect of fewer rows, for a task that uses the tokens ``used``.

    Sizes that are too small for the task are left out; all, if the tokenizer cannot be trimmed.
    """
    size = len(tokenizer.vocabulary())
    try:
        needed = len(_needed(_vocabulary(tokenizer), set(used)))
    except InputError:
        return ()
    points = []
    for rows in _PREDICTED:
        if needed <= rows < size:
            left = cost.total - cost.parameters * (size - rows)
            ratio = 1 / (1 - cost.step_share * (size - rows))
            points.append(TrimPoint(rows, left, left / cost.total, ratio))
    return tuple(points)


def _needed(vocabulary: _Vocabulary, used: set[int], model_rows: int | None = None) -> set[int]:
    """Return the ids in use, those of special tokens and bytes, and those that make them up."""
    tokenizer = vocabulary.tokenizer
    names = {i: token for token, i in vocabulary.ids.items()}
    special = {i for i in tokenizer.special_ids if model_rows is None or i < model_rows}
    spelling = {i for i, token in names.items() if BYTE_PIECE.fullmatch(token)}
    if len(spelling) != 256:
        spelling = {i for i, token in names.items() if len(token) == 1}
    spelling |= {vocabulary.ids.get(MARK), vocabulary.state["model"].get("unk_id")} - {None}
    around = set(tokenizer.tokenizer.encode("").ids)  # what begins and ends every text
    needed = used | special | {tokenizer.eos_id} | spelling | around
    parts = {vocabulary.ids[p] for i in needed & names.keys() for p in vocabulary.parts(names[i])}
    return needed | parts


def _vocabulary(tokenizer: LoadedTokenizer) -> _Vocabulary:
    state = json.loads(tokenizer.tokenizer.to_str())
    model = state["model"]
    marks = model.get("continuing_subword_prefix") or model.get("end_of_word_suffix")
    if model["type"] == "BPE" and not marks:
        ranks = {(left, right): rank for rank, (left, right) in enumerate(model["merges"])}
        merge_ranks = {left + right: rank for (left, right), rank in reversed(ranks.items())}
        order = {
            token: (merge_ranks.get(token, len(ranks)), i) for token, i in model["vocab"].items()
        }
        ranked = sorted(order, key=order.__getitem__)
        parts = partial(_derivation, ranks=ranks, ids=model["vocab"])
        return _Vocabulary(tokenizer, state, model["vocab"], ranked, parts)
    if model["type"] == "Unigram":
        scores = dict(map(tuple, model["vocab"]))
        ids = {piece: i for i, (piece, _) in enumerate(model["vocab"])}
        ranked = sorted(scores, key=lambda piece: -scores[piece])
        return _Vocabulary(tokenizer, state, ids, ranked, lambda token: [token])
    kind = f"{model['type']}{' with marks of words' if marks else ''}"
    raise InputError(
        f"{tokenizer.path}: --trim supports byte-level BPE, SentencePiece BPE and Unigram, and "
        f"this tokenizer is {kind}: leave --trim out"
    )


def _derivation(token: str, ranks: dict[tuple[str, str], int], ids: dict[str, int]) -> set[str]:
    """Return the tokens that arise when BPE encodes the text of ``token``, and itself."""
    symbols = list(token)
    derived = {token, *(symbol for symbol in symbols if symbol in ids)}
    while pairs := [(ranks[p], i) for i, p in enumerate(pairwise(symbols)) if p in ranks]:
        _, i = min(pairs)
        symbols[i : i + 2] = [symbols[i] + symbols[i + 1]]
        derived.add(symbols[i])
    return derived


def _fill(kept_ids: set[int], vocabulary: _Vocabulary, rows: int) -> None:
    """Add the most frequent tokens, each with its parts, then added tokens, up to ``rows``."""
    for token in vocabulary.ranked:
        more = {vocabulary.ids[part] for part in vocabulary.parts(token)} - kept_ids
        if len(kept_ids) + len(more) > rows:
            break
        kept_ids |= more
    tokenizer = vocabulary.tokenizer
    added = tokenizer.tokenizer.get_added_tokens_decoder().keys() - tokenizer.special_ids
    kept_ids |= set(sorted(added - kept_ids)[: rows - len(kept_ids)])


def _cut(vocabulary: _Vocabulary, new: dict[int, int]) -> dict[str, Any]:
    """Reduce the tokenizer.json to the tokens of ``new``, numbered as there."""
    state = vocabulary.state
    model = vocabulary.state["model"]
    state["added_tokens"] = [
        entry | {"id": new[entry["id"]]} for entry in state["added_tokens"] if entry["id"] in new
    ]
    if model["type"] == "Unigram":
        model["vocab"] = [entry for i, entry in enumerate(model["vocab"]) if i in new]
        model["unk_id"] = new.get(model["unk_id"])
    else:
        kept_tokens = {token: new[i] for token, i in vocabulary.ids.items() if i in new}
        merges = [(a, b) for a, b in model["merges"] if {a, b, a + b} <= kept_tokens.keys()]
        # Added tokens outside the vocabulary would be numbered from its size.
        added = {entry["content"]: entry["id"] for entry in state["added_tokens"]}
        model["merges"] = merges
        model["vocab"] = kept_tokens | added
    _renumber(state["post_processor"], new)
    return state


def _renumber(processor: dict[str, Any] | None, new: dict[int, int]) -> None:
    """Give the special tokens of a tokenizer.json's post-processor their new ids."""
    for part in (processor or {}).get("processors", [processor] if processor else []):
        for entry in part.get("special_tokens", {}).values():
            entry["ids"] = [new[i] for i in entry["ids"]]
        for name in {"cls", "sep"} & part.keys():
            part[name] = [part[name][0], new[part[name][1]]]
