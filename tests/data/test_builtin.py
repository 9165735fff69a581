"""The tasks made from the standard library's own source."""

import pytest

from tasc.data import builtin
from tasc.data.corpus import load, splits
from tasc.data.source import Source
from tests.data.files import message

TASKS = ("builtin:stdlib-tokens", "builtin:stdlib-docs")


@pytest.fixture(scope="module")
def tasks():
    return {
        name: {split: load(Source(name), split) for split in splits(Source(name))} for name in TASKS
    }


def test_token_types_are_those_of_the_tokenizer():
    assert builtin.token_types("x = f(1)") == "NAME OP NAME OP NUMBER OP NEWLINE"


def test_sizes_are_enough_to_train_on(tasks):
    sizes = {name: [len(corpus.examples) for corpus in tasks[name].values()] for name in TASKS}
    assert sizes["builtin:stdlib-tokens"] == [10000, 1000, 1000]
    assert sizes["builtin:stdlib-docs"][0] > 2000
    assert min(sizes["builtin:stdlib-docs"]) > 100


@pytest.mark.parametrize("name", TASKS)
def test_no_input_is_in_two_splits(tasks, name):
    inputs = [example.input for corpus in tasks[name].values() for example in corpus.examples]
    assert len(inputs) == len(set(inputs))


def test_prompts_are_short_and_outputs_made_from_their_inputs(tasks):
    for corpus in tasks["builtin:stdlib-tokens"].values():
        assert max(map(len, corpus.prompts)) <= 200
        for example in corpus.examples[:100]:
            assert example.output == builtin.token_types(example.input)


def test_functions_do_not_hold_their_docstring(tasks):
    examples = tasks["builtin:stdlib-docs"]["train"].examples
    assert not any(f'"""{example.output}' in example.input for example in examples)
    assert all(example.input.startswith(("def ", "async def ")) for example in examples)


def test_building_again_gives_the_same_rows(tasks):
    again = builtin._token_task.__wrapped__()
    rows = [(e.input, e.output) for e in tasks["builtin:stdlib-tokens"]["validation"].examples]
    assert again["validation"] == rows


def test_unknown_names_are_refused_with_those_that_exist():
    line = message(Source("builtin:nothing"))
    assert line == f"builtin:nothing: no such built-in task; choose from {', '.join(TASKS)}"
    docs = Source("builtin:stdlib-docs")
    assert "no split 'later'; it has train, validation, test" in message(docs, "later")
    text = Source("builtin:stdlib-docs", input_column="text")
    assert "no column 'text'; it has input, output" in message(text)
