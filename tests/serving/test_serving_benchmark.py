"""The served benchmark asks no prompt twice, and its figures are what was counted and timed."""

import pytest

from benchmarks.serving.engines import parts
from benchmarks.serving.predicted import compared
from benchmarks.serving.summary import summaries


def test_no_prompt_is_asked_twice():
    turns = list(parts(40, 3, {1: 2, 8: 10}))
    assert [(level, len(rows)) for level, rows in turns] == [(1, 2)] * 3 + [(8, 10)] * 3
    rows = [row for _, some in turns for row in some]
    assert len(set(rows)) == len(rows) == 36
    with pytest.raises(SystemExit, match="fewer --repeats"):
        list(parts(35, 3, {1: 2, 8: 10}))


def told(seconds, ids, accepted=0):
    counted = {"drafts": 2.0, "draft_tokens": 8.0, "accepted_tokens": accepted} if accepted else {}
    return {
        "seconds": seconds,
        "busy": seconds / 2,
        "forwards": 10,
        "ids": ids,
        "texts": ["right", "wrong"],
        "counted": counted,
    }


def test_figures_are_ratios_of_a_repeat_and_counts_of_all():
    ids = [[1, 2, 3], [4]]
    repeats = [
        {
            "m alone": told(2.0 * scale, ids),
            "m ours": told(1.0 * scale, ids if scale == 1 else [[1], [4]], accepted=5.0),
            "wanted": ["right", "other"],
        }
        for scale in (1, 7)
    ]
    found = summaries(["m alone", "m ours"], repeats, "alone")["m ours"]
    assert found["times_alone"] == found["times_alone_by_processor_time"] == 2.0
    assert found["times_first_spread"] == [2.0, 2.0]
    assert (found["drafts"], found["drafted"], found["accepted"]) == (4, 16, 10)
    assert found["accepted_length"] == 1 + 10 / 4
    assert found["outputs_equal"] == [3, 4]
    assert found["exact_match"] == 0.5
    assert found["forwards_a_request"] == 5


def test_a_prediction_is_beside_what_was_measured():
    trial = {
        "drafted_tokens": 80,
        "samples": 10,
        "engine_accepted_length": 3.0,
        "steps_per_output": 4.0,
        "tokens_per_output": 10.0,
    }
    own = {"forwards_a_request": 5.0, "accepted_length": 3.0, "times_alone": 2.0}
    cells = {
        "m alone": {"forwards_a_request": 10.0, "times_first": 1.0},
        "m ours": own | {"times_first": 2.0},
    }
    found = compared({"m": {"trials": [trial], "prompt_tokens": 9}}, cells, cost=0.125)
    told = found["m ours"]["times_alone"]
    assert told["predicted"] == (1 + 10) / (1 + 4 + 1)  # forwards; the prompt and drafts, 1 each
    assert told["error"] == told["predicted"] / 2 - 1
    assert told["near"]
    assert not found["m ours"]["forwards_a_request"]["near"]
    assert found["m alone"]["forwards_a_request"]["error"] == 0
