"""``tasc analyze``: measure how predictable the outputs are, and predict each method's gain."""

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from tasc.analysis.entropy import WordStats
from tasc.analysis.report import TokenReport
from tasc.benchmark.results.analysis import AnalysisResults, Verdict
from tasc.benchmark.results.prediction import StepFigures
from tasc.benchmark.results.search import Costs, Drafting, ServedDrafts, Structured
from tasc.vocab.search.budget import Point
from tasc.vocab.search.predict import BudgetPoint
from tasc.vocab.trim import TrimPoint

from .._console import say, speedup_text, table, table_of, warn_of_rough

_REASONS = 3  # why outputs do not satisfy a constraint
# The columns of a table of simulated drafts.
_FIGURES: dict[str, Callable[[StepFigures], str]] = {
    "tokens/step": lambda d: f"{d.tokens_per_step:.2f}",
    "95 % CI": lambda d: "{:.2f}–{:.2f}".format(*d.interval) if d.interval else "too few",
    "steps/output": lambda d: f"{d.steps_per_output:.2f}",
    "speed-up": speedup_text,
}


def show(results: AnalysisResults) -> None:
    """Print bigrams (Table 1 of the paper), tokens, predictions and the verdict."""
    _show_bigrams(results)
    parts: tuple[tuple[object, Callable[[Any], None]], ...] = (
        (results.tokens, _show_tokens),
        (results.budgets, _show_budgets),
        (results.recommended_size, _show_recommended_size),
        (results.trim, _show_trim),
        (results.drafting, _show_drafting),
        (results.structured, _show_structured),
        (results.serving, _show_serving),
    )
    for part, show_part in parts:
        if part:
            show_part(part)
    show_verdict(results.verdict)


def show_verdict(verdict: Verdict) -> None:
    """Print a verdict and its reasons."""
    say(f"Verdict: {verdict.choice}")
    for reason in verdict.reasons:
        say(f"  {reason}")


def _show_bigrams(results: AnalysisResults) -> None:
    has_change = round(results.input.bigrams.entropy_bits, 2) > 0
    change = f"{results.entropy_change:+z.1%}" if has_change else "-"
    dropped = f"; skipped {results.dropped:,} without an output" if results.dropped else ""
    rows = [_bigram_row("input", results.input), _bigram_row("output", results.output)]
    table(
        f"Word bigrams of {results.path} ({results.split}, {results.samples:,} samples{dropped})",
        ["", "entropy (bits)", "distinct bigrams", "bigrams for 80 %", "words/sample"],
        [*rows, ["change", change, "", f"{results.coverage_ratio:.1f}", ""]],
    )


def _bigram_row(name: str, side: WordStats) -> list[str]:
    bigrams = side.bigrams
    figures = [f"{bigrams.entropy_bits:.2f}", f"{bigrams.distinct:,}", f"{bigrams.n80:,}"]
    return [name, *figures, f"{side.words_per_sample:.1f}"]


def _show_tokens(tokens: TokenReport) -> None:
    table_of(
        f"Tokens of {tokens.tokenizer} ({tokens.vocabulary:,} in the vocabulary)",
        [(n, s, s.ngrams[0]) for n, s in (("input", tokens.input), ("output", tokens.output))],
        {
            "": lambda row: row[0],
            "tokens/sample": lambda row: f"{row[1].tokens_per_sample:.2f}",
            "bytes/token": lambda row: f"{row[1].bytes_per_token:.2f}",
            "entropy H": lambda row: f"{row[2].entropy_bits:.2f}",
            "H / log2|V|": lambda row: f"{row[2].normalised:.3f}",
            "Rényi H2": lambda row: f"{row[2].renyi2_bits:.2f}",
            "typical set": lambda row: f"{row[2].typical_set:,.0f}",
        },
    )


def _show_budgets(budgets: tuple[BudgetPoint, ...]) -> None:
    table_of(
        "TASC-ft: predicted from one merge search on the training outputs",
        budgets,
        {
            "new tokens": lambda point: f"{point.added:,}",
            "tokens/output": lambda point: f"{point.tokens_per_output:.2f}",
            "bytes/token": lambda point: f"{point.bytes_per_token:.2f}",
            "H2 (bits)": lambda point: f"{point.h2_bits:.2f}",
            "step ratio": lambda point: f"{point.step_ratio:.2f}×",
        },
    )
    say("Step ratio: decoding steps per output without new tokens, divided by steps with them.")


def _show_recommended_size(recommended: Point) -> None:
    size = recommended.budget
    why = "as tasc augment --new-tokens auto chooses it" if size else "as none is likely to pay"
    say(f"Recommended size: {size:,} new token{'' if size == 1 else 's'}, {why}")


def _show_trim(points: tuple[TrimPoint, ...]) -> None:
    table_of(
        "A smaller vocabulary, predicted by the weights that a step reads",
        points,
        {
            "rows": lambda point: f"{point.rows:,}",
            "parameters": lambda point: f"{point.parameters:,}",
            "of the model": lambda point: f"{point.parameter_share:.0%}",
            "step ratio": lambda point: f"{point.step_ratio:.2f}×",
        },
    )
    say("tasc augment --trim --rows N keeps N tokens, and with them all that the task uses.")


def _show_drafting(drafting: Drafting) -> None:
    if drafting.cost:
        _show_cost(drafting.cost)
        key, title = "speedup", "best settings by predicted speed-up"
    else:
        key, title = "steps_per_output", "default setting"
        if len(drafting.trials) > 1:
            title = "best settings by steps; --model also predicts speed-ups"
    trials = sorted(drafting.trials, key=attrgetter(key), reverse=key == "speedup")
    title = f"TASC-spec: simulated on {drafting.samples:,} held-out outputs, {title}"
    table_of(title, trials[:4], {"": lambda trial: trial.method, **_FIGURES})
    say(
        "Tokens/step: mean number of tokens committed per step after the prefill. Steps include "
        "the prefill and the end token."
    )
    warn_of_rough(trials)
    if len(trials) > 1:
        say(f"Best: --method {drafting.best.method}")


def _show_cost(cost: Costs) -> None:
    sizes = [(k, t) for k, t in zip(cost.sizes, cost.seconds, strict=True) if k > 1]
    figures = ", ".join(f"{t / cost.seconds[0]:.2f} for {k}" for k, t in sizes[::2])
    say(f"Cost of a forward on this machine, relative to one token: {figures} tokens")


def _show_structured(structured: Structured) -> None:
    say(
        f"{structured.valid:.1%} of the held-out outputs satisfy {structured.constraint}. It "
        f"determines {structured.determined:.1%} of their tokens and leaves "
        f"{structured.decisions:.2f} per output open."
    )
    for reason in structured.misfits[:_REASONS]:
        say(f"  {reason}")
    if structured.methods:
        title = (
            f"Drafts of {structured.constraint}, simulated on {structured.samples:,} valid outputs"
        )
        table_of(title, structured.methods, {"": lambda method: method.name, **_FIGURES})


def _show_serving(serving: ServedDrafts) -> None:
    engine = serving.engine
    table_of(
        f"Served by {engine}: chains simulated on {serving.samples:,} held-out outputs",
        serving.trials,
        {
            "draft tokens": lambda trial: str(trial.setting.tree_size),
            "steps/output": lambda trial: f"{trial.steps_per_output:.2f}",
            "tokens/step": lambda trial: f"{trial.tokens_per_step:.2f}",
            f"accepted ({engine})": lambda trial: f"{trial.engine_accepted_length:.2f}",
            "speed-up": speedup_text,
        },
    )
    say(f"{engine} reports 1 + accepted tokens per draft; it ignores steps without a draft.")
    say(f"Set --speculative-tokens {serving.speculative_tokens}: {serving.reason}.")
