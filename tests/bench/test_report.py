"""The page of a bench."""

import pytest

from tasc.bench.report import render


def small_report(cell=(), reference=(), **settings):
    """Render the figures of one cell whose names are markup, but for what ``cell`` says."""

    cell = {
        "model": "<b>m</b>",
        "method": "ar",
        "samples": 1,
        "ms_per_sample": 1.0,
        "ms_per_sample_spread": {"p10": 1.0, "p50": 1.0, "p90": 1.0},
        "tokens_per_second": 1.0,
        "tokens_per_output": 1.0,
        "decoding_steps_per_output": 1.0,
        "tokens_per_step": 1.0,
        "accepted_by_position": [],
        "seconds": dict.fromkeys(("prefill", "draft", "forward", "verify", "commit"), 0.1),
        "lossless": {"against": "ar", "identical": 1, "of": 1},
        "quality": {"exact_match": 1.0},
        **dict(cell),
    }
    results = {
        "task": {
            "source": "<i>s</i>",
            "split": "test",
            "samples": 1,
            "corpus_split": "train",
            "corpus_outputs": 1,
        },
        "settings": {
            "dtype": "float32",
            "device": "cpu",
            "threads": 1,
            "repeats": 1,
            "warmup": 0,
            "max_new_tokens": 1,
            "batch_size": 1,
            "sampling": None,
            **settings,
        },
        "cells": [cell],
        "reference": list(reference),
        "comparisons": [],
        "started": "now",
        "command_line": "tasc bench",
        "environment": {
            "tasc": "0",
            "git": None,
            "python": "3",
            "packages": {},
            "machine": {"processor": "p", "cores": 1},
        },
    }
    example = {
        "sample": 0,
        "prompt": "<script>alert(1)</script>",
        "reference": "&",
        "outputs": [{"model": "m", "text": "<img src=x>", "equal": False}],
    }
    return render(results, [example])


def test_user_text_is_escaped_in_the_report():
    page = small_report()
    assert "<script>" not in page
    assert "<img" not in page
    assert "<i>s" not in page
    assert "<b>m" not in page


@pytest.mark.parametrize("name", ["a$x^{$b", "_hidden", "日本"])
def test_a_report_takes_any_name(name):
    assert f">{name} · ar<" in small_report(cell={"model": name, "accepted_by_position": [0.5]})


def test_a_report_says_whether_it_was_sampled():
    assert "greedy;" in small_report()
    sampled = small_report(sampling={"temperature": 0.9, "verify": "sampled"})
    assert "greedy;" not in sampled
    assert "sampled;" in sampled
