"""What drafts will do in an engine that verifies chains, from simulations on held-out outputs."""

from tasc.benchmark.results.search import Search, ServedDrafts, Trial

_ENOUGH = 0.98  # of the most tokens a step: longer drafts cost more than they bring


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
