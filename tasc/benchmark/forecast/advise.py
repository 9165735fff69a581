"""Simulate TASC-spec on held-out outputs for ``tasc analyze``.

The analysis does not know drafters, so both meet here. Nothing imports torch: without a model,
``tasc analyze`` needs none.
"""

import numpy as np

from tasc.analysis.outputs import Outputs
from tasc.analysis.sample import SAMPLE
from tasc.analysis.tokens import expand
from tasc.benchmark.forecast.tune import Simulations
from tasc.benchmark.results.search import Search, ServedDrafts
from tasc.data.corpus import Corpus
from tasc.decoding.simulate import References
from tasc.models.cost_model import CostModel
from tasc.tokenizer.loaded import LoadedTokenizer

_ENOUGH = 0.98  # of the most tokens per step: longer drafts cost more than they gain


def simulations_of(
    corpus_outputs: Outputs,
    held_out: Corpus | None,
    tokenizer: LoadedTokenizer,
    cost: CostModel | None,
) -> Simulations | None:
    """Return the simulations of drafts from ``corpus_outputs`` on held-out outputs.

    The model has T(k) = ``cost``. Returns None without held-out outputs.
    """
    if held_out is None or not held_out.examples:
        return None
    drawn = expand(corpus_outputs.encoded, _drawn(corpus_outputs)).split()
    references = References.of(
        tokenizer,
        held_out.prompts,
        held_out.outputs,
        chains_only=bool(cost and cost.chains_only),
        drafts_first=cost is None or cost.drafts_first,
    )
    return Simulations(drawn, references, cost)


def _drawn(outputs: Outputs) -> np.ndarray:
    """Return the index of each text as often as it occurs; all less often above SAMPLE."""
    lengths = np.array([len(text) for text in outputs.texts])
    weights = outputs.weights
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
