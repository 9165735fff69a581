"""Does H_2 predict the runtime? Tsur et al., appendix E: rank correlation and direction."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from tasc.errors import InputError


@dataclass(frozen=True)
class Measured:
    """One model of a sequence that differs in the budget only.

    Attributes:
        budget: M, tokens added.
        h2: Rényi-2 entropy of the output tokens, bits.
        runtime: any measured time (or number of steps); its unit does not matter.
    """

    budget: int
    h2: float
    runtime: float


@dataclass(frozen=True)
class Agreement:
    """How H_2 and the runtime of a sequence agree.

    Attributes:
        tau: Kendall's τ between them (E.1), -1 for perfect prediction; None where all values of
            one are equal.
        p_value: of the null hypothesis τ = 0.
        directional_rate: share of steps with rising H_2 on which the runtime falls (E.2);
            None where H_2 never rises.
        rises: number of such steps.
    """

    tau: float | None
    p_value: float | None
    directional_rate: float | None
    rises: int


def agreement(sequence: Sequence[Measured]) -> Agreement:
    """Compare H_2(M) and runtime(M) along one sequence, in order of M.

    Raises:
        InputError: fewer than two points, or two with the same budget.
    """
    points = sorted(sequence, key=lambda point: point.budget)
    if len(points) < 2:
        raise InputError(f"a rank correlation needs two budgets or more, saw {len(points)}")
    if any(low.budget == high.budget for low, high in pairwise(points)):
        raise InputError(
            "the budgets of a sequence must differ: take the mean of repeated runs first"
        )
    tau, p_value = _kendall([point.h2 for point in points], [point.runtime for point in points])
    rises = [(low, high) for low, high in pairwise(points) if high.h2 > low.h2]
    falls = sum(high.runtime < low.runtime for low, high in rises)
    rate = falls / len(rises) if rises else None
    return Agreement(tau, p_value, rate, len(rises))


def _kendall(left: list[float], right: list[float]) -> tuple[float | None, float | None]:
    from scipy.stats import kendalltau

    if len(set(left)) == 1 or len(set(right)) == 1:
        return None, None
    result = kendalltau(left, right)
    return float(result.statistic), float(result.pvalue)
