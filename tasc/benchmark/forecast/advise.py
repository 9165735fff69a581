"""The verdict of an analysis: what was counted, and TASC-spec simulated on held-out outputs.

It is made here, above both, as the analysis does not know drafters. Nothing imports torch, so that
``tasc analyze`` needs none without a model.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tasc.analysis.outputs import Outputs
from tasc.analysis.report import Analysis, TaskReport
from tasc.analysis.sample import SAMPLE
from tasc.analysis.tokens import expand
from tasc.benchmark.forecast.tune import Grid, Simulations, search
from tasc.benchmark.forecast.verdict import FEWEST, Evidence, decide
from tasc.benchmark.results.analysis import Verdict
from tasc.benchmark.results.search import Search, ServedDrafts, Setting, Trial
from tasc.data.corpus import Corpus
from tasc.decoding.simulate import References
from tasc.progress import Progress, silent
from tasc.tokenizer.loaded import LoadedTokenizer
from tasc.vocab.search.predict import Prediction

if TYPE_CHECKING:
    from tasc.models.cost_model import CostModel

DEFAULT = Setting()
NO_TOKENS = Prediction()
_ENOUGH = 0.98  # of the most tokens a step: longer drafts cost more than they bring
_HELD_OUT_EVERY = 10  # where there is no other split


def simulate_drafts(
    analysis: Analysis,
    held_out: Corpus | None,
    tokenizer: LoadedTokenizer,
    grid: Grid,
    *,
    start: Setting = DEFAULT,
    cost: "CostModel | None" = None,
    progress: Progress = silent,
) -> Search | None:
    """Simulate the setting ``start`` of TASC-spec on held-out outputs, and those along ``grid``.

    Without another split, every tenth output is held out, or FEWEST where that is more and others
    are left; none at all gives None.
    """
    once = analysis.searched
    if once is None:
        return None
    prompts, outputs = analysis.rows.prompts, analysis.rows.outputs
    weights = once.weights
    if held_out is not None:
        prompts, outputs = held_out.prompts, held_out.outputs
    else:
        count = analysis.report.samples
        most = max(count // _HELD_OUT_EVERY, min(count // 2, FEWEST))
        prompts, outputs = prompts[:most], outputs[:most]
        weights = _without(once, outputs)
    if not outputs:
        return None
    references = References.of(tokenizer, prompts, outputs)
    simulations = Simulations(_known(once, weights), references)
    return search(simulations, start, grid, cost=cost, progress=progress)


def _without(once: Outputs, held_out: list[str]) -> np.ndarray:
    """Return the weights of the outputs (S,) that are left when each of ``held_out`` is out."""
    rows = {text: row for row, text in enumerate(once.texts)}
    weights = once.weights.copy()
    for text in held_out:
        if text in rows:  # else the sample is without it
            weights[rows[text]] -= 1
    return weights


def _known(once: Outputs, weights: np.ndarray) -> list[np.ndarray]:
    """Repeat each output as its weight says; all less often where that is more than SAMPLE."""
    lengths = np.array([len(text) for text in once.texts])
    share = min(1.0, SAMPLE / max(int(weights @ lengths), 1))
    often = np.floor(weights * share + np.random.default_rng(0).random(len(weights)))
    rows = np.repeat(np.arange(len(weights)), often.astype(np.int64))
    return expand(once.encoded, rows).split()


def advise(
    report: TaskReport, drafts: Search | None, new_tokens: Prediction = NO_TOKENS
) -> Verdict:
    """Weigh the analysis and the best setting that was simulated.

    New tokens are judged at the recommended size, which is what ``tasc augment --new-tokens auto``
    adds.
    """
    inputs, outputs = report.input.ngrams[0], report.output.ngrams[0]
    words = Evidence(
        report.samples,
        report.output.words_per_sample,
        report.distinct_outputs,
        outputs.n80,
        (inputs.entropy_bits, outputs.entropy_bits),
    )
    if report.tokens is None:
        return decide(words)
    size = new_tokens.recommended_size
    return decide(
        replace(
            words,
            steps_per_output=report.tokens.output.tokens_per_sample + 1,
            step_ratio=new_tokens.step_ratio,
            added=size.budget if size else 0,
            refused=new_tokens.refused,
            drafts=None if drafts is None else drafts.best,
        )
    )


def served_drafts(engine: str, found: Search) -> ServedDrafts:
    """Return the simulated chains with the length to set.

    That is the fastest where the times of forwards are known; else the shortest that commits
    nearly as many tokens a step as the best.
    """
    return ServedDrafts(
        engine=engine,
        speculative_tokens=_chosen(found).setting.tree_size,
        reason=(
            f"the fewest that commit {_ENOUGH:.0%} of the most tokens a step"
            if found.cost is None
            else "the fastest by the times of this machine's forwards"
        ),
        samples=found.samples,
        prompt_tokens=found.prompt_tokens,
        trials=found.trials,
    )


def _chosen(found: Search) -> Trial:
    if found.cost is not None:
        return max(found.trials, key=lambda trial: trial.speedup or 0.0)
    most = max(trial.tokens_per_step for trial in found.trials)
    enough = [t for t in found.trials if t.tokens_per_step >= _ENOUGH * most]
    return min(enough, key=lambda trial: trial.setting.tree_size)
