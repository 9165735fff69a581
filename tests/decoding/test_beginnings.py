"""Prompts that are read in pieces, or from a beginning that another one had: the same bits."""

from functools import cache

import numpy as np
import pytest
import torch

from tasc.decoding.beginnings import Beginnings
from tasc.decoding.decode import Engine, Request
from tasc.decoding.drafters import Resources, parse
from tasc.decoding.drafters.none import Autoregressive
from tasc.models.packed import native_threads, pack
from tasc.models.target import Target
from tests.decoding.outputs import random_prompts
from tests.pico import build_model

PIECE = 16
NEW_TOKENS = 10
ARCHITECTURES = ("llama", "gemma3_text")  # the second has windows


@cache
def target_of(architecture):
    model = build_model(architecture)
    pack(model)
    target = Target(model)
    _ = target.head
    return target


def prompts_of():
    """Short, long and repeated prompts, and some that share a beginning longer than a piece."""
    shared, *others = random_prompts(50, 3, 16, 17, 90, 33, 7)
    ends = random_prompts(4, 9, 40, 1, seed=2)
    alike = [np.concatenate([shared, end]) for end in ends]
    return [*others, *alike, shared, others[3], alike[0], alike[0][:30]]


class Logged:
    """One output: its tokens and the logits behind each."""

    def __init__(self):
        self.tokens, self.rows = list[int](), list[torch.Tensor]()

    def add(self, tokens, rows):
        self.tokens += tokens.tolist()
        self.rows.append(rows.clone())


def request(target, prompt, log, *, drafts):
    factory = parse("tasc-spec:p_min=1").prepare(Resources([np.array([5, 0], np.int32)], 0))
    return Request(prompt, factory if drafts else Autoregressive, on_logits=log.add)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("size", [1, 3])
def test_outputs_and_logits_are_those_of_prompts_read_whole(architecture, size, monkeypatch):
    target, prompts = target_of(architecture), prompts_of()
    logs = {}
    most = 0
    forward = target.forward

    def watched(cache, ids, *rest):
        nonlocal most
        most = max(most, ids.shape[1] if ids.shape[0] == 1 else 0)
        return forward(cache, ids, *rest)

    for pieces in (False, True):
        target.prefix = None
        beginnings = Beginnings(target, 200, PIECE) if pieces else None
        if pieces:
            monkeypatch.setattr(target, "forward", watched)
        engine = Engine(target, budget=4, beginnings=beginnings)
        engine.begin(120, size)
        logs[pieces] = [Logged() for _ in prompts]
        left = list(range(len(prompts)))
        with native_threads(target.model):
            while left or engine.busy:
                for number in left[:2]:
                    own = request(target, prompts[number], logs[pieces][number], drafts=number % 2)
                    engine.submit(own, NEW_TOKENS)
                del left[:2]
                engine.step()
    target.prefix = None
    assert most <= PIECE + 5  # with a draft
    for whole, piecewise in zip(logs[False], logs[True], strict=True):
        assert whole.tokens == piecewise.tokens
        assert torch.equal(torch.cat(whole.rows), torch.cat(piecewise.rows))


def decode(engine, prompts):
    running = [engine.submit(Request(prompt, Autoregressive), 3) for prompt in prompts]
    with native_threads(engine.target.model):
        while engine.busy:
            engine.step()
    engine.target.prefix = None
    return [one.result.tokens.tolist() for one in running]


def test_a_beginning_that_prompts_share_is_read_once(monkeypatch):
    target = target_of("llama")
    engine = Engine(target, beginnings=Beginnings(target, 500, 64))
    engine.begin(200, 2)
    (shared, *ends) = random_prompts(60, *[3] * 12)
    read, forward = [], target.forward

    def counted(cache, ids, *rest):
        read.append(ids.shape[1])
        return forward(cache, ids, *rest)

    monkeypatch.setattr(target, "forward", counted)
    for end in ends:
        decode(engine, [np.concatenate([shared, end])])
    assert sum(one for one in read if one > 10) == 63 + 60  # whole, and then for the others


def test_others_are_decoded_while_a_long_prompt_is_read():
    target = target_of("llama")
    engine = Engine(target, beginnings=Beginnings(target, 300, PIECE))
    engine.begin(200, 2)
    short, long = random_prompts(5, 100, seed=4)
    steps = {}
    with native_threads(target.model):
        first = engine.submit(Request(short, Autoregressive), 20)
        engine.step()
        second = engine.submit(Request(long, Autoregressive), 3)
        while not second.tokens:
            engine.step()
            steps[len(first.tokens)] = len(second.tokens)
        assert len(first.tokens) > 100 // PIECE
        engine.cancel(first)
        third = engine.submit(Request(long + 1, Autoregressive), 3)
        while not engine.beginnings.reading:
            engine.step()
        engine.cancel(third)
        while engine.busy:
            engine.step()
        (after,) = decode(engine, [short])
    assert after == first.tokens[:3]


def test_what_is_remembered_is_bounded():
    target = target_of("llama")
    beginnings = Beginnings(target, 100, PIECE)
    engine = Engine(target, beginnings=beginnings)
    engine.begin(120, 2)
    for prompt in random_prompts(*[70] * 5, seed=6):
        decode(engine, [prompt])
        assert sum(len(one.tokens) for one in beginnings.remembered.values()) <= 100
    assert beginnings.remembered
    (prompt,) = random_prompts(70, seed=8)
    engine.submit(Request(prompt, Autoregressive), 3)
    with native_threads(target.model):
        engine.step()
    assert [one.request.prompt is prompt for one in engine.abandon(120)] == [True]
    assert not engine.busy
    assert not beginnings.remembered
