"""Estimates of the time of a recipe's steps, as text."""

from collections.abc import Mapping

from tasc.commands.estimate import StepEstimate

from ._console import say


def show_estimates(estimates: Mapping[str, StepEstimate]) -> None:
    """Print the sum of the estimates by step, and what they are based on."""
    seconds = [one.seconds for one in estimates.values() if one.seconds is not None]
    if seconds:
        missing = ", and the steps that are not estimated" * (len(seconds) < len(estimates))
        say(f"Estimate for this machine without other work: {duration(sum(seconds))}{missing}.")
    for basis in dict.fromkeys(one.basis for one in estimates.values()):
        names = ", ".join(name for name, one in estimates.items() if one.basis == basis)
        say(f"  {names}: {basis}")


def duration(seconds: float | None) -> str:
    """Format seconds as seconds, minutes or hours."""
    if seconds is None:
        return "-"
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"
