import pytest
import torch

from tasc.training.adapters.lora import BitDropout


@pytest.mark.parametrize("rate", [0.05, 0.2, 0.5])
def test_elements_are_dropped_at_the_rate_and_the_mean_is_kept(rate):
    torch.manual_seed(0)
    layer = BitDropout(rate)
    out = layer(torch.ones(1001, 999))
    assert (out == 0).float().mean().item() == pytest.approx(rate, abs=0.003)
    assert out.mean().item() == pytest.approx(1.0, abs=0.003)
    kept = out[out != 0]
    assert kept.unique().numel() == 1


def test_neighbours_are_dropped_independently():
    torch.manual_seed(0)
    dropped = (BitDropout(0.5)(torch.ones(4, 250_000)) == 0).float()
    for shift in (1, 2, 3, 4):
        together = (dropped[:, shift:] * dropped[:, :-shift]).mean().item()
        assert together == pytest.approx(0.25, abs=0.005)


def test_the_mask_follows_from_the_generator_and_passes_gradients():
    x = torch.randn(7, 5, requires_grad=True)
    layer = BitDropout(0.2)
    torch.manual_seed(3)
    first = layer(x)
    torch.manual_seed(3)
    assert torch.equal(layer(x), first)
    first.sum().backward()
    torch.testing.assert_close(x.grad, torch.where(first == 0, 0.0, layer.scale))


def test_evaluation_drops_nothing():
    x = torch.randn(4, 4)
    assert BitDropout(0.9).eval()(x) is x
