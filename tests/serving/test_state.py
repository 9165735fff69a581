"""What an engine learnt, as a file: all outputs come back, and a damaged file is refused."""

from contextlib import suppress

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tasc.errors import InputError
from tasc.serving.drafts.state import read_state, write_state


@settings(deadline=None, max_examples=30)
@given(st.lists(st.lists(st.integers(0, 319), min_size=1, max_size=9), max_size=9))
def test_any_outputs_come_back(tokenizer, tmp_path_factory, outputs):
    file = tmp_path_factory.getbasetemp() / "any-state"
    write_state(file, {"": [np.array(o, np.int32) for o in outputs], "a/b": []}, tokenizer)
    found = read_state(file, tokenizer)
    assert [o.tolist() for o in found[""]] == outputs
    assert found["a/b"] == []


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 999), st.integers(0, 255), st.booleans())
def test_a_damaged_state_is_refused_or_has_tokens_of_the_vocabulary(
    tokenizer, tmp_path_factory, where, value, lengthen
):
    file = tmp_path_factory.getbasetemp() / "damaged-state"
    outputs = [np.array(o, np.int32) for o in ([5, 6, 7], [8])]
    write_state(file, {"": outputs}, tokenizer)
    content = bytearray(file.read_bytes())
    content[where % len(content)] = value
    file.write_bytes(content + b"\0" * lengthen)
    with suppress(InputError):
        found = read_state(file, tokenizer)
        assert all(0 <= token < 320 for some in found.values() for o in some for token in o)


def test_a_state_has_tokens_of_the_vocabulary_alone(tokenizer, tmp_path):
    known, padding = np.array([5, 0]), np.array([5, len(tokenizer.vocabulary())])
    write_state(tmp_path / "state", {"": [padding, known]}, tokenizer)
    assert [o.tolist() for o in read_state(tmp_path / "state", tokenizer)[""]] == [[5, 0]]
