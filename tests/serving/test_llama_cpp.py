"""GGUF files and n-gram caches, read back; with marker ``serving``, by llama.cpp itself."""

import json
import os
import re
import subprocess
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoModelForCausalLM

import tasc
from tasc.data.corpus import load
from tasc.data.source import Source
from tasc.errors import InputError
from tasc.serving.exports.llama_cpp import CACHES, COMPARED, count_ngrams, write_cache
from tasc.serving.gguf_vocabulary import CONTROL, NORMAL, UNUSED, USER_DEFINED, vocabulary
from tasc.tokenizer.loaded import LoadedTokenizer, load_tokenizer
from tasc.tokenizer.patterns import PRE_TOKENIZERS, byte_level
from tasc.vocab.exports.export import save
from tests.models.strangers import copied
from tests.pico import TEXTS, continued, make_base, make_model, make_tokenizer
from tests.serving.conftest import ROWS
from tests.serving.test_export import exported
from tests.vocab.marked import KINDS, marked

pytest.importorskip("conversion", reason="the extra llama-cpp is not installed")
gguf = pytest.importorskip("gguf")
ROOT = Path(__file__).parents[2]
PYTHON = Path(os.environ.get("TASC_LLAMA_PYTHON", ROOT / "build/llama-venv/bin/python"))
ENGINE = Path(__file__).with_name("llama_engine.py")
PROMPTS, OUTPUTS = ([row[key] for row in ROWS[: len(TEXTS)]] for key in ("input", "output"))
VOCABULARY = 344
DIGITS = [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(False)]


def needs_engine(test: Any) -> Any:
    """Mark a test that runs llama.cpp itself."""
    missing = pytest.mark.skipif(not PYTHON.exists(), reason="no xllamacpp: see make test-llama")
    return pytest.mark.serving(missing(test))


def augmented(
    folder: Path, task: Path, kind: str, architecture: str = "qwen2", *, tokens: str = ""
) -> Path:
    """A random model with a tokenizer of new tokens."""
    size, base = VOCABULARY, folder / "base"
    if tokens in KINDS:
        size, spaced = 600, marked(tokens)
        base.mkdir()
        save(spaced.tokenizer, spaced.files, base)
    else:
        file = make_tokenizer(base, size=300) / "tokenizer.json"
        plain = Tokenizer.from_file(str(file))
        if tokens == "digits":  # as SmolLM2's, which splits them first
            plain.pre_tokenizer = pre_tokenizers.Sequence(DIGITS)
        plain.save(str(file))
    options = {"source": str(task), "tokenizer": str(base), "budget": 24, "export": kind}
    made = tasc.augment(tasc.AugmentOptions(**options))
    make_model(folder / "model", architecture, vocabulary=size)
    made.save(folder / "model")
    return folder / "model"


@pytest.fixture(scope="module")
def model(tmp_path_factory, task) -> Path:
    """A Qwen2 with new tokens of the export ``pretoken``."""
    return augmented(tmp_path_factory.mktemp("augmented"), task, "pretoken")


def records(path: Path) -> Any:
    """Read a cache as llama.cpp does."""
    numbers, found = iter(np.fromfile(path, np.int32).tolist()), {}
    for first in numbers:
        ngram = (first, *islice(numbers, 3))
        pairs = [*islice(numbers, 2 * next(numbers))]
        assert min(pairs[1::2]) > 0
        assert ngram not in found
        found[ngram] = dict(zip(pairs[::2], pairs[1::2], strict=True))
    return found


def test_caches_hold_what_follows_each_ngram_of_an_output(tmp_path):
    outputs = [np.array([1, 2, 1, 2], np.int32), np.array([2], np.int32)]
    write_cache(count_ngrams(outputs, 0, (2,)), tmp_path / "static")
    write_cache(count_ngrams(outputs, 0, (1, 2, 3, 4)), tmp_path / "dynamic")
    assert records(tmp_path / "static") == {(1, 2, -1, -1): {1: 1, 0: 1}, (2, 1, -1, -1): {2: 1}}
    found = records(tmp_path / "dynamic")
    assert found[(2, -1, -1, -1)] == {1: 1, 0: 2}
    assert found[(1, 2, 1, 2)] == {0: 1}
    assert {sum(token >= 0 for token in ngram) for ngram in found} == {1, 2, 3, 4}


def test_new_tokens_are_text_that_is_looked_for_or_plain_entries(model):
    tokenizer = load_tokenizer(str(model))
    base = load_tokenizer(str(model.parent / "base")).vocabulary()
    defined, plain = (vocabulary(tokenizer, VOCABULARY, user_defined=one) for one in (True, False))
    assert defined.pre == plain.pre == "qwen2"
    strings = tokenizer.vocabulary()
    spanning = [i for i, kind in enumerate(defined.types) if kind == USER_DEFINED]
    assert spanning
    assert min(spanning) >= len(base)
    assert all(defined.tokens[i].encode() == strings[i] for i in spanning)
    assert not any(defined.tokens[i].isalpha() for i in spanning)
    assert all(plain.types[i] == NORMAL for i in spanning)
    assert defined.types[0] == CONTROL
    assert defined.types[len(strings) :] == [UNUSED] * (VOCABULARY - len(strings))
    for text in PROMPTS:
        assert plain.encode(text) == tokenizer.encode([text]).tokens.tolist()


@pytest.mark.parametrize("name", ["llama2", "mistral-v1", "mistral-v3"])
def test_published_sentencepieces_are_encoded_alike(real_tokenizer, name):
    tokenizer, texts = real_tokenizer(name), [*PROMPTS, *TEXTS, "  two\n\tthree é 日本 🙂 <0x41>"]
    way = vocabulary(tokenizer, len(tokenizer.vocabulary()), user_defined=True)
    assert [way.encode(t) for t in texts] == [t.tolist() for t in tokenizer.encode(texts).split()]


def test_text_is_cut_at_the_longest_tokens_first(tmp_path):
    tokenizer, added = load_tokenizer(str(make_tokenizer(tmp_path))), [" in the", "the mor", "the"]
    tokenizer.tokenizer.add_tokens(added)
    known = vocabulary(tokenizer, 330, user_defined=True)
    first, longest, short = map(tokenizer.tokenizer.token_to_id, added)
    # Hugging Face takes the leftmost, llama.cpp the longest: of equal length the first in order.
    assert known.encode("x in the mor") == [*known.encode("x"), first, *known.encode(" mor")]
    assert known.encode("the mor the") == [longest, *known.encode(" "), short]


@pytest.mark.parametrize("kind", ["pretoken", "added"])
def test_the_pre_tokenizer_is_found_under_new_tokens(tmp_path, task, kind):
    tokenizer = load_tokenizer(str(augmented(tmp_path, task, kind, tokens="digits")))
    known = vocabulary(tokenizer, 400, user_defined=False)
    assert known.pre == "smollm"
    for text in ("1234 5.6 ²Ⅷ", "  two\n\n\ttab", "don't é日本🙂"):
        assert known.encode(text) == tokenizer.encode([text]).tokens.tolist()


@pytest.mark.parametrize(
    ("pre_tokenizer", "whole", "name"),
    [
        (pre_tokenizers.ByteLevel(add_prefix_space=False), False, "gpt-2"),
        (pre_tokenizers.Sequence(DIGITS), False, "smollm"),
        *((byte_level(*PRE_TOKENIZERS[n]), False, n) for n in ("qwen2", "smollm", "gpt-4o")),
        (byte_level(*PRE_TOKENIZERS["llama-bpe"]), True, "llama-bpe"),
        (byte_level(*PRE_TOKENIZERS["llama-bpe"]), False, "smaug-bpe"),
        (byte_level(*PRE_TOKENIZERS["default"]), False, None),
        (pre_tokenizers.ByteLevel(add_prefix_space=True), False, None),
        (pre_tokenizers.Sequence([pre_tokenizers.Digits(False), DIGITS[1]]), False, None),
    ],
)
def test_pre_tokenizers_are_compared_by_how_they_split(tmp_path, pre_tokenizer, whole, name):
    made = load_tokenizer(str(make_tokenizer(tmp_path)))
    made.tokenizer.pre_tokenizer = pre_tokenizer
    made.tokenizer.model.ignore_merges = whole
    if name:
        assert vocabulary(made, 320, user_defined=False).pre == name
        return
    with pytest.raises(InputError, match="lacks this tokenizer's pre-tokenizer"):
        vocabulary(made, 320, user_defined=False)


def test_other_tokenizers_and_models_are_refused_in_one_line(tmp_path, task):
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    with pytest.raises(InputError, match="BPE with byte fallback"):
        vocabulary(marked("bpe-always"), 600, user_defined=False)
    with pytest.raises(InputError, match="lacks this tokenizer's pre-tokenizer"):
        vocabulary(LoadedTokenizer(made, "x", {}), 10, user_defined=True)
    for kind, changes, reason in (
        ("opt", {}, "'OPTForCausalLM' not supported"),
        ("starcoder2", {}, "it would ignore the sliding window"),
        ("qwen2", {"max_position_embeddings": 2**40}, "a number that a GGUF file cannot store"),
    ):
        strange = copied(make_base(tmp_path / kind, kind), tmp_path / f"{kind}-copy", **changes)
        with pytest.raises(InputError, match=reason) as caught:
            exported(strange, "llama-cpp", tmp_path / "out", source=str(task))
        assert "\n" not in str(caught.value)


def test_the_converter_sees_neither_code_nor_pickles_nor_the_model_card(tmp_path, base, task):
    model = copied(base, tmp_path / "model", auto_map={"AutoConfig": "code.Config"})
    (model / "code.py").write_text("raise SystemExit('this code must not run')")
    (model / "pytorch_model.bin").write_bytes(b"a pickle")
    (model / "README.md").write_text("---\nlicense: of the base model\n---\n")
    exported(model, "llama-cpp", tmp_path / "out", source=str(task))
    fields = gguf.GGUFReader(tmp_path / "out" / "model.gguf").fields
    assert fields["general.name"].contents() == "model"
    assert "general.license" not in fields
    assert not any(str(tmp_path) in str(field.contents()) for field in fields.values())


def test_gpt2_as_transformers_5_saves_it_is_converted(tmp_path, task):
    model = augmented(tmp_path, task, "pretoken", "gpt2")
    assert "n_ctx" not in json.loads((model / "config.json").read_text())
    exported(model, "llama-cpp", tmp_path / "out", source=str(task))
    read = gguf.GGUFReader(tmp_path / "out" / "model.gguf")
    assert read.get_field("gpt2.context_length").contents() == 512


@pytest.mark.parametrize("weights", ["f32", "f16", "bf16", "q8_0"])
def test_a_gguf_holds_the_weights_in_the_numbers_asked_for(tmp_path, model, task, weights):
    made = exported(model, "llama-cpp", tmp_path, source=str(task), weights=weights)
    findings = made.to_dict()["findings"]
    assert findings["weights"] == weights
    assert findings["encoding"]["prompts"]["texts"] == 100
    read = {t.name: t for t in gguf.GGUFReader(tmp_path / "model.gguf").tensors}
    state = AutoModelForCausalLM.from_pretrained(model).state_dict()
    for theirs, ours in {
        "token_embd.weight": "model.embed_tokens.weight",
        "blk.1.ffn_down.weight": "model.layers.1.mlp.down_proj.weight",
        "blk.0.attn_k.bias": "model.layers.0.self_attn.k_proj.bias",
    }.items():
        tensor, expected = read[theirs], state[ours].float().numpy()
        kind = "f32" if expected.ndim == 1 else weights
        assert tensor.tensor_type.name == kind.upper()
        found = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        worst = {"f32": 0, "f16": 1e-3, "bf16": 1e-2, "q8_0": 1e-2}[kind]
        assert np.abs(found - expected).max() <= worst * np.abs(expected).max()


def run_in_llama(*arguments: str, **options: Any) -> str:
    """Run Python where llama.cpp is installed, and return what it prints."""
    command: list[Any] = [PYTHON, *arguments]
    ran = subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False, **options
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    return ran.stdout


def answers(
    folder: Path, prompts, *, texts=(), drafts=False, tokens=16, exact=True, grammar=""
) -> Any:
    asked = {"model": str(folder / "model.gguf"), "prompts": prompts, "texts": list(texts)}
    asked |= {"drafts": str(folder) if drafts else None, "tokens": tokens, "exact": exact}
    written = run_in_llama(str(ENGINE), input=json.dumps(asked | {"grammar": grammar}))
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
