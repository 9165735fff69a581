import numpy as np
import pytest
import torch

from tasc.benchmark.lossless import match, matches
from tasc.benchmark.matrix import prepare, run
from tasc.decoding.drafters import Resources, parse
from tasc.decoding.loaded import Loaded
from tasc.models.packed import pack
from tasc.models.target import Target
from tests.benchmark.tasks import split_of
from tests.decoding.outputs import generate
from tests.models.test_packed import needs_packing
from tests.options import BenchOptions
from tests.pico import ARCHITECTURES, TEXTS, build_model, continued

NEW_TOKENS = 60


def prompts() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.integers(1, 320, n).astype(np.int32) for n in (3, 8, 17, 30, 31, 32)]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_outputs_differ_from_transformers_at_near_ties_of_bfloat16_only(architecture, dtype):
    model = build_model(architecture).to(dtype)
    expected = [continued(model, prompt, NEW_TOKENS) for prompt in prompts()]
    target, method = Target(model), parse("tasc-spec:p_min=1")
    factory = method.prepare(Resources(expected, 0))
    found = [
        generate(target, factory(), p, max_new_tokens=NEW_TOKENS, end_ids=(0,)).tokens
        for p in prompts()
    ]
    result = match(target, prompts(), expected, found, "generate")
    assert result.of == 6
    if dtype == torch.float32:
        assert result.match_rate == 1
    # bfloat16 has 8 bits: logits of some tens are told apart to an eighth.
    assert (result.largest_margin or 0) <= 0.25


def test_a_difference_is_found_with_its_margin():
    model = build_model()
    target = Target(model)
    prompt, a = prompts()[0], np.array([5, 6, 7], np.int32)
    b = np.array([5, 9, 7], np.int32)
    result = match(target, [prompt] * 3, [a, a, a], [a, b, a[:2]], "ar")
    assert (result.identical, result.match_rate) == (1, pytest.approx(1 / 3))
    first, second = (
        match(target, [prompt] * 2, [a, a], [a, other], "ar").first_difference
        for other in (b, a[:2])
    )
    assert result.first_difference == first
    assert (first.sample, first.token) == (1, 1)
    assert (second.sample, second.token) == (1, 2)
    with torch.inference_mode():
        row = model(input_ids=torch.tensor([[*prompt.tolist(), 5]])).logits[0, -1]
    largest = row.topk(2).values
    assert first.margin == pytest.approx(float(largest[0] - largest[1]), abs=1e-4)
    assert result.largest_margin == max(first.margin, second.margin)


@needs_packing
@pytest.mark.parametrize("limits", [{}, {"batch_size": 3, "temperature": 0.8}], ids=str)
@pytest.mark.parametrize("int8", [False, True], ids=["whole", "int8"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_packed_logits_are_compared_bit_by_bit(dtype, int8, limits, tokenizer, monkeypatch):
    model = build_model().to(dtype)
    pack(model, int8=int8)
    loaded = Loaded("m", Target(model), tokenizer, (0,))
    split = split_of(TEXTS[:4])
    options = BenchOptions(
        methods=("ar", "tasc-spec:budget=6", "suffix:width=1"), max_new_tokens=12, **limits
    )
    cells = run(prepare([loaded], split, split, options), options)
    plain, tree, chain = matches(cells, options)
    assert (plain.logits_of, plain.bitwise) == (None, False)
    for one in (tree, chain):
        assert one.bitwise
        assert one.logits_identical == one.logits_of > 12  # of three samples

    score = loaded.target.score

    def rounded_otherwise(last, trees, skipped=0):
        logits = score(last, trees, skipped)
        return logits * (1 + 2**-6) if any(len(tokens) for tokens, _ in trees) else logits

    monkeypatch.setattr(loaded.target, "score", rounded_otherwise)
    _, tree, _ = matches(cells, options)
    assert not tree.bitwise
    assert tree.logits_identical < tree.logits_of
