"""New entries in a model's own vocabulary, for the ``pretoken`` export.

BPE: with ``ignore_merges``, a pre-token that is in the vocabulary becomes one token; pairs inside a
pre-token are merges of the lowest priority. This changes a base tokenization in one case: a base
token that its own merges never produce is now produced for a pre-token that spells it. Trained
vocabularies have hardly any; ``augment`` reports the outputs with a changed base id as ``changed``.

Unigram: the score of a new piece is the sum of the base pieces that it replaces, plus a small bonus
for each token it saves. So it wins only where the base tokenizer would produce those pieces, and a
longer new piece wins over two shorter ones.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tokenizers import models

_BONUS = 1e-6  # far below the differences between scores, far above their rounding
_UNKNOWN = 10.0  # the penalty of an unknown character in tokenizers, below the worst piece


def extend_model(
    state: dict[str, Any], entries: Mapping[str, int], rules: Sequence[tuple[str, str]]
) -> None:
    """Add entries with these ids to the vocabulary of a tokenizer.json's model.

    ``rules`` are the BPE merges that produce some of them inside a pre-token.
    """
    added = {entry["content"]: entry["id"] for entry in state["added_tokens"]}
    if state["model"]["type"] == "Unigram":
        _extend_unigram(state, added, entries)
        return
    model = state["model"]
    # On loading, added tokens outside the model's vocabulary are numbered from its size: without
    # entries of their own they would move.
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
    """Return the score of the best path of base pieces, plus the bonus."""
    known = [token.value for token in tokens if token.value in scores]
    unknown = len(text) - sum(map(len, known))
    path = sum(scores[piece] for piece in known) + unknown * worst
    return path + _BONUS * (len(tokens) - 1)
