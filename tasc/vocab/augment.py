"""The first half of TASC-ft: augment a tokenizer with a task's n-grams (Tsur et al., section 4.1).

Departures from the paper: a new token that the saved tokenizer never produces on the training
outputs is replaced by the next best one. N-grams never contain an added token of the base
tokenizer, and are valid UTF-8. The ``added`` export also skips n-grams that a byte-level decoder
would garble: non-ASCII text whose characters are all in the byte alphabet ("naïve").
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tokenizers import Tokenizer

from tasc.analysis.outputs import Outputs, encode_outputs
from tasc.backend.base import Int64
from tasc.data.corpus import Corpus, load
from tasc.data.source import Source
from tasc.errors import InputError
from tasc.progress import Progress, silent
from tasc.report.charts import chart
from tasc.report.html import template
from tasc.report.record import Reported
from tasc.tokenizer.loaded import LoadedTokenizer
from tasc.vocab.exports import export
from tasc.vocab.exports.merges import NewToken, TokenizerChange, write_merges
from tasc.vocab.measure.saved import changed_outputs, check_round_trip
from tasc.vocab.report import AugmentReport, OutputSizes, TrimReport
from tasc.vocab.search.budget import MOST, Curve, Sightings, budget_curve, replayed
from tasc.vocab.search.embedding_cost import EmbeddingCost
from tasc.vocab.search.options import AugmentOptions
from tasc.vocab.search.refine import Refined, Refiner, without_tokens
from tasc.vocab.trim import Trimmed, trim


@dataclass(frozen=True)
class Augmentation(Reported):
    """An augmented tokenizer, its new tokens, and the report of their effect."""

    tokenizer: Tokenizer
    files: dict[str, bytes]  # companions of tokenizer.json, by name
    tokens: tuple[NewToken, ...]
    kept: tuple[int, ...] | None  # ids of its other tokens in the base tokenizer; None: all
    source: str  # path of the data
    report: AugmentReport

    def save(self, folder: Path) -> None:
        """Write tokenizer.json, its companions and merges.json; with new tokens, budget.html."""
        folder.mkdir(parents=True, exist_ok=True)
        export.save(self.tokenizer, self.files, folder)
        write_merges(folder, TokenizerChange(self.tokens, self.kept))
        if self.tokens:
            page = render(self.report, self.source)
            (folder / "budget.html").write_text(page, encoding="utf-8")


class _Measured(NamedTuple):
    """Outputs as the saved tokenizer encodes them."""

    sizes: OutputSizes
    uses: Int64  # (M,) of each new token
    changed: int  # distinct outputs whose tokens, with new ones expanded, differ from the base's


def augment(
    corpus: Corpus,
    tokenizer: LoadedTokenizer,
    options: AugmentOptions,
    held_out: Sequence[str] = (),
    rows: EmbeddingCost | None = None,
    model_rows: int | None = None,
    progress: Progress = silent,
    train_outputs: Sequence[str] | None = None,
) -> Augmentation:
    """Choose ``options.new_tokens`` tokens for a task's outputs and export them.

    Fewer tokens are added if they shorten the outputs as much, if ``min_gain`` ends the search, or
    if no candidates are left after unused tokens are dropped; ``shortfall`` gives the reason. The
    effect is also measured on the outputs ``held_out``, by which "auto" chooses their number. The
    tokens are those of ``train_outputs``, by default all of ``corpus``. ``rows`` is the cost of
    a new row for the model, and ``model_rows`` its number of rows, if the model is known. With
    ``options.trim``, the base tokenizer first loses the tokens that neither prompts nor outputs of
    ``corpus`` need.

    Raises InputError if there are fewer candidates than tokens requested, if the export does not
    support the tokenizer, or if an output decodes neither to itself nor to the text that the base
    tokenizer decodes (Qwen2's composes accents).
    """
    kept_ids = None
    trim_report = None
    if options.trim:
        progress("choosing the tokens to keep", 0, 0)
        trimmed, trim_report = _trim(corpus, tokenizer, options, model_rows)
        tokenizer = trimmed.tokenizer
        kept_ids = trimmed.kept
    texts = corpus.outputs if train_outputs is None else train_outputs
    outputs = encode_outputs(texts, tokenizer, options.export)
    others = encode_outputs(held_out, tokenizer, options.export) if held_out else None
    name = corpus.source.path
    curve = None
    wanted = options.wanted
    if wanted:
        refiner = Refiner(tokenizer, outputs, others, options, progress)
        if not isinstance(wanted, int):
            curve = refiner.curve(refiner.search(MOST), rows)
            wanted = _recommended(curve, name)
        refined = refiner.run(name, wanted)
    else:
        refined = without_tokens(tokenizer, outputs, options)
    saved = LoadedTokenizer(refined.tokenizer, tokenizer.path, export.companions(tokenizer))
    train = _measure(outputs, tokenizer, saved, refined, refined.taken.last[0])
    later = None
    if others is not None:
        later = _measure(others, tokenizer, saved, refined, replayed(refined.taken, others)[-1])
    size = len(tokenizer.vocabulary())
    price = options.overfit_penalty
    curve = curve or budget_curve(refined.taken, size, outputs, others, rows, price)
    report = _report(options, size, refined, curve, train, later, trim_report)
    return Augmentation(
        refined.tokenizer, saved.files, refined.chosen.tokens, kept_ids, name, report
    )


def _recommended(curve: Curve, name: str) -> int:
    """Return the recommended number of new tokens, or 50, to be measured, if it is 0."""
    if most := curve.points[-1].budget:
        return curve.recommended_size.budget or min(50, most)
    raise InputError(
        f"{name}: no n-gram recurs in the outputs, so no token can be added: leave the steps "
        "`tokens` and `tasc-ft` out of the recipe"
    )


def _report(
    options: AugmentOptions,
    size: int,
    refined: Refined,
    curve: Curve,
    train: _Measured,
    later: _Measured | None,
    trim: TrimReport | None,
) -> AugmentReport:
    added = len(refined.chosen.tokens)
    return AugmentReport(
        export=options.export,
        budget=options.wanted,
        added=added,
        base_size=size,
        size=size + added,
        train=train.sizes,
        held_out=later and later.sizes,
        seen=Sightings.of(train.uses.tolist()),
        h2={"before": refined.result.h2_before, "after": refined.taken.last[1]},
        rejected=refined.result.rejected,
        duplicates=len(refined.result.aliases),
        excluded=refined.excluded,
        intermediate_merges=refined.chosen.length - added,
        unused=int(np.count_nonzero(train.uses == 0)),
        changed=train.changed + (later.changed if later else 0),
        rounds=refined.rounds,
        shortfall=refined.shortfall,
        curve=curve,
        trim=trim,
    )


def _trim(
    corpus: Corpus, base: LoadedTokenizer, options: AugmentOptions, model_rows: int | None
) -> tuple[Trimmed, TrimReport]:
    """Return the trimmed tokenizer and the effect of trimming."""
    texts = [*corpus.prompts, *corpus.outputs]
    trimmed = trim(base, texts, options.rows, model_rows)
    before, after = base.encode(texts).split(), trimmed.tokenizer.encode(texts).split()
    kept_ids = np.array(trimmed.kept)
    pairs = zip(before, after, strict=True)
    others = load(Source("builtin:stdlib-docs"), "test").outputs
    size = sum(len(text.encode()) for text in others)
    sides = {"before": base, "after": trimmed.tokenizer}
    report = TrimReport(
        before=len(base.vocabulary()),
        kept=len(kept_ids),
        used=trimmed.used,
        changed=sum(not np.array_equal(old, kept_ids[new]) for old, new in pairs),
        bytes_per_token={name: size / len(t.encode(others).tokens) for name, t in sides.items()},
    )
    return trimmed, report


def _measure(
    outputs: Outputs,
    base: LoadedTokenizer,
    saved: LoadedTokenizer,
    refined: Refined,
    predicted: int,
) -> _Measured:
    """Encode the outputs with the saved tokenizer, and check the round trip."""
    before, after = outputs.encoded, saved.encode(outputs.texts)
    check_round_trip(outputs.texts, before, after, base, saved)
    strings = base.vocabulary()
    tokens = refined.chosen.tokens
    new = after.tokens >= len(strings)
    uses = np.repeat(outputs.weights, np.diff(after.offsets))[new]
    counts = np.bincount(after.tokens[new] - len(strings), uses, len(tokens)).astype(np.int64)
    bytes_ = np.array([len(text.encode()) for text in outputs.texts], np.int64)
    totals = {
        "before": outputs.total(np.diff(before.offsets)),
        "predicted": predicted,
        "reached": outputs.total(np.diff(after.offsets)),
    }
    size = outputs.total(bytes_)
    sizes = OutputSizes.of(outputs.count, size, totals, int(counts.sum()))
    changed = changed_outputs(before, after, [t.base_ids for t in tokens], len(strings))
    return _Measured(sizes, counts, changed)


def render(result: AugmentReport, source: str) -> str:
    """Return ``budget.html``: benefit and cost by number of new tokens, escaped."""
    points, best = result.curve.points, result.curve.recommended_size
    marks: dict[float, str] = {best.budget: f"recommended: {best.budget:,}"}
    train = [(p.budget, p.train_steps) for p in points]
    held_out = [(p.budget, p.held_out_steps) for p in points if p.held_out_steps is not None]
    steps = held_out or train
    cost = {
        "steps": [(budget, n / steps[0][1]) for budget, n in steps],
        "cost": [(p.budget, p.cost) for p in points],
    }
    if points[0].parameters is not None:
        cost["time of a step"] = [(p.budget, 1 + p.slower) for p in points]
    added = [p for p in points if p.budget]
    seen: dict[str, list[tuple[int, float]]] = {
        "median": [(p.budget, p.seen.median) for p in added],
        "10th percentile": [(p.budget, p.seen.tenth) for p in added],
        "rarest": [(p.budget, p.seen.least) for p in added],
    }
    gain = {"training outputs": train, "held-out outputs": held_out}
    axis, title = "new tokens", "How often new tokens are seen"
    return template("tasc.vocab", "budget.html").render(
        result=result,
        source=source,
        points=points,
        recommended_size=best,
        gain=chart("Gain", gain, axis, "decoding steps per output", marks=marks),
        cost=chart("Cost", cost, axis, "against no new tokens", marks=marks),
        seen=chart(title, seen, axis, "occurrences in training", log="y"),
    )
