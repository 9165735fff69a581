"""A sharded model: what each process holds, what comes back whole, and what is refused."""

import pytest
import torch
from torch.distributed.tensor import DTensor

from tasc.errors import InputError
from tasc.training import processes, sharding
from tasc.training.train import Start, finetune
from tests import pico
from tests.options import FinetuneOptions, replace
from tests.training import followers
from tests.training.samples import OPTIONS, ROWS, corpus

pytestmark = pytest.mark.slow


def local(tensor: torch.Tensor) -> torch.Tensor:
    """Return what this process holds of a sharded tensor."""
    assert isinstance(tensor, DTensor)
    return tensor.to_local()


def test_each_process_holds_half_and_the_first_gets_all_back(tmp_path):
    folder = pico.make_model(tmp_path, hidden=40, vocabulary=321)  # odd: two unequal halves
    before = {name: p.detach().clone() for name, p in followers.model(folder).named_parameters()}
    with processes.together(2, "cpu", followers.hold, str(folder)):
        model = followers.model(folder)
        assert not sharding.is_sharded(model)
        sharding.shard(model)
        assert sharding.is_sharded(model)
        held = {name: local(p) for name, p in model.named_parameters()}
        whole = sharding.gathered(dict(model.named_parameters()))
        again = {n: sharding.share(whole[n], p) for n, p in model.named_parameters()}
        assert all(torch.equal(local(p), held[n]) for n, p in again.items())
    assert held["model.embed_tokens.weight"].shape == (161, 40)
    assert sum(p.numel() for p in held.values()) == pytest.approx(
        sum(p.numel() for p in before.values()) / 2, rel=0.02
    )
    assert {n for n, p in whole.items() if torch.equal(p, before[n])} == set(before)


def test_what_is_whole_stays_as_it_is():
    there = torch.ones(3)
    assert sharding.share(there, torch.zeros(3)) is there
    assert torch.equal(sharding.gathered({"a": there})["a"], there)


def test_a_step_with_fewer_batches_than_processes_is_a_step_of_all(start, tmp_path):
    options = replace(OPTIONS, adapter="none", quantize=None, gradient_checkpointing=True)
    data = corpus(1, 3)  # 17 examples in batches of 4: the last step of an epoch has one of one
    alone = finetune(start, data, None, options, work=tmp_path / "alone")
    shared = replace(options, processes=2, fsdp=True)
    both = finetune(start, data, None, shared, work=tmp_path / "both")
    assert both.report.losses == pytest.approx(alone.report.losses, abs=1e-3)


def test_a_sharded_training_goes_on_in_one_process(start, tmp_path):
    def stop(_description, done, _total):
        if done == 5:
            raise KeyboardInterrupt

    sharded = replace(OPTIONS, processes=2, fsdp=True, epochs=2.0, checkpoint_steps=2)
    with pytest.raises(KeyboardInterrupt):
        finetune(start, corpus(2), None, sharded, work=tmp_path, progress=stop)
    alone = replace(sharded, processes=1, fsdp=False)
    again = finetune(start, corpus(2), None, alone, work=tmp_path, resume=True)
    whole = finetune(start, corpus(2), None, alone, work=tmp_path / "whole")
    assert again.report.losses == pytest.approx(whole.report.losses, abs=1e-3)


def test_one_process_has_nobody_to_share_with(start, tmp_path, monkeypatch):
    with pytest.raises(InputError, match="add --processes 2, or leave out --fsdp"):
        finetune(start, corpus(1), None, replace(OPTIONS, fsdp=True), work=tmp_path)
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    assert not sharding.is_wanted(fsdp=False)


def test_8_bits_are_refused(start, tmp_path):
    options = replace(OPTIONS, processes=2, fsdp=True, quantize="8bit")
    with pytest.raises(InputError, match="take --quantize nf4 with --fsdp, or leave out --fsdp"):
        finetune(start, corpus(1), None, options, work=tmp_path)


def test_a_draft_head_is_not_sharded():
    with pytest.raises(InputError, match="leave out processes, fsdp"):
        FinetuneOptions(draft_head=True, fsdp=True)


@pytest.mark.parametrize("adapter", ["lora", "none"])
def test_an_lm_head_of_its_own_is_shared_out_too(adapter, augmented, tmp_path):
    base = pico.make_base(tmp_path / "base", "llama", tied=False)
    options = replace(OPTIONS, adapter=adapter)
    losses, heads = [], []
    for name, changes in {"one": {}, "two": {"processes": 2, "fsdp": True}}.items():
        from_ = Start(str(base), str(augmented), ROWS)
        made = finetune(from_, corpus(), None, replace(options, **changes), work=tmp_path / name)
        losses.append(made.report.losses)
        heads.append(made.merged().get_output_embeddings().weight.detach())
    assert losses[1] == pytest.approx(losses[0], abs=1e-3)
    assert torch.allclose(heads[0], heads[1], atol=1e-4)
    first = pico.build_model("llama", tied=False).get_output_embeddings().weight
    assert not torch.allclose(heads[0][:320], first, atol=1e-4)  # it did learn
