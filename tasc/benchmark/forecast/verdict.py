"""Recommend TASC-ft, TASC-spec, both or neither for a task, with reasons.

The rule follows sections 3.1 and 5.2 ("Trade-off between methods") of Tsur et al.: a small typical
set favours TASC-ft, a large one TASC-spec, and outputs of a few tokens need neither. The thresholds
are our own.
"""

from dataclasses import dataclass

from tasc.benchmark.results.analysis import Choice, Verdict
from tasc.benchmark.results.prediction import FEWEST
from tasc.benchmark.results.search import Trial

# Steps per output, including the end token. Shorter outputs save nothing: prefill dominates.
SHORT_STEPS = 4.0
# A smaller ratio does not pay for fine-tuning with new tokens, or for verifying drafts.
WORTH_RATIO = 1.5
# Without a tokenizer: occurrences per distinct output from which each output can be one token.
REPEATED = 10
# Without a tokenizer: a few hundred n-grams cover a good part of so few words. Words rather than
# bigrams, which run across samples and depend on their order (EUR-LEX 392, MedQuAD 1,540).
FEW_WORDS = 1_000
# Without a tokenizer: share by which the outputs' entropy is at least below the inputs'.
LOWER_SHARE = 0.10


@dataclass(frozen=True)
class Evidence:
    """Figures of one task; None if not measured."""

    outputs: int  # number of outputs analysed
    words_per_output: float  # mean
    distinct: int  # number of different outputs
    output_n80: int  # number of the outputs' most frequent words that make up 80 % of all words
    entropies: tuple[float, float]  # of the words of inputs and of outputs, bits
    steps_per_output: float | None = None  # mean tokens of an output, including the end token
    step_ratio: float = 1.0  # steps without new tokens, divided by steps with the recommended size
    added: int = 0  # the recommended size
    refused: str | None = None  # reason why the tokenizer cannot take the export
    drafts: Trial | None = None  # TASC-spec, simulated on held-out outputs


def decide(seen: Evidence) -> Verdict:
    """Choose by this rule.

    Below FEWEST outputs: too little data.

    Measured on tokens: neither below SHORT_STEPS steps per output. TASC-ft if the predicted step
    ratio is at least WORTH_RATIO. TASC-spec if at least WORTH_RATIO tokens per step are simulated
    and it is not predicted to be slower; undecided with fewer than FEWEST held-out outputs, or if
    the confidence interval contains WORTH_RATIO. Both or neither accordingly.

    Measured on words: neither below two words per output. TASC-ft if each output occurs REPEATED
    times on average, or if at most FEW_WORDS words make up 80 % of the outputs and their entropy is
    LOWER_SHARE below the inputs'. Else TASC-spec.
    """
    if seen.outputs < FEWEST:
        return Verdict("too little data", (_too_little(seen.outputs, f"{FEWEST} are needed"),))
    if seen.steps_per_output is None:
        return _from_words(seen)
    if seen.steps_per_output < SHORT_STEPS:
        short = (
            f"An output takes {seen.steps_per_output:.1f} decoding steps on average, including its "
            "end token: there is nothing to save, prefill dominates."
        )
        return Verdict("neither", (short,))
    fine_tune, speculate = _worth(seen.step_ratio), _drafts_pay(seen.drafts)
    choice: Choice = "too little data" if speculate is None else "neither"
    if fine_tune or speculate:
        choice = "both" if fine_tune and speculate else "TASC-ft" if fine_tune else "TASC-spec"
    reasons = [_of_fine_tuning(seen, fine_tune), _of_speculation(seen.drafts, speculate)]
    if choice == "both":
        reasons.append(
            "Fine-tune with the new tokens if you can train the model, and draft on top; TASC-spec "
            "alone needs no training."
        )
    return Verdict(choice, tuple(reasons))


def _worth(ratio: float) -> bool:
    """Judge the printed ratio: 1.496 is printed as 1.50."""
    return round(ratio, 2) >= WORTH_RATIO


def _drafts_pay(drafts: Trial | None) -> bool | None:
    """Return whether drafts pay; None if the data is too little to decide."""
    if drafts is None or drafts.interval is None:
        return None
    if drafts.speedup is not None and round(drafts.speedup, 2) <= 1:
        return False
    low, high = map(_worth, drafts.interval)
    return low if low == high else None


def _too_little(outputs: int, why: str) -> str:
    count = "1 output" if outputs == 1 else f"{outputs} outputs"
    return f"Too little data to decide: {count}, and {why}."


def _of_fine_tuning(seen: Evidence, worth: bool) -> str:
    if seen.refused:
        return f"TASC-ft: {seen.refused}."
    if not seen.added:
        return "No n-gram of the outputs is worth a token of its own: TASC-ft does not pay."
    tokens, verb = ("token", "is") if seen.added == 1 else ("tokens", "are")
    return (
        f"{seen.added:,} new {tokens}, the recommended size, {verb} predicted to take "
        f"{seen.step_ratio:.2f}× fewer decoding steps ({seen.steps_per_output:.1f} per output "
        "without new tokens, including the end token): TASC-ft "
        f"{'pays' if worth else f'does not pay (below {WORTH_RATIO}×)'}."
    )


def _of_speculation(drafts: Trial | None, worth: bool | None) -> str:
    if drafts is None:
        return f"TASC-spec: {_too_little(0, 'some must be held out').lower()}"
    bounds = "(95 % CI {:.2f} to {:.2f}) ".format(*drafts.interval) if drafts.interval else ""
    figure = (
        f"{drafts.method} commits {drafts.tokens_per_step:.2f} tokens per step {bounds}on "
        f"{drafts.samples:,} held-out outputs, including the end token"
    )
    if drafts.speedup is not None:
        figure += f", and is {drafts.speedup:.2f}× as fast as no drafts here, both predicted"
    if worth is None:
        few = f"{FEWEST} are needed" if drafts.samples < FEWEST else f"{WORTH_RATIO} lies within"
        return f"{figure}. TASC-spec: {_too_little(drafts.samples, few).lower()}"
    need = f"does not pay (it needs at least {WORTH_RATIO}, and a speed-up)"
    return f"{figure}: TASC-spec {'pays' if worth else need}."


def _from_words(seen: Evidence) -> Verdict:
    hint = "Judged by words only: pass --tokenizer to measure the compression and drafts."
    if seen.words_per_output < 2:
        short = f"An output has {seen.words_per_output:.1f} words on average: nothing to save."
        return Verdict("neither", (short, hint))
    before, after = seen.entropies
    why = "New tokens cover little of them; drafts from the corpus need no training."
    low = seen.output_n80 <= FEW_WORDS and after <= (1 - LOWER_SHARE) * before
    if low:
        why = "A few hundred new tokens can cover a good part of them."
    figures = (
        f"{seen.output_n80:,} words make up 80 % of the outputs, and their entropy is {after:.2f} "
        f"bits, {before:.2f} for the inputs"
    )
    if seen.distinct * REPEATED <= seen.outputs:
        low, why = True, "New tokens can cover whole outputs."
        figures = f"{seen.outputs:,} outputs, {seen.distinct:,} of them different"
    figures += f": the outputs vary {'little' if low else 'much'}."
    return Verdict("TASC-ft" if low else "TASC-spec", (figures, why, hint))
