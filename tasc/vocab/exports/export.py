"""Two ways to write new tokens into a tokenizer; AutoTokenizer loads both as plain files.

``added`` is the paper's way: each n-gram is an AddedToken, matched before the text is split, so
" in the" also matches inside " in therapy". ``pretoken`` matches only between pre-token boundaries
of the base tokenizer: runs of whole pre-tokens enter the vocabulary and, as a guarded trie, the
split pattern; single pre-tokens only enter the vocabulary; pairs inside a pre-token become the last
merges of the model (``_extend_model``).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tokenizers import Tokenizer, models

from tasc.errors import InputError
from tasc.tokenizer.loaded import LoadedTokenizer
from tasc.tokenizer.token_bytes import MARK
from tasc.vocab.exports.decoding import found_in_normalized, keep_spaces, prepend_but_to
from tasc.vocab.exports.splits import splits_of

Export = Literal["pretoken", "added"]
Rule = tuple[bytes, bytes]  # a BPE merge: the strings of its two parts

_CONFIG = "tokenizer_config.json"
_CLASS = "PreTrainedTokenizerFast"  # loads tokenizer.json unchanged
# For some families (Qwen2 among them) AutoTokenizer ignores tokenizer_class and uses the family's
# class with its own pre-tokenizer, unless auto_map names code of the folder's own. An empty name is
# enough and runs nothing; with trust_remote_code=True it is an error.
_OWN_CLASS = {"AutoTokenizer": ["", None]}
_BONUS = 1e-6  # far below the differences between scores, far above their rounding
_UNKNOWN = 10.0  # the penalty of an unknown character in tokenizers, below the worst piece


@dataclass(frozen=True)
class Addition:
    """One token to add; ``spans`` if some occurrence is one or more whole pre-tokens."""

    new_id: int
    string: str
    spans: bool = True


class Exporter:
    """Builds the tokenizer for a list of additions, repeatedly as the list changes."""

    def __init__(self, base: LoadedTokenizer, kind: Export) -> None:
        """Raise InputError if this kind of export does not support the base tokenizer."""
        self._path = base.path
        state = json.loads(base.tokenizer.to_str())
        self._splits = splits_of(state, base.path) if kind == "pretoken" else None
        self.needs_space = self._splits is None and found_in_normalized(state, base.path)
        keep_spaces(state)
        self._state = json.dumps(state, ensure_ascii=False)

    def splits_again(self, text: str) -> bool:
        """Return whether a later pre-tokenizer splits this text, so that it cannot be a token."""
        return self._splits is not None and not self._splits.whole(text)

    def tokenizer(self, additions: Sequence[Addition], rules: Sequence[Rule] = ()) -> Tokenizer:
        """Return the base tokenizer with the additions, ids as given.

        ``rules`` are the BPE merges that produce some of them inside a pre-token (``pretoken``
        only). With ``needs_space``, every addition must start with a space. Raises InputError if an
        addition would get another id, because the base vocabulary has holes.
        """
        state = json.loads(self._state)
        wanted = {entry["content"]: entry["id"] for entry in state["added_tokens"]}
        if self._splits is None:
            flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "special"), False)
            flags["normalized"] = self.needs_space
            space = MARK if self.needs_space else " "
            entries = {a.string.replace(" ", space): a.new_id for a in additions}
            state["added_tokens"] += [{"id": i, "content": t, **flags} for t, i in entries.items()]
            if self.needs_space:
                prepend_but_to(state, entries)
        else:
            spell = self._splits.spell
            entries = {spell(a.string.encode()): a.new_id for a in additions}
            _extend_model(state, entries, [(spell(left), spell(right)) for left, right in rules])
            spanning = (a.string for a in additions if a.spans and self._splits.several(a.string))
            state["pre_tokenizer"] = self._splits.extended(spanning)
        extended = Tokenizer.from_str(json.dumps(state, ensure_ascii=False))
        for content, token in (wanted | entries).items():
            if extended.token_to_id(content) != token:
                raise InputError(
                    f"{self._path}: token {content!r} would get another id than {token}, because "
                    "the vocabulary has holes: use the other --export"
                )
        return extended


def supported_export(base: LoadedTokenizer) -> Export:
    """Return ``pretoken`` if it supports the tokenizer, else ``added``."""
    try:
        Exporter(base, "pretoken")
    except InputError:
        return "added"
    return "pretoken"


def companions(base: LoadedTokenizer) -> dict[str, bytes]:
    """Return the base tokenizer's other files, with the generic tokenizer class."""
    files = {name: content for name, content in base.files.items() if name != "tokenizer.json"}
    config = base.config(_CONFIG)
    for stale in ("added_tokens_decoder", "add_prefix_space"):
        config.pop(stale, None)
    if "eos_token" not in config and "special_tokens_map.json" not in files:
        config["eos_token"] = base.tokenizer.id_to_token(base.eos_id)
    config |= {"tokenizer_class": _CLASS, "auto_map": _OWN_CLASS}
    text = json.dumps(config, indent=2, ensure_ascii=False)
    return files | {_CONFIG: text.encode() + b"\n"}


def save(tokenizer: Tokenizer, files: dict[str, bytes], folder: Path) -> None:
    """Write tokenizer.json and its companions into an existing folder."""
    tokenizer.save(str(folder / "tokenizer.json"))
    for name, content in files.items():
        (folder / name).write_bytes(content)


def _extend_model(
    state: dict[str, Any], entries: Mapping[str, int], rules: Sequence[tuple[str, str]]
) -> None:
    """Add entries with these ids to the vocabulary of a tokenizer.json's model.

    BPE: ``ignore_merges`` changes a base tokenization in one case: a base token that its own merges
    never produce is now produced for a pre-token that spells it. Trained vocabularies have hardly
    any; ``augment`` reports the outputs with a changed base id as ``changed``.

    Unigram: the score of a new piece is the sum of the base pieces that it replaces, plus a small
    bonus for each token it saves. So it wins only where the base tokenizer would produce those
    pieces, and a longer new piece wins over two shorter ones.
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
        tokens = model.tokenize(text)  # the best path of base pieces
        pieces = [token.value for token in tokens if token.value in scores]
        unknown = len(text) - sum(map(len, pieces))
        path = sum(scores[piece] for piece in pieces) + unknown * worst
        vocabulary.append([text, path + _BONUS * (len(tokens) - 1)])
