"""Pairs of models in a bench, and ``tasc compare`` between two benches."""

import json

import numpy as np
import pytest

from tasc.benchmark.paired.compare import CompareOptions, compare_results
from tasc.errors import InputError
from tests.benches import make_results, said
from tests.cli import tasc

N = 60
REFERENCES = tuple(f"a{i}; b{i}" for i in range(N))


def texts(wrong: range) -> list[str]:
    return ["no" if i in wrong else text for i, text in enumerate(REFERENCES)]


def times(factor: float, seed: int) -> list[float]:
    hard = np.random.default_rng(0).gamma(4, 5, N)
    return (factor * hard * np.random.default_rng(seed).lognormal(0, 0.05, N)).tolist()


def bench(wrong=range(0), factor=1.0, seed=1, model="m", first=N, **changes):
    cell = said(model, texts(wrong)[:first], times(factor, seed)[:first])
    metrics = ("exact_match", "micro_f1")
    return make_results(cell, references=REFERENCES[:first], metrics=metrics, **changes)


@pytest.fixture
def compared(save):
    def compare(old, new, **options):
        paths = {"old": save("old", old), "new": save("new", new)}
        return compare_results(CompareOptions(**paths | options))

    return compare


def worse(found):
    return [change.what for change in found.regressions]


def test_every_pair_of_models_is_compared_on_the_same_samples():
    cells = [
        said("base", texts(range(9)), times(2, 1)),
        said("base", texts(range(9)), times(1, 2), method="tasc-spec"),
        said("ft", texts(range(8, 10)), times(1, 3)),
        said("seed2", texts(range(0)), times(1, 3)),
    ]
    results = make_results(*cells, references=REFERENCES, metrics=("exact_match", "micro_f1"))
    names = [(pair.model, pair.against) for pair in results.pairs]
    assert names == [("ft", "base"), ("seed2", "base"), ("seed2", "ft")]
    first = results.pairs[0]
    exact = first.quality["exact_match"]
    assert exact.difference == pytest.approx((9 - 2) / N)
    # 8 samples that only ft has right, 1 that only base has.
    assert (exact.mcnemar.only_model, exact.mcnemar.only_against) == (8, 1)
    assert exact.mcnemar.p_value == pytest.approx(2 * (1 + 9) / 2**9)
    assert first.quality["micro_f1"].mcnemar is None
    low, high = first.quality["micro_f1"].interval
    assert low < first.quality["micro_f1"].difference < high
    assert list(first.speed) == ["ar"]
    low, high = first.speed["ar"].interval
    assert low < first.speed["ar"].ratio < high
    assert 1.8 < low < 2 < high < 2.2
    assert (results.comparisons[0].speedup_interval[0]) > 1.8


def test_a_bench_against_itself_is_no_regression(compared):
    found = compared(bench(), bench())
    assert worse(found) == []
    figures = [change.what for change in found.changes]
    assert figures == ["exact_match", "micro_f1", "steps", "speed"]
    assert found.confidence == pytest.approx(1 - 0.05 / 4)
    assert all(change.verdict == "within the noise" for change in found.changes)


def test_noise_is_no_regression(compared):
    assert worse(compared(bench(range(4)), bench(range(2, 7), 1.02, seed=9))) == []


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (bench(range(20)), ["exact_match", "micro_f1"]),
        (bench(factor=1.5), ["steps", "speed"]),
        (bench(range(20), 0.5), ["exact_match", "micro_f1"]),
    ],
)
def test_a_regression_beyond_the_noise_is_found(compared, new, expected):
    assert worse(compared(bench(), new)) == expected
    assert worse(compared(new, bench())) != expected


def test_a_speed_may_be_lost_within_the_tolerance(compared):
    assert "speed" in worse(compared(bench(), bench(factor=1.15), tolerance=0.05))
    assert "speed" not in worse(compared(bench(), bench(factor=1.15), tolerance=0.2))


def test_a_few_losses_that_may_be_chance_are_not_called_worse(compared):
    """Four losses without a gain: p = 0.125 although a bootstrap's interval excludes 0."""
    found = compared(bench(), bench(range(4)))
    exact = found.changes[0]
    assert (exact.what, exact.p_value, exact.verdict) == ("exact_match", 0.125, "within the noise")


def test_speed_is_not_compared_between_machines(compared):
    found = compared(bench(), bench(factor=3, settings={"threads": 7}))
    assert found.notes == ("threads is 7, was 1: speed is not compared",)
    assert [change.what for change in found.changes] == ["exact_match", "micro_f1", "steps"]


def test_benches_that_their_minutes_ended_are_compared_on_the_samples_of_both(compared):
    timed = {"settings": {"minutes": 1.0}}
    old = bench(first=40, **timed)
    found = compared(old, bench(range(20), 1.5, **timed))
    expected = compared(old, bench(range(20), 1.5, first=40, **timed))
    assert (found.samples, found.changes) == (40, expected.changes)
    with pytest.raises(InputError, match="both with --minutes"):
        compared(old, bench())


def test_what_cannot_be_compared_is_refused_in_one_line(compared, tmp_path):
    with pytest.raises(InputError, match="no model and method is in both: m · ar; other · ar"):
        compared(bench(), bench(model="other"))
    samples = [{"id": f"x{i}", "reference": text} for i, text in enumerate(REFERENCES)]
    with pytest.raises(InputError, match="60 and 60, of which 0 are in both"):
        compared(bench(), bench(samples=samples))
    (tmp_path / "broken.json").write_text('{"version": 0}')
    for name, why in (("broken.json", "is not a result of tasc bench"), ("gone", "does not exist")):
        with pytest.raises(InputError, match=why):
            compare_results(CompareOptions(old=str(tmp_path / name), new=str(tmp_path / name)))


def test_the_command_exits_with_1_where_something_is_worse(compared, capsys, tmp_path):
    compared(bench(), bench(range(20)))
    before, after = tmp_path / "old", tmp_path / "new"
    code, out, _ = tasc(capsys, "compare", before, after)
    assert code == 1
    assert "Worse beyond noise: 2 of 4 figures" in out
    code, out, _ = tasc(capsys, "compare", after, before, "--json")
    assert code == 0
    assert json.loads(out)["changes"][0]["verdict"] == "better"


def test_samples_of_a_batch_are_not_counted_as_independent():
    """Turns of 8 samples that share what slows them: an interval over samples is too narrow."""
    slow = np.repeat(np.random.default_rng(3).lognormal(0, 0.3, 100), 8)
    references = tuple(map(str, range(800)))
    cells = [said("m", list(references), times) for times in ([4.0] * 800, (2 * slow).tolist())]
    cells[1] = cells[1].model_copy(update={"method": "tasc-spec"})
    wide, narrow = (
        make_results(*cells, references=references, settings={"turn": turn}).comparisons[0]
        for turn in (8, 1)
    )
    (low, high), (inner_low, inner_high) = wide.speedup_interval, narrow.speedup_interval
    assert low < inner_low < inner_high < high
    assert (high - low) / (inner_high - inner_low) == pytest.approx(8**0.5, rel=0.2)
    few = make_results(*cells, references=references, settings={"turn": 100}).comparisons[0]
    assert few.speedup_interval is None  # eight turns


def test_the_quality_of_a_method_that_chooses_is_compared_too(compared):
    plain = said("m", texts(range(0)), times(1, 1))
    old, new = (said("m", texts(range(n)), times(1, 1), method="choices") for n in (0, 30))
    found = compared(*(make_results(plain, c, references=REFERENCES) for c in (old, new)))
    assert [(c.method, c.what) for c in found.regressions] == [("choices", "exact_match")]


def test_figures_without_an_interval_are_told(compared):
    found = compared(bench(first=9), bench(first=9, factor=10))
    assert not found.regressions
    assert "not 9: figures without one are not tested" in found.notes[0]


def test_steps_are_not_compared_between_limits_of_the_output(compared):
    found = compared(bench(settings={"max_new_tokens": 9}), bench(settings={"max_new_tokens": 1}))
    assert {change.what for change in found.changes} == {"exact_match", "micro_f1"}
    assert found.notes == ("max new tokens is 1, was 9: steps and speed are not compared",)


def prompted(prompts, template="{input}\n"):
    """A bench whose samples have these prompts, of which the first is stored."""
    made = bench(first=len(prompts))
    samples = [
        sample.model_copy(update={"prompt_id": prompt, "prompt": prompt if i == 0 else None})
        for i, (sample, prompt) in enumerate(zip(made.samples, prompts, strict=True))
    ]
    task = made.task.model_copy(update={"template": template})
    return made.model_copy(update={"samples": tuple(samples), "task": task})


def test_samples_with_other_prompts_are_compared_and_the_difference_is_shown(compared):
    old, new = ([f"Today: {day} Nov. Play {i}" for i in range(40)] for day in (27, 28))
    found = compared(prompted(old), prompted(new))
    note = "40 of 40 prompts of the same samples differ ('28 Nov. Play 0', was '27 Nov. Play 0')"
    assert found.notes[0].startswith(f"{note}: a chat template that writes the date")
    assert {change.what for change in found.changes} >= {"exact_match", "steps", "speed"}
    assert compared(prompted(old), prompted(old)).notes == ()


def test_the_template_is_named_if_it_made_other_prompts(compared):
    found = compared(prompted(["a", "b"], "{input}"), prompted(["Q: a", "Q: b"], "Q: {input}"))
    assert "--template is 'Q: {input}', was '{input}'" in found.notes[0]
    assert {change.what for change in found.changes} == {"exact_match", "micro_f1"}


def test_samples_whose_expected_outputs_differ_are_refused(compared):
    new = bench()
    samples = [sample.model_copy(update={"reference": "other"}) for sample in new.samples]
    with pytest.raises(InputError, match=r"other expected outputs, .* one chat template"):
        compared(bench(), new.model_copy(update={"samples": tuple(samples)}))
