"""What engines answered, as figures: speed beside others, drafts, and whether outputs are right."""

import statistics
from collections.abc import Sequence
from typing import Any

Told = dict[str, Any]  # what an engine answered to the prompts of a repeat


def summaries(arms: Sequence[str], repeats: Sequence[dict[str, Any]], alone: str) -> dict[str, Any]:
    """Return each arm's figures: medians over ``repeats``, counts over all of them.

    ``repeats`` hold by arm what was told, and the texts ``wanted``. An arm is a model's name and a
    drafter's; the one called ``alone`` of the same model, and the first of all, are compared with.
    """
    wanted = [text for repeat in repeats for text in repeat["wanted"]]
    told = {arm: [repeat[arm] for repeat in repeats] for arm in arms}
    return {
        arm: {
            **_times(told[arm]),
            **_speedup("alone", told[arm], told[f"{arm.split()[0]} {alone}"]),
            **_speedup("first", told[arm], told[arms[0]]),
            **_drafts(told[arm]),
            "outputs_equal": _equal(told[arm], told[f"{arm.split()[0]} {alone}"]),
            "exact_match": statistics.fmean(
                a.strip() == b.strip()
                for a, b in zip(_all(told[arm], "texts"), wanted, strict=True)
            ),
        }
        for arm in arms
    }


def _all(told: Sequence[Told], what: str) -> list[Any]:
    return [one for repeat in told for one in repeat[what]]


def _times(told: Sequence[Told]) -> dict[str, float]:
    """Return medians over the repeats; a forward may be one of many requests."""
    requests = len(told[0]["ids"])
    return {
        "tokens_per_second": statistics.median(
            sum(map(len, repeat["ids"])) / repeat["seconds"] for repeat in told
        ),
        "busy_ms_a_request": statistics.median(1000 * one["busy"] / requests for one in told),
        "ms_a_request": statistics.median(1000 * one["seconds"] / requests for one in told),
        "ms_a_forward": statistics.median(1000 * one["seconds"] / one["forwards"] for one in told),
        "tokens_a_request": statistics.fmean(map(len, _all(told, "ids"))),
        "forwards_a_request": statistics.fmean(one["forwards"] for one in told) / requests,
    }


def _speedup(name: str, told: Sequence[Told], other: Sequence[Told]) -> dict[str, Any]:
    """Return how many times as fast the same requests were, repeat by repeat.

    Also by the seconds of the processor: those of the clock say little on a machine that is shared.
    """
    found: dict[str, Any] = {}
    for clock, suffix in (("seconds", ""), ("busy", "_by_processor_time")):
        ratios = [one[clock] / own[clock] for own, one in zip(told, other, strict=True)]
        found[f"times_{name}{suffix}"] = statistics.median(ratios)
        found[f"times_{name}{suffix}_spread"] = [min(ratios), max(ratios)]
    return found


def _drafts(told: Sequence[Told]) -> dict[str, float]:
    """Add up vLLM's counters; its accepted length leaves out steps without a draft."""
    drafts, drafted, accepted = (
        int(sum(repeat["counted"].get(name, 0) for repeat in told))
        for name in ("drafts", "draft_tokens", "accepted_tokens")
    )
    return {
        "drafts": drafts,
        "drafted": drafted,
        "accepted": accepted,
        "accepted_length": 1 + accepted / drafts if drafts else 1.0,
    }


def _equal(told: Sequence[Told], alone: Sequence[Told]) -> list[int]:
    same = [a == b for a, b in zip(_all(told, "ids"), _all(alone, "ids"), strict=True)]
    return [sum(same), len(same)]
