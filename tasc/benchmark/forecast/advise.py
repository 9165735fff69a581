"""Simulate TASC-spec on held-out outputs for ``tasc analyze``.

The analysis does not know drafters, so both meet here. Nothing imports torch: without a model,
``tasc analyze`` needs none.
"""

import numpy as np

from tasc.analysis.outputs import Outputs
from tasc.analysis.report import Analysis
from tasc.analysis.sample import SAMPLE
from tasc.analysis.tokens import expand
from tasc.benchmark.forecast.tune import Simulations
from tasc.benchmark.results.prediction import FEWEST
from tasc.benchmark.results.search import Search, ServedDrafts
from tasc.data.corpus import Corpus
from tasc.decoding.simulate import LONGEST, References
from tasc.models.cost_model import CostModel
from tasc.tokenizer.loaded import LoadedTokenizer

_ENOUGH = 0.98  # of the most tokens per step: longer drafts cost more than they gain
_HELD_OUT_EVERY = 10  # without another split


def simulations_of(
    analysis: Analysis, held_out: Corpus | None, tokenizer: LoadedTokenizer, cost: CostModel | None
) -> Simulations | None:
    """Return the simulations of drafts on held-out outputs, for a model with T(k) = ``cost``.

    Without another split, a tenth of the outputs are held out, at least FEWEST but at most half.
    Returns None without held-out outputs.
    """
    once = analysis.searched
    if once is None:
        return None
    if held_out is None:
        prompts, outputs, weights = _hold_out(analysis, once)
    else:
        prompts, outputs, weights = held_out.prompts, held_out.outputs, once.weights
    if not outputs:
        return None
    known = expand(once.encoded, _drawn(once, weights)).split()
    limits = (LONGEST, cost.chains_only, cost.drafts_first) if cost else ()
    references = References.of(tokenizer, prompts, outputs, *limits)
    return Simulations(known, references, cost)


def _hold_out(analysis: Analysis, once: Outputs) -> tuple[list[str], list[str], np.ndarray]:
    """Return prompts and outputs that are held out, and the weights of the texts without them."""
    count, weights = analysis.report.samples, once.weights.copy()
    most = max(count // _HELD_OUT_EVERY, min(count // 2, FEWEST))
    rows = analysis.scan.rows[:most]
    prompts, outputs = [prompt for prompt, _ in rows], [output for _, output in rows]
    distinct = {text: i for i, text in enumerate(once.texts)}
    for text in outputs:
        if text in distinct:  # a sample of the outputs may lack it
            weights[distinct[text]] -= 1
    return prompts, outputs, weights


def _drawn(once: Outputs, weights: np.ndarray) -> np.ndarray:
    """Return the index of each text as often as it occurs; all less often above SAMPLE."""
    lengths = np.array([len(text) for text in once.texts])
    share = min(1.0, SAMPLE / max(int(weights @ lengths), 1))
    times = np.floor(weights * share + np.random.default_rng(0).random(len(weights)))
    return np.repeat(np.arange(len(weights)), times.astype(np.int64))


def served_drafts(engine: str, chains: Search) -> ServedDrafts:
    """Return the simulated chains with the number of draft tokens to set.

    With known times of forwards it is the fastest chain; else the shortest chain that commits
    nearly as many tokens per step as the best one.
    """
    if chains.cost is not None:
        best = max(chains.trials, key=lambda trial: trial.speedup or 0.0)
        reason = "the fastest by the times of forwards on this machine"
    else:
        enough = _ENOUGH * max(trial.tokens_per_step for trial in chains.trials)
        trials = [trial for trial in chains.trials if trial.tokens_per_step >= enough]
        best = min(trials, key=lambda trial: trial.setting.tree_size)
        reason = f"the fewest that commit {_ENOUGH:.0%} of the most tokens per step"
    return ServedDrafts(
        engine=engine,
        speculative_tokens=best.setting.tree_size,
        reason=reason,
        samples=chains.samples,
        prompt_tokens=chains.prompt_tokens,
        trials=chains.trials,
    )
