"""Grammars are compiled in the process of the test: thousands of them need none of their own."""

import llguidance
import pytest


@pytest.fixture(autouse=True)
def _compiled_here(monkeypatch):
    monkeypatch.setattr("tasc.decoding.core.grammar._problem", lambda make: make().get_error())
    engine = llguidance.LLTokenizer("byte")
    monkeypatch.setattr(llguidance, "LLTokenizer", lambda *_: engine)
