"""Options of trainings that are out of range or contradict each other."""

from typing import Any

import pytest

from tasc.options.command import OptionsError
from tests.options import BaseOptions, FinetuneOptions, HeadOptions

WRONG: list[tuple[Any, dict[str, Any], str]] = [
    (FinetuneOptions, {"learning_rate": 0.0}, "learning_rate: input should be greater than 0"),
    (FinetuneOptions, {"dropout": 1.0}, "dropout"),
    (FinetuneOptions, {"max_length": 1}, "max_length"),
    (FinetuneOptions, {"batch_size": 4, "effective_batch": 6}, "not a multiple"),
    (FinetuneOptions, {"rank": 0}, "rank"),
    (FinetuneOptions, {"target_modules": "q_proj,"}, "target_modules"),
    (FinetuneOptions, {"quantize": False}, "quantize: got true or false"),
    (FinetuneOptions, {"quantize": "int4"}, "quantize: input should be 'nf4', '8bit' or 'none'"),
    (FinetuneOptions, {"epochs": 2.0, "tokens": 100}, "epochs and tokens exclude each other"),
    (FinetuneOptions, {"patience": 1, "validation": None}, "patience needs a validation split: na"),
    (HeadOptions, {"learning_rate": 0}, "learning_rate: input should be greater than 0, got 0"),
    (HeadOptions, {"max_length": 64, "max_new_tokens": 64}, "must be below max_length 64"),
    (HeadOptions, {"tokens_of": "x"}, "tokens_of has no effect with draft_head"),
    (HeadOptions, {"processes": 2}, "processes"),
    (HeadOptions, {"adapter": "none"}, "leave out adapter"),
    (BaseOptions, {"preset": "huge"}, "preset: input should be 'pico', .* 'large', got 'huge'"),
    (BaseOptions, {"vocabulary": 100}, "vocabulary: input should be greater .* to 300, got 100"),
    (BaseOptions, {"learning_rate": 0.0}, "learning_rate"),
    (BaseOptions, {"block": 1}, "block"),
    (BaseOptions, {"epochs": -1.0}, "epochs"),
]
# What has no meaning where all weights train, without adapters.
WITH_ALL_WEIGHTS: list[tuple[dict[str, Any], str]] = [
    ({"rank": 4}, "rank has no effect with adapter=none"),
    ({"target_modules": "q_proj"}, "target_modules has no effect with adapter=none"),
    ({"quantize": "nf4"}, "quantised weights cannot be trained"),
    ({"train_rows": "new"}, "adapter=none trains all rows"),
]
WRONG += [(FinetuneOptions, {"adapter": "none"} | more, said) for more, said in WITH_ALL_WEIGHTS]


@pytest.mark.parametrize(("options", "given", "said"), WRONG)
def test_options_that_cannot_be_are_refused(options, given, said):
    with pytest.raises(OptionsError, match=said):
        options(**given)
