import pytest


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still unless a test moves it: drafting takes no time."""
    now = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    return now


@pytest.fixture(scope="module")
def fast_tokenizer(tmp_path_factory):
    """The tiny tokenizer as transformers loads it, padding on the left."""
    from transformers import AutoTokenizer

    from tests.pico import make_tokenizer

    folder = make_tokenizer(tmp_path_factory.mktemp("tokenizer"))
    return AutoTokenizer.from_pretrained(folder, padding_side="left")
