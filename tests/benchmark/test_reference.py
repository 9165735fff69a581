"""A bench compares with transformers' own generate, so that no method vouches for itself."""

from dataclasses import replace

import numpy as np
import pytest
from tasc_cli.commands.bench import reference_line

from tasc.benchmark.lossless import generate_reference, references
from tasc.benchmark.matrix import prepare, run
from tasc.benchmark.results.cells import ReferenceMatch
from tasc.decoding.loaded import Loaded
from tasc.models.target import Target
from tests.benchmark.tasks import split_of
from tests.benchmark.test_report import small_report
from tests.options import BenchOptions
from tests.pico import TEXTS, build_model

OPTIONS = BenchOptions(methods=("ar", "tasc-spec:p_min=1"), max_new_tokens=12, warmup=0)
TEXT = [text.split("\n")[0] for text in TEXTS]


@pytest.fixture
def loaded(tokenizer):
    return Loaded("m", Target(build_model()), tokenizer, (0,))


def cells_of(loaded, options):
    split = split_of(TEXT)
    return run(prepare([loaded], split, split, options), options)


@pytest.mark.parametrize("batch_size", [1, 4])
@pytest.mark.parametrize("temperature", [None, 0.9], ids=["greedy", "sampled"])
def test_outputs_are_compared_alone_in_batches_and_sampled(loaded, batch_size, temperature):
    options = OPTIONS.but(batch_size=batch_size, temperature=temperature, seed=1)
    prompts = loaded.encode(TEXT)
    (found,) = references(cells_of(loaded, options), options)
    lengths = [len(p) for p in prompts]
    assert found.method == "ar"
    assert {lengths[i] for i in found.samples} >= {min(lengths), max(lengths), lengths[0]}
    assert found.of == len(found.samples)
    assert found.match_rate == 1


def test_a_loop_that_is_wrong_by_itself_is_found_out(loaded):
    cells = cells_of(loaded, OPTIONS)
    (found,) = references(cells, OPTIONS)
    wrong = found.samples[-1]
    for cell in cells:  # all methods agree with each other
        tokens = cell.runs[0][wrong].tokens
        tokens[2] = (tokens[2] + 1) % 320
    (record,) = references(cells, OPTIONS)
    assert (record.identical, record.of) == (len(found.samples) - 1, len(found.samples))
    assert (record.first_difference.sample, record.first_difference.token) == (wrong, 2)
    assert record.largest_margin > 0
    assert (record.model, record.against) == ("m", "transformers generate")


def test_the_reference_ends_where_ours_ends_and_leaves_the_model_as_it_was(loaded):
    model = loaded.target.model
    model.generation_config.repetition_penalty = 5.0
    held, prompt = model.generation_config, loaded.encode(TEXT)[0]
    free = generate_reference(loaded, prompt, 12)
    assert len(free) == 12
    end = int(free[5])
    first = free.tolist().index(end)
    assert generate_reference(replace(loaded, end_ids=(0, end)), prompt, 12).tolist() == (
        free[: first + 1].tolist()
    )
    assert free.dtype == np.int32
    assert model.generation_config is held
    assert model.config._attn_implementation == "tasc"


RECORD = {
    "model": "m", "method": "ar", "against": "transformers generate", "samples": (0, 3),
    "identical": 1, "of": 2, "match_rate": 0.5,
    "first_difference": {"sample": 3, "token": 7, "margin": 2.0}, "largest_margin": 2.0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("dtype", "record", "page", "line"),
    [
        ("float32", RECORD, 'class="bad">Not the same as transformers: only 1 of 2', "NOT LOSS"),
        ("bfloat16", RECORD, "generate: 50 % of 2 greedy outputs of m · ar (margin 2)", "rate"),
        ("float32", RECORD | {"identical": 2}, "2 of 2 compared greedy outputs of m", "2 of 2"),
    ],
)
def test_report_and_terminal_say_how_many_outputs_are_those_of_transformers(
    dtype, record, page, line
):
    assert page in small_report(dtype=dtype, reference=[record])
    assert line in reference_line(ReferenceMatch(**record), dtype)
