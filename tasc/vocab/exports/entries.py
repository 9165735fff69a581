"""New entries in a model's own vocabulary, for the ``pretoken`` export.

BPE: ``ignore_merges`` emits a pre-token that is in the vocabulary as it is; pairs inside a
pre-token are merges of the lowest priority. That could change a base tokenization in one case: a
base token that its own merges never produce would be emitted for a pre-token that spells it.
Trained vocabularies have hardly any; what ``augment`` reports as ``changed`` counts the outputs in
which a base id changed at all.

Unigram: a new piece scores as much as the base pieces it stands for, and a hair more for each token
it saves. So it wins just where the base tokenizer would have made those pieces, and a longer one
over two shorter ones.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tokenizers import models

_HAIR = 1e-6  # far below the differences between scores, far above their rounding
_UNKNOWN = 10.0  # tokenizers: an unknown character scores so much less than the worst piece


def extend_model(
    state: dict[str, Any], entries: Mapping[str, int], rules: Sequence[tuple[str, str]]
) -> None:
    """Put entries with these ids into the vocabulary of a tokenizer.json's model.

    ``rules`` are the merges of a BPE that make some of them inside a pre-token.
    """
    added = {entry["content"]: entry["id"] for entry in state["added_tokens"]}
    if state["model"]["type"] == "Unigram":
        _extend_unigram(state, added, entries)
        return
    model = state["model"]
    # Added tokens outside of the model's vocabulary are numbered from its size when the file is
    # loaded: put them in, or they would move.
    model["vocab"] |= added | dict(entries)
    model["merges"] += [list(rule) for rule in rules if model["vocab"].keys() >= set(rule)]
    model["ignore_merges"] = True


def _extend_unigram(
    state: dict[str, Any], added: Mapping[str, int], entries: Mapping[str, int]
) -> None:
    vocabulary: list[list[Any]] = state["model"]["vocab"]
    scores = {text: float(score) for text, score in vocabulary}
    worst = min(scores.values(), default=0.0) - _UNKNOWN
    model = models.Unigram([tuple(entry) for entry in vocabulary], unk_id=state["model"]["unk_id"])
    ordered = sorted({**added, **entries}.items(), key=lambda entry: entry[1])
    for text, position in ordered:
        if position < len(vocabulary):
            continue  # an added token that is a piece already
        vocabulary.append([text, _score(model.tokenize(text), text, scores, worst)])


def _score(tokens: Sequence[Any], text: str, scores: Mapping[str, float], worst: float) -> float:
    """Of the best path of base pieces, and a hair."""
    known = [token.value for token in tokens if token.value in scores]
    unknown = len(text) - sum(map(len, known))
    path = sum(scores[piece] for piece in known) + unknown * worst
    return path + _HAIR * (len(tokens) - 1)
