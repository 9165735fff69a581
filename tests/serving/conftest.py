"""A task, and the engines that models are exported to."""

import json

import pytest

from tasc.serving.table import EXPORTS
from tests.pico import TEXTS
from tests.serving.llama_models import augmented

ROWS = [dict(zip(("input", "output"), text.split("\n"), strict=True)) for text in TEXTS] * 20


@pytest.fixture(scope="session")
def task(tmp_path_factory):
    folder = tmp_path_factory.mktemp("task")
    (folder / "train.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    return folder


@pytest.fixture(params=EXPORTS)
def engine(request):
    """Each engine, or the ones of an indirect parametrization, if its exports can be made here."""
    if request.param == "llama-cpp":
        pytest.importorskip("gguf", reason="the extra llama-cpp is not installed")
    return request.param


@pytest.fixture(scope="module")
def model(tmp_path_factory, task):
    """A Qwen2 with new tokens of the export ``pretoken``."""
    return augmented(tmp_path_factory.mktemp("augmented"), task, "pretoken")
