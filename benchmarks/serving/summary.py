"""Figures of the engines' answers: speed-ups, drafts, and quality of outputs."""

import statistics
from collections.abc import Sequence
from typing import Any

from tasc.benchmark.metrics import score

Answers = dict[str, Any]  # of an engine to the prompts of a repeat


def summaries(
    arms: Sequence[str], repeats: Sequence[dict[str, Any]], alone: str, valid: str | None = None
) -> dict[str, Any]:
    """Return each arm's figures: medians over ``repeats``, counts over all of them.

    ``repeats`` have the answers by arm, and the reference texts as ``wanted``. An arm's name is a
    model and a drafter. The baselines are the arm ``alone`` of its model, and the first arm.
    ``valid`` is a metric of validity.
    """
    wanted = [text for repeat in repeats for text in repeat["wanted"]]
    answers = {arm: [repeat[arm] for repeat in repeats] for arm in arms}
    return {
        arm: {
            **_times(answers[arm]),
            **_speedup("alone", answers[arm], answers[f"{arm.split()[0]} {alone}"]),
            **_speedup("first", answers[arm], answers[arms[0]]),
            **_drafts(answers[arm]),
            "outputs_equal": _equal(answers[arm], answers[f"{arm.split()[0]} {alone}"]),
            "exact_match": statistics.fmean(
                a.strip() == b.strip()
                for a, b in zip(_all(answers[arm], "texts"), wanted, strict=True)
            ),
            **_valid(_all(answers[arm], "texts"), valid),
        }
        for arm in arms
    }


def _valid(texts: Sequence[str], metric: str | None) -> dict[str, float]:
    return {} if metric is None else {"valid": score([metric], texts, texts, ",")[metric]}


def _all(answers: Sequence[Answers], what: str) -> list[Any]:
    return [one for repeat in answers for one in repeat[what]]


def _times(answers: Sequence[Answers]) -> dict[str, float]:
    """Return medians over the repeats; a forward may serve many requests."""
    requests = len(answers[0]["ids"])
    return {
        "tokens_per_second": statistics.median(
            sum(map(len, repeat["ids"])) / repeat["seconds"] for repeat in answers
        ),
        "busy_ms_a_request": statistics.median(1000 * one["busy"] / requests for one in answers),
        "ms_a_request": statistics.median(1000 * one["seconds"] / requests for one in answers),
        "ms_a_forward": statistics.median(
            1000 * one["seconds"] / one["forwards"] for one in answers
        ),
        "tokens_a_request": statistics.fmean(map(len, _all(answers, "ids"))),
        "forwards_a_request": statistics.fmean(one["forwards"] for one in answers) / requests,
    }


def _speedup(name: str, answers: Sequence[Answers], other: Sequence[Answers]) -> dict[str, Any]:
    """Return the speed-up over ``other`` on the same requests, by repeat.

    Also in CPU seconds, because wall-clock seconds mean little on a loaded machine.
    """
    found: dict[str, Any] = {}
    for clock, suffix in (("seconds", ""), ("busy", "_by_processor_time")):
        ratios = [one[clock] / own[clock] for own, one in zip(answers, other, strict=True)]
        found[f"times_{name}{suffix}"] = statistics.median(ratios)
        found[f"times_{name}{suffix}_spread"] = [min(ratios), max(ratios)]
    return found


def _drafts(answers: Sequence[Answers]) -> dict[str, float]:
    """Add vLLM's counters; its accepted length ignores steps without a draft."""
    drafts, drafted, accepted = (
        int(sum(repeat["counted"].get(name, 0) for repeat in answers))
        for name in ("drafts", "draft_tokens", "accepted_tokens")
    )
    return {
        "drafts": drafts,
        "drafted": drafted,
        "accepted": accepted,
        "accepted_length": 1 + accepted / drafts if drafts else 1.0,
    }


def _equal(answers: Sequence[Answers], alone: Sequence[Answers]) -> list[int]:
    same = [a == b for a, b in zip(_all(answers, "ids"), _all(alone, "ids"), strict=True)]
    return [sum(same), len(same)]
