"""``tasc judge`` before judges that are fair, biased, chatty, broken, or hostile."""

import json

import pytest

from tasc.benchmark.judge.results import JudgeResults
from tasc.benchmark.judge.rubric import Question, parse
from tasc.errors import UnavailableError
from tests.benchmark.judges import SECTION, answers, judged, prefers
from tests.benchmark.stub_server import Behaviour, serving


@pytest.mark.parametrize(
    ("reply", "scores"),
    [
        *(("4 2", (4, 2)), ("1  3\n\nThe first…", (1, 3)), ("\n4 4 \n", (4, 4))),
        *(("4, 2", None), ("4", None), ("4 2 1", None), ("5 1", None), ("0 1", None), ("", None)),
        *(("Scores: 4 2", None), ("4.0 2", None), ("４ 2", None), ("³ 2", None), ("-1 2", None)),
        *(("I think\n4 2", None), ("4 02", None)),
    ],
)
def test_the_first_line_is_scores_and_nothing_else(reply, scores):
    assert parse(reply, 2) == scores


def test_the_judge_is_asked_with_the_rubric_and_the_words_of_the_task():
    text = Question("{input}", "Tag it.", "clinical").text(["x {0}", "y"])
    assert text.startswith("You are an intelligent clinical language model.")
    assert "2 corresponding responses from 2 different clinical models" in text
    assert "[Instruction Begin]\nTag it.\n[Instruction End]" in text
    assert "[Prompt Begin]\n{input}\n[Prompt End]" in text
    assert SECTION.findall(text) == ["x {0}", "y"]
    assert text.endswith("separated by spaces. Output scores without explanation.")
    assert "eference" not in text
    known = Question("p", "i", reference="the right one").text(["x", "y", "z"])
    assert "You are an intelligent language model." in known
    assert "[Reference Answer Begin]\nthe right one\n[Reference Answer End]" in known
    assert "must contain only 3 values" in known


def test_a_preference_comes_out_as_it_is(bench):
    behaviour = Behaviour(chat=prefers("two"))
    with serving(behaviour) as url:
        found = judged(bench, url)
    one, two = found.models
    assert (one.model, one.method, one.mean, one.sd) == ("one", "ar", 2, 0)
    assert (two.mean, two.shares, two.same_in_both_orders) == (4, (0, 0, 0, 1), 1)
    (pair,) = found.pairs
    assert (pair.model, pair.against, pair.difference, pair.interval) == ("two", "one", 2, (2, 2))
    assert (pair.better, pair.worse, pair.equal, pair.same_in_both_orders) == (12, 0, 0, 1)
    assert found.by_position == (3, 3)
    assert (found.complete, found.asked, found.unparsed, found.failed) == (12, 24, 0, 0)
    assert (found.judge.model, len(behaviour.seen)) == ("m", 24)
    assert {sent["temperature"] for sent in behaviour.seen} == {0}
    assert JudgeResults.model_validate(json.loads(json.dumps(found.to_dict()))) == found


def test_a_difference_on_some_samples_has_an_interval_and_a_spread(bench):
    def of_even_numbers(messages):
        shown = answers(messages)
        return " ".join("4" if "two" in a and int(a[-1]) % 2 == 0 else "3" for a in shown)

    with serving(Behaviour(chat=of_even_numbers)) as url:
        found = judged(bench, url)
    one, two = found.models
    assert (two.mean, one.mean) == (3.5, 3)
    assert two.sd == pytest.approx(0.5222, abs=1e-4)  # of six 3s and six 4s
    assert two.shares == (0, 0, 0.5, 0.5)
    (pair,) = found.pairs
    assert (pair.better, pair.worse, pair.equal) == (6, 0, 6)
    assert 0 < pair.interval[0] < pair.difference == 0.5 < pair.interval[1] < 1


def test_position_bias_is_seen_and_moves_no_model(bench):
    with serving(Behaviour(chat=lambda _: "4 1")) as url:
        found = judged(bench, url)
    assert [model.mean for model in found.models] == [2.5, 2.5]
    assert [model.same_in_both_orders for model in found.models] == [0, 0]
    (pair,) = found.pairs
    assert (pair.difference, pair.interval, pair.equal) == (0, (0, 0), 12)
    assert pair.same_in_both_orders == 0
    assert found.by_position == (4, 1)


def test_each_sample_is_judged_in_a_drawn_order_and_in_its_reverse(bench):
    behaviour = Behaviour(chat=lambda messages: "3 3 3")
    with serving(behaviour) as url:
        found = judged(bench, url, only=(), concurrency=1)
        again = judged(bench, url, only=(), concurrency=8)
        other = judged(bench, url, only=(), seed=1)
    firsts = set()
    for sample in found.samples:
        drawn, turned = sample.judgements
        assert drawn.models == turned.models[::-1]
        assert {*drawn.models} == {"one", "two", "three"}
        firsts.add(drawn.models)
    assert len(firsts) > 2
    assert found.samples == again.samples != other.samples
    assert [(p.model, p.against) for p in found.pairs] == [
        *(("two", "one"), ("three", "one"), ("three", "two"))
    ]
    shown = answers(behaviour.seen[0]["messages"])
    assert shown == [f"{model} 0" for model in found.samples[0].judgements[0].models]


def test_prose_is_asked_again_once_kept_and_left_out(bench):
    scored = iter(["3 4"])  # half a sample, which says nothing
    behaviour = Behaviour(chat=lambda _: next(scored, "Both answers are fine."))
    with serving(behaviour) as url:
        found = judged(bench, url, limit=3, concurrency=1)
    assert (found.complete, found.asked, found.unparsed, found.failed) == (0, 6, 5, 0)
    assert len(behaviour.seen) == 11
    assert found.samples[2].judgements[1].replies == ("Both answers are fine.",) * 2
    assert (found.pairs, found.by_position) == ((), None)
    assert [(m.mean, m.sd, m.shares, m.same_in_both_orders) for m in found.models] == [
        *((None,) * 4, (None,) * 4)
    ]


def test_what_is_told_when_asked_again_counts_and_half_a_sample_does_not(bench):
    def hesitant(messages):
        if "number 3\n" in messages[0]["content"] and answers(messages)[0].startswith("one"):
            return "neither"
        if len(messages) == 1:
            return "well…"
        assert [m["role"] for m in messages] == ["user", "assistant", "user"]
        assert "must contain only 2 values" in messages[2]["content"]
        return "3 4"

    with serving(Behaviour(chat=hesitant)) as url:
        found = judged(bench, url)
    assert (found.complete, found.asked, found.unparsed) == (11, 24, 1)
    assert found.samples[0].judgements[0].replies == ("well…", "3 4")
    assert found.by_position == (3, 4)
    assert sum(not sample.complete for sample in found.samples) == 1


def test_a_request_that_fails_is_sent_again_once(bench):
    with serving(Behaviour(chat=prefers("two"), fails=lambda n: n % 4 == 0)) as url:
        found = judged(bench, url, concurrency=1)
    assert (found.complete, found.failed) == (12, 0)


def test_requests_that_fail_twice_are_counted_and_their_samples_left_out(bench):
    with serving(Behaviour(chat=prefers("two"), fails=lambda n: n in (2, 3))) as url:
        found = judged(bench, url, concurrency=1)
    assert (found.complete, found.failed, found.unparsed) == (11, 1, 0)
    lost = found.samples[1].judgements[0]
    assert (lost.scores, lost.replies) == (None, ())
    assert "500" in lost.error
    assert found.pairs[0].difference == 2


REPLIES = {
    "a list": [1],
    "nothing": None,
    "a number": 4,
}


@pytest.mark.parametrize("content", REPLIES.values(), ids=REPLIES)
def test_a_reply_without_text_is_a_failure_and_no_traceback(bench, content):
    behaviour = Behaviour(chat=lambda _: content)
    with serving(behaviour) as url, pytest.raises(UnavailableError, match="no text"):
        judged(bench, url, limit=2)


def test_halves_of_characters_are_no_text(bench):
    with serving(Behaviour(chat=lambda _: "4 4\n\ud83d")) as url:
        found = judged(bench, url, limit=1)
    assert found.samples[0].judgements[0].replies == ("4 4\n\ufffd",)
    json.dumps(found.to_dict(), ensure_ascii=False).encode()
