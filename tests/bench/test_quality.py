import pytest

from tasc.bench.quality import METRICS, check_metrics, score
from tasc.errors import InputError


def test_a_worked_example():
    predictions = ["a; b; c", "x", "same text"]
    references = ["b; a; d", "x; y", "same text"]
    result = score(list(METRICS), predictions, references, ";")
    assert result["exact_match"] == pytest.approx(1 / 3)
    # Words by position: "a;" "b;" "c" against "b;" "a;" "d": 0 of 3; "x" against "x;" "y": 0 of 2.
    assert result["token_accuracy"] == pytest.approx(2 / 7)
    # Items shared: a, b | x | same text = 4; predicted 3 + 1 + 1, expected 3 + 2 + 1.
    assert result["micro_f1"] == pytest.approx(2 * 4 / (5 + 6))


def test_repeated_items_count_as_often_as_they_stand_there():
    assert score(["micro_f1"], ["a; a"], ["a"], ";")["micro_f1"] == pytest.approx(2 / 3)


def test_empty_predictions_score_nothing_and_break_nothing():
    assert set(score(list(METRICS), [""], ["a; b"], ";").values()) == {0.0}


def test_white_space_around_an_output_does_not_matter():
    assert score(["exact_match"], [" a b\n"], ["a b"], ";")["exact_match"] == 1.0


def test_an_unknown_metric_is_refused_with_the_known_ones():
    with pytest.raises(InputError, match="unknown metric 'bleu': choose from exact_match"):
        check_metrics(["bleu"])
