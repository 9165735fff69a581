"""New tokens in a tokenizer, in two ways; both are plain files that AutoTokenizer loads.

``added`` is the paper's way: each n-gram is an AddedToken, matched in the raw text before it is
split, so " in the" also fires inside " in therapy". ``pretoken`` matches only where the base
tokenizer has pre-token boundaries on both sides: runs of whole pre-tokens go into the vocabulary
and, as a guarded trie, into the split pattern; single pre-tokens need the vocabulary alone
(``ignore_merges``: a pre-token that is in the vocabulary is emitted as it is); pairs inside a
pre-token are BPE merges of the lowest priority.

``ignore_merges`` could change a base tokenization in one case: a base token that its own merges
never produce would be emitted for a pre-token that spells it. Trained vocabularies have hardly any;
what ``augment`` reports as ``changed`` counts the outputs in which a base id changed at all.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tokenizers import Tokenizer

from tasc.data.token_bytes import spell_bytes
from tasc.data.tokenizer import LoadedTokenizer
from tasc.errors import InputError
from tasc.vocab.pattern import BasePattern

Export = Literal["pretoken", "added"]
Rule = tuple[bytes, bytes]  # a BPE merge: the strings of its two parts

_GPT2_PATTERN = (
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"  # of ByteLevel
)
_CONFIG = "tokenizer_config.json"
_CLASS = "PreTrainedTokenizerFast"  # takes tokenizer.json as it is
# Beside a config.json of some families (Qwen2 among them) AutoTokenizer takes the family's class,
# with that class's own pre-tokenizer, whatever tokenizer_class says, unless the folder claims code
# of its own. An empty claim is enough and runs nothing; with trust_remote_code=True it is an error.
_OWN_CLASS = {"AutoTokenizer": ["", None]}


@dataclass(frozen=True)
class Addition:
    """One token to add; ``spans`` if it is one or more whole pre-tokens somewhere."""

    new_id: int
    string: str
    spans: bool = True


class Exporter:
    """Makes the tokenizer of a list of additions, again and again as the list changes."""

    def __init__(self, base: LoadedTokenizer, kind: Export) -> None:
        """Raise InputError when the base tokenizer does not allow this kind of export."""
        self._base = base
        self._kind = kind
        self._state: str = base.tokenizer.to_str()
        self._pattern = (
            _base_pattern(json.loads(self._state), base.path) if kind == "pretoken" else None
        )

    def tokenizer(self, additions: Sequence[Addition], rules: Sequence[Rule] = ()) -> Tokenizer:
        """Return the base tokenizer with the additions, ids as given.

        ``rules`` are the BPE merges that make some of them inside a pre-token (``pretoken`` only).
        Raises InputError when an id does not come out as asked: the base vocabulary has holes that
        added tokens would fall into.
        """
        state = json.loads(self._state)
        if self._pattern is None:
            state["added_tokens"] += [_added_token(addition) for addition in additions]
        else:
            self._extend(state, additions, rules, self._pattern)
        made = Tokenizer.from_str(json.dumps(state, ensure_ascii=False))
        wanted = {a["content"]: a["id"] for a in state["added_tokens"]}
        if self._pattern is not None:
            wanted |= {spell_bytes(a.string.encode()): a.new_id for a in additions}
        for content, token in wanted.items():
            if made.token_to_id(content) != token:
                raise InputError(
                    f"{self._base.path}: token {content!r} would get another id than {token}, the "
                    "vocabulary has holes; use the other export"
                )
        return made

    def _extend(
        self,
        state: dict[str, Any],
        additions: Sequence[Addition],
        rules: Sequence[Rule],
        base: BasePattern,
    ) -> None:
        model = state["model"]
        # Added tokens outside of the model's vocabulary are numbered from its size when the file is
        # loaded: put them in, or they would move.
        model["vocab"] |= {entry["content"]: entry["id"] for entry in state["added_tokens"]}
        model["vocab"] |= {spell_bytes(a.string.encode()): a.new_id for a in additions}
        model["merges"] += [[spell_bytes(left), spell_bytes(right)] for left, right in rules]
        model["ignore_merges"] = True
        split = {
            "type": "Split",
            "pattern": {
                "Regex": base.extended(a.string for a in additions if _needs_trie(a, base))
            },
            "behavior": base.behavior.capitalize(),
            "invert": base.invert,
        }
        byte_level = _byte_level(state["pre_tokenizer"]) | {"use_regex": False}
        state["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [split, byte_level]}


def companions(base: LoadedTokenizer) -> dict[str, bytes]:
    """Return the files to lie beside tokenizer.json: the base's own, naming the generic class.

    A class of a model family builds its own pre-tokenizer and would drop the exported one.
    """
    files = {name: content for name, content in base.files.items() if name != "tokenizer.json"}
    config = json.loads(files.get(_CONFIG, b"{}"))
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


def _added_token(addition: Addition) -> dict[str, Any]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    return {"id": addition.new_id, "content": addition.string, **flags}


def _needs_trie(addition: Addition, base: BasePattern) -> bool:
    """Whether the token is ever more than one pre-token; white space depends on what follows."""
    string = addition.string
    return addition.spans and (string[-1].isspace() or len(base.pieces(string)) > 1)


def _base_pattern(state: dict[str, Any], path: str) -> BasePattern:
    """The one pattern by which a byte-level BPE tokenizer splits text, or InputError."""
    model, split = state["model"], state["pre_tokenizer"] or {"type": "none"}
    parts = split.get("pretokenizers", [split])
    kinds = [part["type"] for part in parts]
    plain = not (model.get("continuing_subword_prefix") or model.get("end_of_word_suffix"))
    if model["type"] == "BPE" and plain and not parts[-1].get("add_prefix_space", True):
        if kinds == ["ByteLevel"] and parts[0]["use_regex"]:
            return BasePattern(_GPT2_PATTERN)
        if kinds == ["Split", "ByteLevel"] and not parts[1]["use_regex"]:
            behavior, invert = parts[0]["behavior"].lower(), parts[0]["invert"]
            pattern = parts[0]["pattern"].get("Regex")
            if pattern and (behavior, invert) in {("isolated", False), ("removed", True)}:
                return BasePattern(pattern, behavior, invert)
    raise InputError(
        f"{path}: the pretoken export needs byte-level BPE split by one pattern, this is "
        f"{model['type']} split by {' + '.join(kinds)}: use --export added"
    )


def _byte_level(split: dict[str, Any]) -> dict[str, Any]:
    parts: list[dict[str, Any]] = split.get("pretokenizers", [split])
    return parts[-1]
