"""The tokens at which llama.cpp ends an output: three that a GGUF file states, and others by text.

llama.cpp ends outputs at tokens with certain texts, whatever the file states. It takes them for
ends of turns, or for marks of code to fill in. Outputs that contain such a token end early there.
The texts were found by generating a token with each one (xllamacpp 2026.10.11549).
"""

from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np

from tasc.decoding.drafters.ngram.index import indexed_outputs
from tasc.report.markdown import code
from tasc.serving.gguf_vocabulary import BY_TEXT
from tasc.serving.parts import Parts

STATED = 3  # end tokens that a file can state: of a text, of a turn and of a message
# Marks of code to fill in: their keys, each of which may be stated instead
FILLS = {
    "fim_pad": {"<|fim_pad|>", "<fim_pad>", "<fim-pad>", "<PAD>", "[PAD]"},
    "fim_rep": {"<|repo_name|>", "<reponame>", "<REPO>"},
    "fim_sep": {"<|file_sep|>"},
}


def stated_ends(parts: Parts) -> list[int]:
    """Return the end tokens to state: the tokenizer's, then those that no text gives away."""
    name = parts.tokenizer.tokenizer.id_to_token
    eos, *others = parts.ends
    others.sort(key=lambda end: name(end) in BY_TEXT)
    return [eos, *others][:STATED]


def undone_fills(parts: Parts) -> list[str]:
    """Return the keys of ``FILLS`` whose tokens would end the task's outputs."""
    inside = _inside(parts, _outputs(parts))
    return [key for key, texts in FILLS.items() if texts & inside.keys()]


def end_notes(parts: Parts) -> Iterator[str]:
    """Describe where llama.cpp ends outputs other than ``tasc bench`` does."""
    outputs = _outputs(parts)
    inside = _inside(parts, outputs)
    for token in BY_TEXT & inside.keys():
        yield (
            f"llama.cpp ends outputs at {code(token)} because of its text, and {inside[token]:,} "
            f"of the task's {len(outputs):,} outputs contain it: they end early; use another engine"
        )
    vocabulary = parts.tokenizer.tokenizer.get_vocab(with_added_tokens=True)
    ends = set(parts.ends)
    others = {t for t in BY_TEXT & vocabulary.keys() if vocabulary[t] not in ends} - inside.keys()
    if others:
        yield (
            f"llama.cpp also ends outputs at {', '.join(map(code, sorted(others)))}, because of "
            "the text, where tasc bench goes on"
        )
    unstated = ends - {*stated_ends(parts)} - {vocabulary.get(token) for token in BY_TEXT}
    if unstated:
        names = (code(str(parts.tokenizer.tokenizer.id_to_token(end))) for end in sorted(unstated))
        yield f"llama.cpp goes on after {', '.join(names)}, where tasc bench ends an output"


def _inside(parts: Parts, outputs: Iterable[np.ndarray]) -> Counter[str]:
    """Count the outputs that contain each token, end tokens apart."""
    ends, counts = set(parts.ends), Counter[int]()
    for output in outputs:
        counts.update({*output.tolist()} - ends)
    names = ((parts.tokenizer.tokenizer.id_to_token(token), n) for token, n in counts.items())
    return Counter({name: count for name, count in names if name is not None})


def _outputs(parts: Parts) -> list[np.ndarray]:
    """Return the tokens (T_i,) of the task's outputs, from its examples or the index."""
    if parts.corpus is not None:
        return parts.tokenizer.encode(parts.corpus.outputs).split()
    return [] if parts.index is None else list(indexed_outputs(parts.index))
