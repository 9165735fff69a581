"""Exports to llama.cpp, run by llama.cpp itself."""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import AutoModelForCausalLM

from tasc.data.corpus import load
from tasc.data.source import Source
from tasc.serving.exports.llama_cpp import CACHES, COMPARED, count_ngrams, write_cache
from tasc.serving.gguf_vocabulary import vocabulary
from tasc.tokenizer.loaded import load_tokenizer
from tests.pico import TEXTS, continued, restate
from tests.serving.conftest import ROWS
from tests.serving.llama_models import augmented
from tests.serving.test_export import exported, with_settings, words_of

pytest.importorskip("conversion", reason="the extra llama-cpp is not installed")
ROOT = Path(__file__).parents[2]
PYTHON = Path(os.environ.get("TASC_LLAMA_PYTHON", ROOT / "build/llama-venv/bin/python"))
ENGINE = Path(__file__).with_name("llama_engine.py")
PROMPTS, OUTPUTS = ([row[key] for row in ROWS[: len(TEXTS)]] for key in ("input", "output"))


def needs_engine(test: Any) -> Any:
    missing = pytest.mark.skipif(not PYTHON.exists(), reason="no xllamacpp: see make test-llama")
    return pytest.mark.serving(missing(test))


def run_in_llama(*arguments: str, **options: Any) -> str:
    """Run Python where llama.cpp is installed, and return what it prints."""
    command: list[Any] = [PYTHON, *arguments]
    ran = subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False, **options
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    return ran.stdout


def answers(
    folder: Path, prompts, *, texts=(), drafts=False, tokens=16, exact=True, grammar="", **more
) -> Any:
    asked = {"model": str(folder / "model.gguf"), "prompts": prompts, "texts": list(texts)}
    asked |= {"drafts": str(folder) if drafts else None, "tokens": tokens, "exact": exact}
    asked |= {"grammar": grammar, "penalty": more.pop("penalty", 1.0), "more": more}
    written = run_in_llama(str(ENGINE), input=json.dumps(asked))
    return json.loads(written.splitlines()[-1])


def greedy(model: Path, prompts, tokens=16) -> list[list[int]]:
    loaded = AutoModelForCausalLM.from_pretrained(model)
    return [continued(loaded, np.array(p), tokens).tolist() for p in prompts]


@pytest.fixture(scope="module")
def prompts() -> list[list[int]]:
    drawn = np.random.default_rng(0)
    return [drawn.integers(1, 320, drawn.integers(4, 40)).tolist() for _ in range(100)]


@needs_engine
@pytest.mark.parametrize(
    ("architecture", "kind", "tokens"),
    [
        ("qwen2", "pretoken", ""),
        ("qwen2", "added", ""),
        ("llama", "pretoken", ""),
        ("llama", "pretoken", "digits"),
        ("llama", "added", "digits"),
        *(("llama", "pretoken", f"bpe-{kind}") for kind in ("normalizer", "first", "gemma")),
        ("llama", "added", "bpe-never"),
        *((kind, "pretoken", "") for kind in sorted(COMPARED - {"qwen2", "llama"})),
    ],
)
def test_llama_cpp_generates_what_transformers_does(
    tmp_path, task, prompts, architecture, kind, tokens
):
    model = augmented(tmp_path, task, kind, architecture, tokens=tokens)
    exported(model, "llama-cpp", tmp_path / "out", source=str(task))
    texts = [*PROMPTS, *OUTPUTS, *TEXTS, "say  it\n\nin the 2024 <|endoftext|>", "é 日本 's"]
    found = answers(tmp_path / "out", prompts, texts=texts)
    assert found["ids"] == greedy(model, prompts)
    size = json.loads((model / "config.json").read_text())["vocab_size"]
    tokenizer = load_tokenizer(str(model))
    candidates = [vocabulary(tokenizer, size, user_defined=one) for one in (True, False)]
    assert found["encoded"] in [[way.encode(t) for t in texts] for way in candidates]
    assert answers(tmp_path / "out", prompts, drafts=True)["ids"] == found["ids"]


@needs_engine
@pytest.mark.parametrize("name", ["baseline", "tasc-ft"])
def test_trained_models_generate_what_transformers_does(tmp_path, name):
    """The models that ``make test-serving`` trains, on what they were trained for."""
    trained, task = (os.environ.get(key) for key in ("TASC_SERVING", "TASC_TASK"))
    if not trained or not task:
        pytest.skip("no trained models: make test-serving trains them")
    model = Path(trained) / name / "model"
    exported(model, "llama-cpp", tmp_path, source=task)
    rows = load(Source(task), "test", limit=100)
    tokens = [ids.tolist() for ids in load_tokenizer(str(model)).encode(rows.prompts).split()]
    expected = greedy(model, tokens, 128)
    for drafts in (False, True):
        assert answers(tmp_path, tokens, drafts=drafts, tokens=128)["ids"] == expected


@needs_engine
def test_caches_are_read_and_accepted(tmp_path, model, task, prompts):
    """What the model writes is in the caches, so it is drafted and accepted."""
    exported(model, "llama-cpp", tmp_path, source=str(task))
    expected = greedy(model, prompts[:10], 48)
    for name, lengths in CACHES.values():
        rows = [np.array(ids, np.int32) for ids in expected]
        write_cache(count_ngrams(rows, 0, lengths), tmp_path / name)
    found = answers(tmp_path, prompts[:10], drafts=True, tokens=48)
    assert found["ids"] == expected
    assert found["drafted"] > 0
    assert found["accepted"] > 0


@needs_engine
@pytest.mark.parametrize("weights", ["f16", "bf16", "q8_0"])
def test_smaller_numbers_load_and_answer(tmp_path, model, task, prompts, weights):
    exported(model, "llama-cpp", tmp_path, source=str(task), weights=weights)
    found = answers(tmp_path, prompts[:5], exact=False)["ids"]
    assert [len(ids) for ids in found] == [len(ids) for ids in greedy(model, prompts[:5])]


@needs_engine
@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("schema", '{"const": {"a": "x/y"}}'),
        ("grammar", 'start: "SELECT " /[ab]/'),
        ("regex", r"[ab]{2}/\d"),
        ("choices", 'one "label"\nnaïve\n'),
    ],
)
def test_llama_cpp_writes_outputs_of_the_grammar_beside_the_model(
    tmp_path, model, task, prompts, option, text
):
    given = text
    if option != "regex":
        given = str(tmp_path / "given")
        Path(given).write_text(text, encoding="utf-8")
    exported(model, "llama-cpp", tmp_path, source=str(task), **{option: given})
    written = (tmp_path / "outputs.gbnf").read_text(encoding="utf-8")
    fits = {"schema": r'\{"a": "x/y"\}', "grammar": "SELECT [ab]", "regex": text}
    expected = fits.get(option, 'one "label"|naïve')
    for content in answers(tmp_path, prompts[:8], tokens=40, grammar=written)["content"]:
        assert re.fullmatch(expected, content), content


@needs_engine
def test_the_readme_of_llama_cpp_runs_as_it_stands(tmp_path, model, task):
    exported(model, "llama-cpp", tmp_path, source=str(task))
    (code,) = re.findall(r"```python\n(.*?)\n```", (tmp_path / "README.md").read_text(), re.DOTALL)
    assert run_in_llama("-c", code, cwd=tmp_path).strip()


@needs_engine
def test_llama_cpp_penalises_repetitions_as_transformers_does(tmp_path, prompts):
    model = with_settings(tmp_path / "model")
    restate(model / "generation_config.json", no_repeat_ngram_size=0, eos_token_id=[0])
    words = words_of(exported(model, "llama-cpp", tmp_path / "gguf"))
    assert (words["--repeat-penalty"], words["--repeat-last-n"]) == ("1.3", str(1 << 17))
    some = prompts[:20]
    assert answers(tmp_path / "gguf", some, penalty=1.3)["ids"] == greedy(model, some)
    assert answers(tmp_path / "gguf", some)["ids"] != greedy(model, some)


@needs_engine
def test_llama_cpp_shows_special_tokens_and_ends_where_the_export_says(tmp_path, task):
    """Each token is written because of a bias; those named in the notes end the output."""
    shown, ending = ["<tool_call>", "<s>"], ["</s>", "<|end|>", "<|fim_pad|>"]
    model = with_settings(tmp_path / "model", [*shown, *ending])
    rows = [{"input": "a", "output": f"b{token}c"} for token in (*shown, "</s>", "<|fim_pad|>")]
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))
    made = exported(model, "llama-cpp", tmp_path / "gguf", source=str(tmp_path))
    notes = "; ".join(made.to_dict()["notes"])
    assert "ends outputs at `</s>` because of its text, and 1 of the task's 4" in notes
    assert "also ends outputs at `<|end|>`" in notes
    ids = {t: load_tokenizer(str(model)).tokenizer.token_to_id(t) for t in [*shown, *ending]}
    for token in ids:
        bias = {"logit_bias": [[ids[token], 1000.0]], "temperature": 0}
        (content,) = answers(tmp_path / "gguf", [[5, 6]], tokens=3, **bias)["content"]
        # The marks of code to fill in are stated instead, so that they end nothing.
        assert content == ("" if token in ending[:2] else 3 * token)
