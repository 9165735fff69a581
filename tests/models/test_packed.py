"""Packed linear layers and fused decoder layers compute what those of transformers do."""

import copy

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from tasc import _native
from tasc.errors import InputError
from tasc.models.packed import (
    BLOCK,
    DTYPES,
    PackedLinear,
    can_pack,
    dequantised,
    native_threads,
    pack,
    quantised,
    rounded_inputs,
    thread_pool,
)
from tasc.models.target import Target
from tests.pico import build_model

dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=str)
bits = pytest.mark.parametrize("int8", [False, True], ids=["whole", "int8"])
needs_packing = pytest.mark.skipif(not can_pack(), reason="layers stay as they are")
NODES = np.array([3, 4, 5], np.int32), np.array([-1, 0, 0], np.int32)


@pytest.fixture(params=["avx512bf16", "avx512", "avx2", "neonbf16", "neondot", "neon", "portable"])
def instructions(request):
    before = _native.dense_instructions()
    if not _native.use_dense_instructions(request.param):
        pytest.skip(f"this machine has no {request.param}")
    yield request.param
    _native.use_dense_instructions(before)


def layer(k, n, dtype, bias=True):
    with torch.random.fork_rng():
        torch.manual_seed(k * n)
        return nn.Linear(k, n, bias).to(dtype).requires_grad_(False)


def rows(count, k, dtype):
    return torch.randn(count, k, generator=torch.Generator().manual_seed(count)).to(dtype)


def linear_reference(x, weight, bias):
    """Multiply x (r, k) by the transposed weight (n, k) in plain torch: the order of the sums.

    Sums are float32. The kernels round each step once where the machine fuses it, and add bfloat16
    in pairs where it multiplies pairs, so their last bits may differ.
    """
    total = torch.zeros(len(x), len(weight))
    for x_column, w_column in zip(x.float().T, weight.float().T, strict=True):
        total += x_column[:, None] * w_column
    return (total if bias is None else total + bias.float()).to(x.dtype)


@dtypes
@bits
@given(data=st.data())
def test_a_row_has_the_same_bits_alone_and_among_others(dtype, int8, data):
    k, n = data.draw(st.integers(1, 80)), data.draw(st.integers(1, 150))
    count = data.draw(st.integers(1, 70))
    packed, x = PackedLinear(layer(k, n, dtype), int8=int8), rows(count, k, dtype)
    together, begin = packed(x), data.draw(st.integers(0, count - 1))
    end = data.draw(st.integers(begin + 1, count))
    assert torch.equal(packed(x[begin:end]), together[begin:end])


@dtypes
@bits
def test_threads_do_not_change_bits(dtype, int8, monkeypatch):
    packed, x = PackedLinear(layer(64, 300, dtype), int8=int8), rows(5, 64, dtype)
    alone = packed(x)
    monkeypatch.setattr("tasc.models.packed.torch.get_num_threads", lambda: 3)
    monkeypatch.setattr("tasc.models.packed.torch.set_num_threads", lambda _count: None)
    with native_threads(packed):
        pool = thread_pool()
        assert pool is not None
        assert torch.equal(packed(x), alone)


def test_torch_has_one_thread_while_native_kernels_have_its_threads(monkeypatch):
    counts = []
    monkeypatch.setattr("tasc.models.packed.torch.get_num_threads", lambda: 3)
    monkeypatch.setattr("tasc.models.packed.torch.set_num_threads", counts.append)
    with native_threads(layer(8, 8, torch.float32)):
        assert thread_pool() is None
    with native_threads(PackedLinear(layer(8, 8, torch.float32))):
        assert (counts, thread_pool() is None) == ([1], False)
    assert (counts, thread_pool()) == ([1, 3], None)


@dtypes
def test_strided_rows_and_leading_dimensions_are_kept(dtype):
    packed, x = PackedLinear(layer(8, 20, dtype)), rows(24, 8, dtype).reshape(2, 3, 4, 8)
    assert torch.equal(packed(x.transpose(0, 2)), packed(x).transpose(0, 2))
    assert packed(x[:0]).shape == (0, 3, 4, 20)


@pytest.mark.usefixtures("instructions")
@dtypes
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("k", "n"), [(1, 1), (7, 16), (64, 100), (66, 100), (33, 70)])
def test_a_product_is_what_its_definition_says_up_to_rounding(k, n, bias, dtype):
    linear, x = layer(k, n, dtype, bias), rows(9, k, dtype)
    packed = PackedLinear(linear)
    torch.testing.assert_close(packed(x), linear_reference(x, linear.weight, linear.bias))
    torch.testing.assert_close(packed.state_dict(), linear.state_dict(), rtol=0, atol=0)
    assert torch.equal(packed.unpacked().weight, linear.weight)
    # In 8 bits, its output is the product of the rounded inputs and weights.
    whole, scales = quantised(linear.weight)
    weight = dequantised(whole, scales)
    packed = PackedLinear(linear, int8=True)
    expected = linear_reference(rounded_inputs(x), weight, linear.bias).to(dtype)
    torch.testing.assert_close(packed(x), expected)
    packed.plain = True
    torch.testing.assert_close(packed(x), expected, **_plain_tolerance(dtype))
    assert torch.equal(packed.state_dict()["weight"], weight.to(dtype))
    assert torch.equal(packed.unpacked().weight, weight.to(dtype))


def _plain_tolerance(dtype):
    """In bfloat16, torch's product rounds weights and inputs once more."""
    return {} if dtype == torch.float32 else {"rtol": 0.05, "atol": 0.05}


def test_weights_are_rounded_to_the_nearest_whole_number_of_scales():
    rows = [[127.0, 0.5, 1.5, -126.5], [0.0] * 4, [1e-45, 0, 0, 0], [torch.inf, 1, 0, 0]]
    whole, scales = quantised(torch.tensor([*rows, [torch.nan, 1, 0, 0]]))
    assert whole[:2].tolist() == [[127, 0, 2, -126], [0] * 4]
    assert scales[:2, 0].tolist() == [1, 0]
    assert whole.abs().max() == 127
    assert scales.isfinite()[:, 0].tolist() == [True, True, True, False, False]


def test_each_block_has_a_scale_of_its_own():
    weight = torch.ones(3, 2 * BLOCK + 1) * torch.tensor([[1.0], [2.0], [4.0]])
    weight[1, BLOCK] = 508
    whole, scales = quantised(weight)
    assert scales.shape == (3, 3)
    assert scales[1, 1] == 4
    assert whole[1, BLOCK : BLOCK + 2].tolist() == [127, 0]
    assert whole[1, 0] >= 126


@given(st.integers(0, 2**32), st.floats(-27, 30))
def test_an_input_in_8_bits_is_within_half_a_scale(seed, magnitude):
    x = torch.randn(3, 70, generator=torch.Generator().manual_seed(seed)) * 10**magnitude
    error = (rounded_inputs(x).double() - x.double()).abs()
    blocks = torch.nn.functional.pad(x.double().abs(), (0, 26)).view(3, 3, 32).amax(2) / 127
    assert (error <= 0.50001 * blocks.repeat_interleave(32, 1)[:, :70]).all()


def test_inputs_that_are_tiny_or_not_finite():
    packed = PackedLinear(layer(64, 20, torch.float32, bias=False), int8=True)
    x = torch.ones(4, 64)
    x[1] = 2.0**-101
    x[2, 40], x[3, 3] = torch.inf, torch.nan
    assert torch.equal(rounded_inputs(x)[1], torch.zeros(64))
    assert rounded_inputs(x).isnan().sum(1).tolist() == [0, 0, 32, 32]
    assert packed(x).isfinite().all(1).tolist() == [True, True, False, False]
    assert torch.equal(packed(x)[1], torch.zeros(20))


@given(st.integers(0, 2**32), st.floats(-30, 30))
def test_a_weight_in_8_bits_is_within_half_a_scale(seed, magnitude):
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(5, 40, generator=generator) * 10**magnitude
    whole, scales = quantised(weight)
    assert (whole.abs().amax(1) >= 126).all()  # a scale is rounded up
    error = (dequantised(whole, scales).double() - weight.double()).abs()
    assert (error <= 0.50001 * scales.double().repeat_interleave(BLOCK, 1)[:, :40]).all()


def test_rows_that_do_not_fit_are_refused():
    packed = PackedLinear(layer(8, 20, torch.float32))
    for x in (torch.zeros(2, 7), torch.zeros(2, 8, dtype=torch.bfloat16)):
        with pytest.raises(InputError, match=r"8 inputs in torch.float32 on the CPU was given"):
            packed(x)


@needs_packing
@dtypes
@pytest.mark.parametrize("tied", [True, False])
# torch's own product, on ARM CPUs without bfloat16
@pytest.mark.filterwarnings("ignore:mkldnn_matmul failed:UserWarning")
def test_a_packed_model_has_the_logits_and_the_state_of_the_model(tied, dtype):
    model = build_model("qwen2", tied=tied).to(dtype)
    packed, ids = copy.deepcopy(model), torch.arange(40)[None]
    pack(packed)
    assert not any(type(m) is nn.Linear for m in packed.modules())
    assert packed.state_dict().keys() == model.state_dict().keys()
    with torch.inference_mode():
        logits, expected = packed(ids).logits, model(ids).logits
    spread = expected.float().std()
    # In float32, sums of torch in another order differ by up to 1e-5 of the spread on old CPUs.
    tolerance = 3e-5 if dtype == torch.float32 else 0.05
    assert (logits - expected).float().abs().max() < tolerance * spread


@needs_packing
def test_layers_that_are_not_plain_stay():
    class Other(nn.Linear):
        pass

    model = nn.ModuleList([Other(4, 4), nn.Linear(4, 4).half(), nn.Linear(4, 4)])
    pack(model)
    assert [type(m) for m in model] == [Other, nn.Linear, PackedLinear]


@dtypes
@bits
@pytest.mark.usefixtures("instructions")
@pytest.mark.parametrize("architecture", ["qwen2", "llama", "mistral", "gemma"])
def test_logits_have_the_same_bits_alone_in_a_tree_and_in_a_batch(
    architecture, int8, dtype, monkeypatch
):
    for module in ("packed", "attention"):
        monkeypatch.setattr(f"tasc.models.{module}.can_pack", lambda: True)
    model = build_model(architecture).to(dtype)
    if architecture == "mistral":
        model.config.sliding_window = 8
    pack(model, int8=int8)
    assert_rows_keep_their_bits(Target(model))


def assert_rows_keep_their_bits(target):
    """Compare the logits of trees in a batch with the logits of single tokens."""
    tokens = np.arange(1, 60, dtype=np.int32)
    prompts = [tokens[:9], tokens[:4], tokens[20:50]]
    parents = np.array([-1, -1, 0, 1, 3], np.int32)
    sizes = 5, 2, 3  # trees of several sizes are scored without padding
    trees = [(tokens[8 * i : 8 * i + n], parents[:n]) for i, n in enumerate(sizes)]
    target.begin(80, 3)
    first = target.join(prompts)
    scored = target.score([5, 6, 7], trees)
    for row, (prompt, (nodes, _)) in enumerate(zip(prompts, trees, strict=True)):
        for path in ([0, 2], [1, 3, 4]):
            path = [node for node in path if node < len(nodes)]
            assert torch.equal(target.prefill(prompt, 20)[0], first[row])
            for token, node in [(5 + row, -1), *((int(nodes[i]), i) for i in path)]:
                alone = target.score([token], [(tokens[:0], parents[:0])])[0, 0]
                target.keep([[]])
                assert torch.equal(alone, scored[row, node + 1])


def decoded(model):
    target = Target(model)
    target.begin(60, 2)
    prompts = [np.arange(1, size, dtype=np.int32) for size in (30, 12)]
    return [target.join(prompts), target.score([7, 8], [NODES, NODES])]


def fused(model):
    return [part for part in model.modules() if "forward" in vars(part)]


def plain_logits(model, monkeypatch):
    for decoder in fused(model):
        monkeypatch.setattr(decoder, "forward", decoder.forward.__self__.plain)
    return decoded(model)


@needs_packing
@pytest.mark.parametrize("architecture", ["llama", "mistral", "qwen2", "qwen3", "gemma3_text"])
def test_a_fused_decoder_computes_what_the_plain_one_does(architecture, monkeypatch):
    weights = build_model(architecture).bfloat16()
    models = {dtype: copy.deepcopy(weights).to(dtype) for dtype in DTYPES}
    for model in models.values():
        if architecture == "mistral":
            model.config.sliding_window = 8
        pack(model)
    ours = {dtype: decoded(model) for dtype, model in models.items()}
    assert all(len(fused(model)) == 1 for model in models.values())
    plain = {dtype: plain_logits(model, monkeypatch) for dtype, model in models.items()}
    exact = plain[torch.float32]
    torch.testing.assert_close(ours[torch.float32], exact, atol=1e-4, rtol=1e-4)
    error, allowed = (
        sum((a.float() - b).norm() for a, b in zip(x[torch.bfloat16], exact, strict=True))
        for x in (ours, plain)
    )
    assert error < 1.5 * allowed


@needs_packing
def test_other_decoders_and_other_attentions_stay_plain():
    gemma = build_model("gemma")
    pack(gemma)
    assert not fused(Target(gemma).model)
    plain = build_model("llama")
    model = copy.deepcopy(plain)
    pack(model)
    target, ids = Target(model), torch.arange(9)[None]
    with target.untouched(), torch.inference_mode():
        torch.testing.assert_close(model(ids).logits, plain(ids).logits, atol=1e-5, rtol=1e-4)
    with torch.enable_grad():
        torch.testing.assert_close(model(ids).logits, plain(ids).logits, atol=1e-5, rtol=1e-4)


@needs_packing
def test_a_fused_decoder_in_8_bits_computes_what_its_linear_layers_do(monkeypatch):
    for dtype in DTYPES:
        model = build_model("llama").to(dtype)
        pack(model, int8=True)
        ours = decoded(model)
        assert len(fused(model)) == 1
        # Inputs that differ in their last bits may be rounded to other whole numbers.
        tolerance = 1e-3 if dtype == torch.float32 else 0.08
        for found, expected in zip(ours, plain_logits(model, monkeypatch), strict=True):
            assert (found - expected).float().norm() < tolerance * expected.float().norm()
