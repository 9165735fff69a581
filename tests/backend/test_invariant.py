"""The invariant kernels of CUDA on the CPU, by kernels/emulation."""

import pytest
import torch

from tasc.backend import cuda
from tasc.errors import UnavailableError
from tasc.models.attention import attend
from tasc.models.invariant import invariant_forward, linear
from tasc.models.packed import DTYPES
from tasc.models.target import Target
from tasc.models.targets.fastest import target_for
from tests.models.test_attention import eager_attention
from tests.models.test_packed import assert_rows_keep_their_bits, layer, rows
from tests.pico import build_model

dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=str)


@pytest.fixture
def on_the_cpu(emulated, monkeypatch):
    monkeypatch.setattr(cuda, "launch", lambda name, *given: emulated(name[5:], *given))


def linear_reference(x, weight, bias):
    """Add element i of a row in lane i mod 32, in ascending order; then lanes 16, 8, ... apart."""
    lanes = torch.zeros(len(x), len(weight), 32)
    for first in range(0, x.shape[1], 32):
        part = slice(first, first + 32)
        products = x[:, None, part].double() * weight[:, part].double()
        own = lanes[..., : products.shape[2]]
        own.copy_(own.double() + products)
    while lanes.shape[2] > 1:
        lanes = lanes[..., : lanes.shape[2] // 2] + lanes[..., lanes.shape[2] // 2 :]
    return (lanes[..., 0] + (0 if bias is None else bias.float())).to(x.dtype)


@pytest.mark.usefixtures("on_the_cpu")
@dtypes
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("k", "n"), [(1, 1), (31, 5), (33, 3), (64, 9), (200, 17)])
def test_a_product_is_its_definition_alone_and_among_others(k, n, bias, dtype):
    own = layer(k, n, torch.bfloat16, bias).to(dtype)  # a sum of two products is then exact
    for count in (1, 2, 7, 8, 9, 20):
        x = rows(count, k, torch.bfloat16).to(dtype)
        found = linear(x, own.weight, own.bias)
        assert torch.equal(found, linear_reference(x, own.weight, own.bias))
        assert torch.equal(found[-1:], linear(x[-1:].clone(), own.weight, own.bias))
    assert linear(x[:0], own.weight).shape == (0, n)
    assert torch.equal(linear(x[None], own.weight)[0], linear(x, own.weight))


@pytest.mark.usefixtures("on_the_cpu")
def test_a_mean_is_of_each_row():
    x = torch.randn(3, 5, 70)
    with invariant_forward():
        found = x.mean(-1, keepdim=True)
        assert x.mean(-1).shape == (3, 5)
    assert torch.equal(found[0], linear_reference(x[0], torch.ones(1, 70), None) / 70)
    torch.testing.assert_close(found, x.mean(-1, keepdim=True))


@pytest.mark.usefixtures("on_the_cpu")
@pytest.mark.parametrize("options", [{}, {"softcap": 2.0}, {"s_aux": torch.linspace(-1, 2, 6)}])
@pytest.mark.parametrize(("heads", "d"), [(1, 8), (2, 40), (6, 256)])
def test_attention_is_its_definition_whatever_is_hidden(heads, d, options):
    make = torch.Generator().manual_seed(d)
    query = torch.randn(2, 3, 6, d, generator=make).transpose(1, 2)
    key, value = torch.randn(2, 2, heads, 20, d, generator=make)
    mask = torch.rand(2, 1, 3, 20, generator=make) < 0.5
    mask[..., 0] = True
    with invariant_forward():
        found, _ = attend(torch.nn.Identity(), query, key, value, mask, **options)
        for sequence, own in enumerate(mask[:, 0, 1]):  # one query over the keys that it sees
            k, v = (x[sequence : sequence + 1, :, own] for x in (key, value))
            asked = query[sequence : sequence + 1, :, 1:2]
            alone, _ = attend(torch.nn.Identity(), asked, k, v, None, **options)
            assert torch.equal(alone[0, 0], found[sequence, 1])
    torch.testing.assert_close(found, eager_attention(query, key, value, mask, **options))


@pytest.mark.usefixtures("on_the_cpu")
@pytest.mark.parametrize(("architecture", "dtype"), [("llama", DTYPES[1]), ("gemma2", DTYPES[0])])
def test_logits_have_the_same_bits_alone_in_a_tree_and_in_a_batch(architecture, dtype):
    model = build_model(architecture, vocabulary=70, hidden=16, layers=1).to(dtype)
    target = Target(model)
    target.flattens, target.invariant = False, True  # as on CUDA
    assert target.bitwise
    assert_rows_keep_their_bits(target)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA device")
def test_on_a_device_logits_have_the_same_bits():
    model = build_model("llama").to("cuda", torch.bfloat16)
    assert_rows_keep_their_bits(target_for(model, invariant=True))


def test_they_need_cuda():
    with pytest.raises(UnavailableError, match="use --kernels auto"):
        target_for(build_model(), invariant=True)
