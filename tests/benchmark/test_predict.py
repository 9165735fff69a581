"""What a bench predicts of itself, beside what it measured; H_2 and runtime (appendix E)."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tasc.benchmark import predict
from tasc.benchmark.pages.bench import render
from tasc.benchmark.results.prediction import EntropyPoint, Prediction, StepFigures
from tasc.decoding.drafters import DRAFTERS
from tests.benches import make_cell, make_results


def test_a_sampled_bench_is_predicted_against_the_speedup_that_it_reports():
    seen = make_cell(lossless=None, ms_per_sample=10, tokens_per_second=300, tokens_per_step=2.5)
    first = make_cell(lossless=None, ms_per_sample=40, tokens_per_second=100)
    one, two = (simulated(ms_per_sample=8.0, tokens_per_step=1.0), simulated(4.0, 2.0))
    found = predict._compared(two, one, seen, first)
    assert found.measured_speedup == seen.speedup(first) == pytest.approx(3)
    assert (found.speedup, found.measured_tokens_per_step) == (2, 2.5)
    assert found.tokens_per_step_error == pytest.approx(-0.2)


def simulated(ms_per_sample, tokens_per_step, by_turn=()):
    figures = StepFigures(
        samples=1,
        tokens_per_output=1,
        steps_per_output=1,
        tokens_per_step=tokens_per_step,
        tokens_per_step_interval=(1, 2),
        accepted_by_position=(),
        drafts=1,
        drafted_tokens=1,
        accepted_tokens=1,
        engine_accepted_length=2,
        ms_per_sample=ms_per_sample,
        speedup=None,
    )
    return figures, np.array(by_turn)


def test_a_prediction_has_the_spread_of_the_turns_that_it_comes_from():
    seen, turns = make_cell(), np.array([4.0, 4.0, 8.0, 4.0])
    plain, quiet = simulated(4.0, 1.0, turns), simulated(2.0, 2.0, turns / 2)
    found = predict._compared(quiet, plain, seen, seen)  # each turn slows down both alike
    assert (found.speedup_interval, found.rough) == ((2, 2), False)
    busy = predict._compared(simulated(2.0, 2.0, turns[::-1] / 2), plain, seen, seen)
    assert busy.speedup_interval == pytest.approx((1.3, 3.4))
    far = predict._compared(simulated(8.0, 2.0, turns / 2), plain, seen, seen)
    assert far.speedup_interval == (0.5, 2)  # reaches to the prediction
    assert busy.rough
    # Turns of another model were others: any goes with any.
    other = predict._compared(quiet, plain, seen.model_copy(update={"model": "n"}), seen)
    assert other.speedup_interval == (1, 4)
    assert predict._compared(simulated(2.0, 2.0), plain, seen, seen).speedup_interval is None


def test_whatever_drafts_from_tokens_alone_is_predicted():
    simulated = {name for name, entry in DRAFTERS.items() if entry.simulates}
    own = {"ar", "grammar", "tasc-spec", "tasc-spec-paper", "corpus", "prompt"}
    assert simulated == own | {"prompt-lookup", "ngram-trie", "suffix", "ngrammys"}


class Words:
    """Every text is the ids that it lists."""

    def __init__(self, size):
        self.size = size

    def vocabulary(self):
        return [b""] * self.size

    def encode(self, texts):
        ids = np.array([int(i) % self.size for text in texts for i in text.split()], np.int32)
        return SimpleNamespace(tokens=ids)


def test_entropy_and_runtime_are_compared_over_the_vocabularies_of_a_bench():
    corpus: Any = SimpleNamespace(outputs=["0 1 2 3", "4 5 6 7"])
    sizes = {"a": 2, "b": 4, "c": 8}
    ar = SimpleNamespace(label="ar")
    models = [SimpleNamespace(label=name, tokenizer=Words(size)) for name, size in sizes.items()]
    cells: list[Any] = [SimpleNamespace(model=model, method=ar) for model in models]
    times = {"a": 9.0, "b": 5.0, "c": 4.0}
    rows = [make_cell(model=label, ms_per_sample=ms) for label, ms in times.items()]
    found = predict.entropy_and_runtime(cells, corpus, rows)
    assert [point.budget for point in found.points] == [0, 2, 6]
    assert [point.h2 for point in found.points] == pytest.approx([1, 2, 3])
    assert (found.tau, found.directional_rate) == (pytest.approx(-1), 1)
    assert predict.entropy_and_runtime(cells[:1], corpus, rows[:1]) is None


def sequence(*points):
    return [EntropyPoint(budget=m, h2=h2, runtime=runtime) for m, h2, runtime in points]


AGREEMENTS = {
    "a perfect prediction": ([(500, 6, 2), (0, 4, 9), (250, 5, 5)], -1, 1, 2),
    "one wrong pair of six": ([(0, 1, 40), (1, 2, 30), (2, 3, 10), (3, 4, 20)], -2 / 3, 2 / 3, 3),
    "a step where the entropy falls": ([(0, 2, 9), (1, 1, 8), (2, 3, 7)], -1 / 3, 1, 1),
    "no step where it rises": ([(0, 2, 9), (1, 1, 8)], 1, None, 0),
    "equal values": ([(0, 1, 5), (1, 2, 5)], None, 0, 1),
}


@pytest.mark.parametrize(("points", "tau", "rate", "rises"), AGREEMENTS.values(), ids=AGREEMENTS)
def test_agreement_is_a_rank_correlation_and_the_share_of_rises_in_the_right_direction(
    points, tau, rate, rises
):
    found = predict.agreement("ar", sequence(*points))
    assert (found.tau, found.directional_rate) == pytest.approx((tau, rate))
    assert found.rises == rises


def test_a_page_shows_no_rank_correlation_of_fewer_than_four_points():
    points = sequence((0, 1, 40), (1, 2, 30), (2, 3, 20), (3, 4, 10))
    pages = []
    for count in (3, 4):
        prediction = Prediction(cells=(), entropy=predict.agreement("ar", points[:count]))
        results = make_results(make_cell()).model_copy(update={"prediction": prediction})
        pages.append(render(results))
    assert ["−1 is a perfect prediction" in page for page in pages] == [False, True]
    assert "too few for a rank correlation" in pages[0]
