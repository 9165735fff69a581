"""What ends, streams and changes an output, with drafts that run ahead of it."""

import time
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import LogitsProcessor

from tasc.decoding.core.stopping import StopStrings
from tasc.decoding.decode import Request, generate_all
from tasc.decoding.drafters import Resources, parse
from tasc.decoding.tokenizers import speller_of
from tasc.errors import InputError
from tasc.tokenizer.output_text import OutputText
from tests.decoding.outputs import random_prompts
from tests.pico import continued

NEW_TOKENS = 40
(PROMPT,) = random_prompts(9, seed=9)
METHODS = ("ar", "tasc-spec:p_min=1", "tasc-spec:p_min=1,width=1,budget=7")


def run(target, text, outputs, **options: Any):
    """Decode with a method whose corpus is ``outputs``, so that runs are accepted."""
    method = parse(text)
    usual: dict[str, Any] = {"max_new_tokens": NEW_TOKENS, "end_ids": (0,), "budget": method.budget}
    limits = {name: options.pop(name, value) for name, value in usual.items()}
    factory = method.prepare(Resources(outputs, 0))
    request = Request(options.pop("prompt", PROMPT), factory, **options)
    return generate_all(target, [request], **limits)[0]


def theirs(target, **options) -> np.ndarray:
    return continued(target.model, PROMPT, NEW_TOKENS, **options)


class Remembering(LogitsProcessor):
    """Has a state: forbids the token it saw last, and notes what it was called with."""

    def __init__(self):
        self.seen = []

    def __call__(self, input_ids, scores):
        self.seen.append(input_ids[0].tolist())
        scores[0, input_ids[0, -1]] = -torch.inf
        return scores


def test_a_processor_is_called_once_a_token_in_order(target):
    alone, ahead = Remembering(), Remembering()
    expected = run(target, "ar", [PROMPT], processors=[alone]).tokens
    result = run(target, "tasc-spec:p_min=1", [expected], processors=[ahead])
    assert result.tokens.tolist() == expected.tolist()
    assert sum(result.accepted) > 0
    assert (
        ahead.seen[: len(expected)]
        == alone.seen
        == [[*PROMPT.tolist(), *expected[:i].tolist()] for i in range(len(expected))]
    )


def test_processors_that_lose_the_vocabulary_are_refused(target):
    with pytest.raises(InputError, match=r"return shape \(1, 320\), got \(1, 5\)"):
        run(target, "ar", [PROMPT], processors=[lambda _ids, scores: scores[:, :5]])


@pytest.mark.parametrize("text", METHODS)
def test_stop_strings_end_an_output_as_in_transformers(target, fast_tokenizer, text):
    whole = theirs(target)
    said = fast_tokenizer.decode(whole.tolist())
    decoded = OutputText.of(fast_tokenizer, ())
    strings = {said[i : i + size] for i in (3, 11, 20) for size in (1, 2, 5)}
    for string in sorted(s for s in strings if "�" not in s and s.isascii()):
        expected = theirs(target, stop_strings=[string], tokenizer=fast_tokenizer)
        rule = StopStrings([string, "never said"], speller_of(fast_tokenizer), PROMPT)
        result = run(target, text, [whole], stop=rule)
        assert result.tokens.tolist() == expected.tolist()
        assert result.finish == "stop"
        assert rule.text(result.tokens.tolist(), decoded) == said[: said.index(string)]


@given(
    st.lists(st.sampled_from(["ab", "c", "", "bca", "é", " "]), min_size=1, max_size=60),
    st.lists(st.integers(1, 7), min_size=60, max_size=60),
    st.sampled_from(["abc", "é", "cc a"]),
)
def test_a_stop_string_is_found_at_its_last_token_however_runs_are_cut(pieces, runs, string):
    rule = StopStrings([string], lambda i: pieces[i].encode())
    at, found = 0, None
    for size in runs:
        new = min(size, len(pieces) - at)
        at += new
        if new == 0 or (found := rule.cut(list(range(at)), new)) is not None:
            break
    ends = [k for k in range(1, len(pieces) + 1) if string in "".join(pieces[:k])]
    assert found == (ends[0] if ends else None)


@pytest.mark.parametrize("pieces", [["x" * 40, "ab", *[""] * 40, "c"], [*f"a{30 * 'b'}c"]])
def test_a_stop_string_that_begins_many_tokens_before_its_end_is_found(pieces):
    rule = StopStrings(["abc", f"a{30 * 'b'}c"], lambda i: pieces[i].encode())
    assert rule.cut([*range(len(pieces))], 1) == len(pieces)


@pytest.mark.parametrize(
    ("pieces", "prompt", "strings", "text"),
    [
        (["a", "bcb"], [], ["c", "b"], "a"),
        (["aaa"], [], ["aa"], ""),
        (["x", "yab"], [], ["b", "xya", "ya"], ""),
        ([">bX>"], ["<"], ["<>", "b"], ""),  # one begins in the prompt
        ([">", "b"], ["x", "<"], ["<>b"], ""),
        (["é"[:1], "x"], [], ["x"], "é"),
    ],
)
def test_the_text_ends_before_the_first_of_the_stop_strings(pieces, prompt, strings, text):
    every = [*pieces, *prompt]
    rule = StopStrings(strings, lambda i: every[i].encode(), range(len(pieces), len(every)))
    tokens = list(range(len(pieces)))
    assert rule.cut(tokens, 1) == len(tokens)
    whole = OutputText(lambda ids: "".join(every[i] for i in ids), frozenset())
    assert rule.text(tokens, whole) == text


@pytest.mark.parametrize("strings", [[], "stop", [""], ["stop", ""]])
def test_stop_strings_that_are_none_are_refused(strings):
    with pytest.raises(InputError, match="list of non-empty texts"):
        StopStrings(strings, lambda _token: b"")


@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("text", METHODS)
def test_streamed_tokens_are_the_output_and_nothing_behind_its_end(target, text, ends):
    whole = theirs(target)
    end = int(whole[17]) if ends else 0
    length = whole.tolist().index(end) + 1 if ends else len(whole)
    parts: list[np.ndarray] = []
    result = run(target, text, [whole], end_ids=(end,), on_tokens=parts.append)
    assert np.concatenate(parts).tolist() == result.tokens.tolist() == whole[:length].tolist()
    assert result.finish == ("end" if ends else "length")
    assert all(p.dtype == np.int32 for p in parts)
    if not ends:
        assert [len(p) for p in parts] == [result.prefilled, *(a + 1 for a in result.accepted)]


def test_the_timeline_has_every_step(target):
    outputs, begin = [theirs(target)], time.perf_counter()
    result = run(target, METHODS[1], outputs)
    times, passed = result.timeline, time.perf_counter() - begin
    assert len(times.steps) == len(result.accepted)
    parts = np.array(times.steps).sum(0)
    assert parts[1:] == pytest.approx([times.forward, times.verify, times.commit])
    assert 0 <= parts[0] <= times.draft
    assert times.total == pytest.approx(times.prefill + times.draft + parts[1:].sum())
    assert 0 < times.prefill < times.total < passed
    assert result.finish == "length"


@pytest.mark.parametrize("text", METHODS)
def test_the_logits_behind_each_token_are_the_models_own_whatever_changes_them(target, text):
    processor = Remembering()
    free = run(target, "ar", [PROMPT], processors=[Remembering()]).tokens
    tokens, rows = list[int](), list[torch.Tensor]()

    def collect(committed, logits):
        assert len(committed) == len(logits)
        tokens.extend(committed.tolist())
        rows.append(logits.clone())

    result = run(target, text, [free], processors=[processor], on_logits=collect)
    assert result.tokens.tolist() == tokens == free.tolist()
    with torch.inference_mode():
        ids = torch.from_numpy(np.append(PROMPT, free)[None].astype(np.int64))
        whole = target.model(input_ids=ids).logits[0, len(PROMPT) - 1 : -1]
    torch.testing.assert_close(torch.cat(rows), whole, rtol=1e-4, atol=1e-4)
