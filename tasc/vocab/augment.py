"""The first half of TASC-ft: augment a tokenizer with a task's n-grams (Tsur et al., section 4.1).

Departures from the paper: a new token that the saved tokenizer never produces on the training
outputs is replaced by the next best one. N-grams never contain an added token of the base
tokenizer, and are valid UTF-8. The ``added`` export also skips n-grams that a byte-level decoder
would garble: non-ASCII text whose characters are all in the byte alphabet ("naïve").
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from tasc.analysis.outputs import Outputs, encode_outputs
from tasc.data.corpus import Corpus
from tasc.errors import InputError
from tasc.progress import Progress, silent
from tasc.tokenizer.loaded import LoadedTokenizer
from tasc.vocab.exports import export
from tasc.vocab.exports.merges import NewToken, write_merges
from tasc.vocab.measure.check import changed_outputs, check_round_trip
from tasc.vocab.measure.compression import Compression, apply_merges
from tasc.vocab.measure.usage import Usage, usage
from tasc.vocab.page import render
from tasc.vocab.report import AugmentReport, OutputSizes
from tasc.vocab.search.budget import MOST, Curve, Sightings, budget_curve
from tasc.vocab.search.embedding_cost import EmbeddingCost
from tasc.vocab.search.options import AugmentOptions
from tasc.vocab.search.refine import Refined, Refiner
from tasc.vocab.search.selection import steps


@dataclass(frozen=True)
class Measured(Compression):
    """The effect of the saved tokenizer on a set of outputs."""

    usage: Usage
    changed: int  # distinct outputs whose tokens, with new tokens expanded, differ from before

    @property
    def sizes(self) -> OutputSizes:
        """The sizes as the report has them."""
        used = int(self.usage.counts.sum())
        return OutputSizes(
            **self.to_dict(), new_token_uses=used, splits_words=int(self.usage.splits)
        )


@dataclass(frozen=True)
class Augmentation:
    """An augmented tokenizer, its new tokens, and their effect."""

    tokenizer: Tokenizer
    files: dict[str, bytes]  # companions of tokenizer.json, by name
    tokens: tuple[NewToken, ...]
    base_size: int  # ids of the base tokenizer; the new ids follow
    options: AugmentOptions
    train: Measured  # on the training outputs
    held_out: Measured | None  # on other outputs, if any were given
    h2: tuple[float, float]  # Rényi-2 entropy of the training outputs' tokens, before and after
    rejected: int  # n-grams rejected by PCS
    duplicates: int  # second spellings of new tokens
    excluded: dict[str, int]  # n-grams that the export cannot represent, by reason
    intermediate_merges: int  # merges that only serve longer ones
    rounds: int
    shortfall: str | None  # why fewer tokens were added than requested; None if all were
    curve: Curve  # cost and benefit of each number of new tokens that the search covers

    @property
    def unused(self) -> int:
        """Number of new tokens that the saved tokenizer produces in no training output."""
        return int(np.count_nonzero(self.train.usage.counts == 0))

    @property
    def changed(self) -> int:
        """Distinct outputs whose tokens, with new tokens expanded, differ from the base tokens."""
        return self.train.changed + (self.held_out.changed if self.held_out else 0)

    def save(self, folder: Path) -> None:
        """Write tokenizer.json, its companions, merges.json and budget.html into ``folder``."""
        folder.mkdir(parents=True, exist_ok=True)
        export.save(self.tokenizer, self.files, folder)
        write_merges(folder, self.tokens)
        page = render(self.report, self.options.source.path)
        (folder / "budget.html").write_text(page, encoding="utf-8")

    @property
    def report(self) -> AugmentReport:
        """The sizes of the tokenizer and of the outputs, and the effect of each budget."""
        return AugmentReport(
            export=self.options.export,
            budget=self.options.new_tokens,
            added=len(self.tokens),
            base_size=self.base_size,
            size=self.base_size + len(self.tokens),
            train=self.train.sizes,
            held_out=self.held_out and self.held_out.sizes,
            seen=Sightings.of(self.train.usage.counts.tolist()),
            h2={"before": self.h2[0], "after": self.h2[1]},
            rejected=self.rejected,
            duplicates=self.duplicates,
            excluded=self.excluded,
            intermediate_merges=self.intermediate_merges,
            unused=self.unused,
            changed=self.changed,
            rounds=self.rounds,
            shortfall=self.shortfall,
            curve=self.curve,
        )

    def to_dict(self) -> dict[str, Any]:
        return self.report.to_dict()


def augment(
    corpus: Corpus,
    tokenizer: LoadedTokenizer,
    options: AugmentOptions,
    held_out: Sequence[str] = (),
    rows: EmbeddingCost | None = None,
    progress: Progress = silent,
) -> Augmentation:
    """Choose ``options.new_tokens`` tokens for a task's outputs and export them.

    Fewer tokens are added if they shorten the outputs as much, if ``min_gain`` ends the search, or
    if no candidates are left after unused tokens are dropped; ``shortfall`` gives the reason.

    Args:
        corpus: training outputs.
        tokenizer: the base tokenizer.
        options: see AugmentOptions.
        held_out: outputs to measure on.
        rows: cost of a new row for the model, if the model is known.
        progress: receives the progress of the search.

    Raises:
        InputError: more tokens are requested than there are candidates, the export does not support
            the tokenizer, or an output decodes neither to itself nor to the text that the base
            tokenizer decodes (Qwen2's composes accents).
    """
    outputs = encode_outputs(corpus.outputs, tokenizer, options.export)
    others = encode_outputs(held_out, tokenizer, options.export) if held_out else None
    refiner = Refiner(tokenizer, outputs, others, options)
    size, name = len(tokenizer.vocabulary()), corpus.source.path
    curve, new_tokens = None, options.new_tokens
    if not isinstance(new_tokens, int):
        survey = refiner.search(MOST, progress)
        curve = budget_curve(survey, size, outputs, others, rows, options.overfit_penalty)
        new_tokens = curve.recommended_size.budget
        if not new_tokens:
            most = curve.points[-1].budget
            raise InputError(
                f"{name}: no new token is worth its row: try --new-tokens {min(50, most)}"
                if most
                else f"{name}: no n-gram recurs in the outputs, so no token can be added: leave "
                "the steps `tokens` and `tasc-ft` out of the recipe"
            )
    found = refiner.run(name, new_tokens, progress)
    saved = LoadedTokenizer(found.tokenizer, tokenizer.path, export.companions(tokenizer))
    result, length = found.result, found.chosen.length
    last = result.merges[length - 1]
    if curve is None:
        taken = replace(result, merges=result.merges[:length])
        curve = budget_curve(taken, size, outputs, others, rows, options.overfit_penalty)
    return Augmentation(
        tokenizer=found.tokenizer,
        files=saved.files,
        tokens=found.chosen.tokens,
        base_size=size,
        options=options,
        train=_measure(outputs, tokenizer, saved, found, last.tokens),
        held_out=(
            _measure(others, tokenizer, saved, found, _replayed(others, found)) if others else None
        ),
        h2=(result.h2_before, last.h2),
        rejected=result.rejected,
        duplicates=result.duplicates,
        excluded=found.excluded,
        intermediate_merges=length - len(found.chosen.tokens),
        rounds=found.rounds,
        shortfall=found.shortfall,
        curve=curve,
    )


def _measure(
    outputs: Outputs, base: LoadedTokenizer, saved: LoadedTokenizer, found: Refined, predicted: int
) -> Measured:
    """Encode the outputs with the saved tokenizer, and check the round trip."""
    before, after = outputs.encoded, saved.encode(outputs.texts)
    check_round_trip(outputs.texts, before, after, base, saved)
    strings, tokens = base.vocabulary(), found.chosen.tokens
    added = [token.string.encode() for token in tokens]
    return Measured(
        outputs=outputs.count,
        bytes=outputs.total(np.array([len(text.encode()) for text in outputs.texts], np.int64)),
        before=outputs.total(np.diff(before.offsets)),
        predicted=predicted,
        reached=outputs.total(np.diff(after.offsets)),
        usage=usage(outputs, after, strings, added),
        changed=changed_outputs(before, after, [t.base_ids for t in tokens], len(strings)),
    )


def _replayed(outputs: Outputs, found: Refined) -> int:
    """Return the number of tokens that the merges leave in outputs that the search did not see."""
    before, made = outputs.encoded, steps(found.result, found.chosen.length)
    return outputs.total(apply_merges(before.tokens, before.offsets, outputs.boundaries, made))
