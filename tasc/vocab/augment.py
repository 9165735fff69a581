"""TASC-ft's first half: a task's outputs in, an augmented tokenizer out (Tsur et al., section 4.1).

Departs from the paper: new tokens that the saved tokenizer never produces on the training outputs
are dropped and the budget goes to the next best; n-grams never hold an added token of the base
tokenizer; n-grams that are no valid UTF-8 are passed over in both exports, and in ``added`` those
that a byte-level decoder would garble: not ASCII, all characters in the byte alphabet ("naïve").
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from tasc.data.corpus import Corpus
from tasc.data.tokenizer import LoadedTokenizer
from tasc.progress import Progress, silent
from tasc.vocab import export
from tasc.vocab.check import changed_outputs, check_round_trip
from tasc.vocab.compression import Compression, replay
from tasc.vocab.merges import NewToken, write_merges
from tasc.vocab.options import AugmentOptions
from tasc.vocab.refine import Outputs, Refined, Refiner
from tasc.vocab.selection import steps

__all__ = ["AugmentOptions", "Augmentation", "augment"]


@dataclass(frozen=True)
class Augmentation:
    """An augmented tokenizer, its new tokens, and what they do."""

    tokenizer: Tokenizer
    files: dict[str, bytes]  # to lie beside tokenizer.json
    tokens: tuple[NewToken, ...]
    base_size: int  # ids of the base tokenizer; new ones follow
    options: AugmentOptions
    train: Compression
    held_out: Compression | None
    h2: tuple[float, float]  # Rényi-2 entropy of the training outputs' tokens, before and after
    rejected: int  # n-grams turned down by PCS
    duplicates: int  # second spellings of new tokens
    excluded: dict[str, int]  # n-grams the export cannot carry, by reason
    scaffolds: int  # merges that only served longer ones
    dead: int  # new tokens that no training output holds, as the saved tokenizer splits it
    changed: int  # distinct outputs whose base tokens differ once new tokens are spelled out
    rounds: int

    def save(self, folder: Path) -> None:
        """Write tokenizer.json, its companions and merges.json into an existing folder."""
        export.save(self.tokenizer, self.files, folder)
        write_merges(folder, self.tokens)

    def to_dict(self) -> dict[str, Any]:
        """Return the report, as JSON values."""
        return {
            "export": self.options.export,
            "budget": self.options.budget,
            "added": len(self.tokens),
            "base_size": self.base_size,
            "size": self.base_size + len(self.tokens),
            "train": self.train.to_dict(),
            "held_out": self.held_out.to_dict() if self.held_out else None,
            "h2": {"before": self.h2[0], "after": self.h2[1]},
            "rejected": self.rejected,
            "duplicates": self.duplicates,
            "excluded": self.excluded,
            "scaffolds": self.scaffolds,
            "dead": self.dead,
            "changed": self.changed,
            "rounds": self.rounds,
        }


def augment(
    corpus: Corpus,
    tokenizer: LoadedTokenizer,
    options: AugmentOptions,
    held_out: Sequence[str] = (),
    progress: Progress = silent,
) -> Augmentation:
    """Choose ``options.budget`` tokens for a task's outputs and export them.

    ``held_out`` are outputs to measure on. Fewer tokens come back only if the rounds of dropping
    dead ones run out of candidates. Raises InputError when the budget is larger than the number of
    candidates, the tokenizer does not take the export, or an output no longer decodes to itself.
    """
    outputs = Outputs.of(corpus.outputs, tokenizer, options.export)
    found = Refiner(tokenizer, outputs, options).run(corpus.source.path, progress)
    saved = LoadedTokenizer(found.made, tokenizer.path, export.companions(tokenizer))
    others = Outputs.of(held_out, tokenizer, options.export) if held_out else None
    result, length = found.result, found.chosen.length
    last = result.merges[length - 1]
    used = np.bincount(saved.encode(outputs.texts).tokens)[len(tokenizer.vocabulary()) :]
    train, changed = _measure(outputs, tokenizer, saved, found, last.tokens)
    rest = None
    if others:
        predicted = _replayed(others, found)
        rest, changed_too = _measure(others, tokenizer, saved, found, predicted)
        changed += changed_too
    return Augmentation(
        tokenizer=found.made,
        files=saved.files,
        tokens=found.chosen.tokens,
        base_size=len(tokenizer.vocabulary()),
        options=options,
        train=train,
        held_out=rest,
        h2=(result.h2_before, last.h2),
        rejected=result.rejected,
        duplicates=result.duplicates,
        excluded=found.excluded,
        scaffolds=length - len(found.chosen.tokens),
        dead=len(found.chosen.tokens) - int(np.count_nonzero(used)),
        changed=changed,
        rounds=found.rounds,
    )


def _measure(
    outputs: Outputs,
    base: LoadedTokenizer,
    saved: LoadedTokenizer,
    found: Refined,
    predicted: int,
) -> tuple[Compression, int]:
    """The compression of the outputs, and how many of them changed; checks that they decode."""
    before, after = outputs.encoded, saved.encode(outputs.texts)
    check_round_trip(outputs.texts, before, after, base, saved)
    spelled = [token.base_ids for token in found.chosen.tokens]
    changed = changed_outputs(before, after, spelled, len(base.vocabulary()))
    sizes = np.array([len(text.encode()) for text in outputs.texts], np.int64)
    compression = Compression(
        outputs=int(outputs.weights.sum()),
        bytes=int(outputs.weights @ sizes),
        before=int(outputs.weights @ np.diff(before.offsets)),
        predicted=predicted,
        reached=int(outputs.weights @ np.diff(after.offsets)),
    )
    return compression, changed


def _replayed(outputs: Outputs, found: Refined) -> int:
    """Tokens that the search's merges leave in outputs it did not see."""
    before, made = outputs.encoded, steps(found.result, found.chosen.length)
    left = replay(before.tokens, before.offsets, outputs.boundaries, made)
    return int(outputs.weights @ left)
