"""Recommend TASC-ft, TASC-spec, both or neither for a task, with reasons.

The rule follows sections 3.1 and 5.2 ("Trade-off between methods") of Tsur et al.: a small typical
set favours TASC-ft, a large one TASC-spec, and outputs of a few tokens need neither. The thresholds
are our own.
"""

from tasc.analysis.report import TaskReport
from tasc.benchmark.results.analysis import Choice, Verdict
from tasc.benchmark.results.prediction import FEWEST
from tasc.benchmark.results.search import Trial
from tasc.vocab.search.predict import Prediction

NO_TOKENS = Prediction()

SHORT_STEPS = 4.0  # per output, including the end token; fewer save nothing: prefill dominates
WORTH_RATIO = 1.5  # a smaller one does not pay for fine-tuning, or for verifying drafts
# Without a tokenizer: occurrences per distinct output from which each output can be one token.
REPEATED = 10
# Without a tokenizer: a few hundred n-grams cover a good part of so few words. Words rather than
# bigrams, which run across samples and depend on their order (EUR-LEX 392, MedQuAD 1,540).
FEW_WORDS = 1_000
# Without a tokenizer: share by which the outputs' entropy is at least below the inputs'.
LOWER_SHARE = 0.10
_SHORT = (
    "An output takes {:.1f} decoding steps on average, including its end token: there is nothing "
    "to save, prefill dominates."
)
_ON_TOP = (
    "Fine-tune with the new tokens if you can train the model, and draft on top; TASC-spec alone "
    "needs no training."
)


def decide(
    report: TaskReport, drafts: Trial | None = None, new_tokens: Prediction = NO_TOKENS
) -> Verdict:
    """Choose by the analysis, the best simulated drafts, and the recommended number of new tokens.

    Below FEWEST outputs: too little data.

    Measured on tokens: neither below SHORT_STEPS steps per output. TASC-ft if the predicted step
    ratio is at least WORTH_RATIO. TASC-spec if the tokens per simulated step, after the prefill or
    in all, are WORTH_RATIO or more and it is not predicted to be slower; undecided below FEWEST
    held-out outputs, or if the former's interval contains WORTH_RATIO. Both or neither accordingly.

    Measured on words: neither below two words per output. TASC-ft if each output occurs REPEATED
    times on average, or if at most FEW_WORDS words make up 80 % of the outputs and their entropy is
    LOWER_SHARE below the inputs'. Else TASC-spec.
    """
    if report.samples < FEWEST:
        return Verdict("too little data", (_too_little(report.samples, f"{FEWEST} are needed"),))
    if report.tokens is None:
        return _from_words(report)
    steps = new_tokens.steps or report.tokens.output.tokens_per_sample + 1
    if steps < SHORT_STEPS:
        return Verdict("neither", (_SHORT.format(steps),), fine_tune=False)
    fine_tune, speculate = _worth(new_tokens.step_ratio), _drafts_pay(drafts)
    choice = _choice(fine_tune, speculate)
    reasons = [_of_fine_tuning(steps, new_tokens, fine_tune), _of_speculation(drafts, speculate)]
    if choice == "both":
        reasons.append(_ON_TOP)
    return Verdict(choice, tuple(reasons), None if new_tokens.refused else fine_tune)


def _choice(fine_tune: bool, speculate: bool | None) -> Choice:
    if fine_tune:
        return "both" if speculate else "TASC-ft"
    if speculate is None:
        return "too little data"
    return "TASC-spec" if speculate else "neither"


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
    in_all = _worth(drafts.tokens_per_output / drafts.steps_per_output)  # with the prefill
    return low or in_all if low == high else None


def _too_little(outputs: int, why: str) -> str:
    return f"Too little data to decide: {_outputs(outputs)}, and {why}."


def _outputs(count: int, kind: str = "") -> str:
    return f"{count:,} {kind}output{'' if count == 1 else 's'}"


def _of_fine_tuning(steps: float, new_tokens: Prediction, worth: bool) -> str:
    if new_tokens.refused:
        return f"TASC-ft: {new_tokens.refused}."
    size = new_tokens.recommended_size
    if not size or not size.budget:
        return "No n-gram of the outputs is worth a token of its own: TASC-ft does not pay."
    held_out = new_tokens.held_out
    judged = f" on {_outputs(held_out, 'held-out ')}" if held_out else ""
    tokens, verb = ("token", "is") if size.budget == 1 else ("tokens", "are")
    return (
        f"{size.budget:,} new {tokens}, the recommended size, {verb} predicted to take "
        f"{new_tokens.step_ratio:.2f}× fewer decoding steps{judged} ({steps:.1f} per output "
        "without new tokens, including the end token): TASC-ft "
        f"{'pays' if worth else f'does not pay (below {WORTH_RATIO}×)'}."
    )


def _of_speculation(drafts: Trial | None, worth: bool | None) -> str:
    if drafts is None:
        return f"TASC-spec: {_too_little(0, 'some must be held out').lower()}"
    bounds = "(95 % CI {:.2f} to {:.2f}) ".format(*drafts.interval) if drafts.interval else ""
    figure = (
        f"{drafts.method} commits {drafts.tokens_per_step:.2f} tokens per step {bounds}after the "
        f"prefill and takes {drafts.steps_per_output:.2f} steps per output with it on "
        f"{drafts.samples:,} held-out outputs, including the end token"
    )
    if drafts.speedup is not None:
        figure += f", and is {drafts.speedup:.2f}× as fast as no drafts here, both predicted"
    if worth is None:
        few = f"{FEWEST} are needed" if drafts.samples < FEWEST else f"{WORTH_RATIO} lies within"
        return f"{figure}. TASC-spec: {_too_little(drafts.samples, few).lower()}"
    need = f"does not pay (it needs at least {WORTH_RATIO}, and a speed-up)"
    return f"{figure}: TASC-spec {'pays' if worth else need}."


def _from_words(report: TaskReport) -> Verdict:
    inputs, outputs = report.input.ngrams[0], report.output.ngrams[0]
    hint = "Judged by words only: pass --tokenizer to measure the compression and drafts."
    if (words := report.output.words_per_sample) < 2:
        short = f"An output has {words:.1f} words on average: nothing to save."
        return Verdict("neither", (short, hint))
    why = "New tokens cover little of them; drafts from the corpus need no training."
    lower = outputs.entropy_bits <= (1 - LOWER_SHARE) * inputs.entropy_bits
    low = outputs.n80 <= FEW_WORDS and lower
    if low:
        why = "A few hundred new tokens can cover a good part of them."
    figures = (
        f"{outputs.n80:,} words make up 80 % of the outputs, and their entropy is "
        f"{outputs.entropy_bits:.2f} bits, {inputs.entropy_bits:.2f} for the inputs"
    )
    if report.distinct_outputs * REPEATED <= report.samples:
        low, why = True, "New tokens can cover whole outputs."
        figures = f"{report.samples:,} outputs, {report.distinct_outputs:,} of them different"
    figures += f": the outputs vary {'little' if low else 'much'}."
    return Verdict("TASC-ft" if low else "TASC-spec", (figures, why, hint))
