"""Which method suits a task, in plain words, from measured numbers.

The rule follows section 5.2, "Trade-off between methods", and section 3.1 of Tsur et al.: a small
typical set favours TASC-ft, a large one TASC-spec, and outputs of a few tokens need neither. The
thresholds are ours; each stands below with its reason.
"""

from dataclasses import dataclass

from tasc.benchmark.results.analysis import Choice, Verdict
from tasc.benchmark.results.search import Trial

# Fewer outputs than this say nothing of the next ones.
FEWEST = 10
# Outputs shorter than this (end included) leave nothing to save: reading the prompt dominates.
SHORT_STEPS = 4.0
# Fewer gains than this do not pay for fine-tuning with new tokens, or for verifying drafts.
WORTH_RATIO = 1.5
# Without a tokenizer: outputs that each stand so often, on average, are a token each.
REPEATED = 10
# Without a tokenizer: few words, which hundreds of n-grams cover in good part, and so many that
# even a large table misses most outputs. Words, as bigrams run across samples (Table 1) and so
# depend on their order (EUR-LEX 392, MedQuAD 1,540).
FEW_WORDS = 1_000
# Without a tokenizer: an output entropy at least this far below the input's.
LOWER_SHARE = 0.10


@dataclass(frozen=True)
class Evidence:
    """Measured numbers of one task; None where nothing was measured."""

    outputs: int  # how many were analysed
    words_per_output: float  # mean
    distinct: int  # different ones
    output_n80: int  # most frequent words of the outputs that make 80 % of all
    entropies: tuple[float, float]  # of the words of inputs and of outputs, bits
    steps_per_output: float | None = None  # tokens of an output and its end, mean
    # Steps without added tokens by steps with the recommended size, the end token counted in both
    step_ratio: float = 1.0
    added: int = 0  # the recommended size
    refused: str | None = None  # why the tokenizer does not take the export
    drafts: Trial | None = None  # TASC-spec, simulated on held-out outputs


def interval_of(drafts: Trial) -> tuple[float, float] | None:
    """Return the interval of tokens a step to show; None where outputs are too few for one.

    Resampling one output gives that output again: an interval of no width.
    """
    return drafts.tokens_per_step_interval if drafts.samples >= FEWEST else None


def decide(seen: Evidence) -> Verdict:
    """Choose by this rule.

    Too little data below FEWEST outputs. Measured on tokens: neither below SHORT_STEPS steps an
    output; TASC-ft when the predicted step ratio is WORTH_RATIO or more; TASC-spec when WORTH_RATIO
    tokens a step or more are simulated, and it is not predicted to be slower; both or neither
    accordingly. Where fewer than FEWEST outputs were held out or the interval holds WORTH_RATIO,
    TASC-spec is left open. Measured on words only: neither below two words an output; TASC-ft when
    each output stands REPEATED times, or few words (FEW_WORDS) cover 80 % and their entropy is
    LOWER_SHARE below the input's; else TASC-spec.
    """
    if seen.outputs < FEWEST:
        return Verdict("too little data", (_too_little(seen.outputs, f"{FEWEST} are needed"),))
    if seen.steps_per_output is None:
        return _from_words(seen)
    if seen.steps_per_output < SHORT_STEPS:
        short = (
            f"An output takes {seen.steps_per_output:.1f} decoding steps on average, its end "
            "included: there is nothing to save, reading the prompt dominates."
        )
        return Verdict("neither", (short,))
    fine_tune, speculate = _worth(seen.step_ratio), _drafts_pay(seen.drafts)
    choice: Choice = "too little data" if speculate is None else "neither"
    if fine_tune or speculate:
        choice = "both" if fine_tune and speculate else "TASC-ft" if fine_tune else "TASC-spec"
    reasons = [_of_fine_tuning(seen, fine_tune), _of_speculation(seen.drafts, speculate)]
    if choice == "both":
        reasons.append(
            "Fine-tune with the new tokens where the model may be trained, and draft on top; "
            "TASC-spec alone needs no training."
        )
    return Verdict(choice, tuple(reasons))


def _worth(ratio: float) -> bool:
    """Judge what is shown: 1.496 reads 1.50."""
    return round(ratio, 2) >= WORTH_RATIO


def _drafts_pay(drafts: Trial | None) -> bool | None:
    """Say whether drafts pay; None where the data does not tell."""
    interval = interval_of(drafts) if drafts else None
    if drafts is None or interval is None:
        return None
    if drafts.speedup is not None and round(drafts.speedup, 2) <= 1:
        return False
    low, high = map(_worth, interval)
    return low if low == high else None


def _too_little(outputs: int, why: str) -> str:
    seen = "1 output" if outputs == 1 else f"{outputs} outputs"
    return f"Too little data to say: {seen}, and {why}."


def _of_fine_tuning(seen: Evidence, worth: bool) -> str:
    if seen.refused:
        return f"TASC-ft: {seen.refused}."
    if not seen.added:
        return "No n-gram of the outputs is worth a token of its own: TASC-ft does not pay."
    tokens, verb = ("token", "is") if seen.added == 1 else ("tokens", "are")
    return (
        f"{seen.added:,} added {tokens}, the recommended size, {verb} predicted to take "
        f"{seen.step_ratio:.2f}× fewer decoding steps "
        f"({seen.steps_per_output:.1f} an output without, the end token counted): TASC-ft "
        f"{'pays' if worth else f'does not pay (it should be {WORTH_RATIO}× or more)'}."
    )


def _of_speculation(drafts: Trial | None, worth: bool | None) -> str:
    if drafts is None:
        return f"TASC-spec: {_too_little(0, 'some must be held out').lower()}"
    interval = interval_of(drafts)
    known = "" if interval is None else "(95 % CI {:.2f} to {:.2f}) ".format(*interval)
    found = (
        f"{drafts.method} commits {drafts.tokens_per_step:.2f} tokens per step {known}on "
        f"{drafts.samples:,} held-out outputs, the end token counted"
    )
    if drafts.speedup is not None:
        found += f", {drafts.speedup:.2f}× as fast as no drafts here, both predicted"
    if worth is None:
        few = f"{FEWEST} are needed" if drafts.samples < FEWEST else f"{WORTH_RATIO} lies within"
        return f"{found}. TASC-spec: {_too_little(drafts.samples, few).lower()}"
    need = f"does not pay (it should be {WORTH_RATIO} or more, and no slower)"
    return f"{found}: TASC-spec {'pays' if worth else need}."


def _from_words(seen: Evidence) -> Verdict:
    hint = "Judged by words only: name a tokenizer to have the compression and drafts measured."
    if seen.words_per_output < 2:
        short = f"An output has {seen.words_per_output:.1f} words on average: nothing to save."
        return Verdict("neither", (short, hint))
    before, after = seen.entropies
    repeated = seen.distinct * REPEATED <= seen.outputs
    low = repeated or (seen.output_n80 <= FEW_WORDS and after <= (1 - LOWER_SHARE) * before)
    numbers = (
        f"{seen.outputs:,} outputs, {seen.distinct:,} of them different"
        if repeated
        else f"{seen.output_n80:,} words make 80 % of the outputs, and their entropy is "
        f"{after:.2f} bits, that of the inputs' words {before:.2f}"
    ) + f": the outputs vary {'little' if low else 'much'}."
    why = "Added tokens cover little of them; drafts from the corpus need no training."
    if low:
        why = "A few hundred added tokens can cover a good part of them."
    if repeated:
        why = "Added tokens can cover whole outputs."
    return Verdict("TASC-ft" if low else "TASC-spec", (numbers, why, hint))
