"""One training in two processes: the same losses as in one, one result, and one line of error."""

import shutil

import pytest
import torch
from transformers import AutoModelForCausalLM

from tasc.errors import InputError, UnavailableError
from tasc.training import processes
from tasc.training.train import finetune
from tests.options import replace
from tests.training import followers, samples
from tests.training.runs import assert_same, interrupt
from tests.training.samples import corpus

pytestmark = pytest.mark.slow

OPTIONS = replace(samples.OPTIONS, epochs=10.0, checkpoint_steps=10)
WAYS = {"adapters": {}, "all weights": {"adapter": "none"}, "4 bits": {"quantize": "nf4"}}


@pytest.mark.parametrize("way", WAYS)
def test_fifty_steps_in_two_processes_lose_what_they_do_in_one(start, tmp_path, way):
    options = replace(OPTIONS, **WAYS[way], epochs=10.0 if way == "adapters" else 2.0)
    data, shared = (corpus(2), corpus(1, 12)), replace(options, processes=2)
    alone = finetune(start, *data, options, work=tmp_path / "alone")
    both = finetune(start, *data, shared, work=tmp_path / "both")
    assert alone.report.steps == (50 if way == "adapters" else 10)
    assert both.report.losses == pytest.approx(alone.report.losses, abs=1e-3)
    for counted in ("tokens", "targets", "total_parameters", "trainable_parameters"):
        assert getattr(both.report, counted) == getattr(alone.report, counted)
    for ours, theirs in zip(both.report.evaluations, alone.report.evaluations, strict=True):
        assert ours.loss == pytest.approx(theirs.loss, abs=1e-3)
    both.save_merged(tmp_path / "merged")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "merged")
    ids = torch.tensor([[1, 320, 7, 321]])
    with torch.no_grad():
        torch.testing.assert_close(model(ids).logits, alone.merged()(ids).logits, atol=0.02, rtol=0)


def test_a_training_in_two_processes_resumes_in_two_or_in_one(start, tmp_path):
    options = replace(OPTIONS, processes=2, epochs=2.0, checkpoint_steps=2)
    arguments = (start, corpus(2), None)
    whole = finetune(*arguments, options, work=tmp_path / "whole")
    interrupt(finetune, 5, *arguments, options, work=tmp_path / "cut")
    assert len(list((tmp_path / "cut").iterdir())) == 2
    shutil.copytree(tmp_path / "cut", tmp_path / "copy")
    again = finetune(*arguments, options, work=tmp_path / "cut", resume=True)
    assert again.report.losses == whole.report.losses
    assert_same(again.model, whole.model)
    one = replace(options, processes=1)
    alone = finetune(*arguments, one, work=tmp_path / "copy", resume=True)
    assert alone.report.losses[:4] == whole.report.losses[:4]
    assert alone.report.losses[4:] == pytest.approx(whole.report.losses[4:], abs=1e-3)


def test_a_step_with_fewer_batches_than_processes_is_a_step_of_all(start, tmp_path):
    options = replace(samples.OPTIONS, adapter="none", quantize=None, gradient_checkpointing=True)
    data = corpus(1, 3)  # 17 examples in batches of 4: the last step of an epoch has one batch
    alone = finetune(start, data, None, options, work=tmp_path / "alone")
    both = finetune(start, data, None, replace(options, processes=2), work=tmp_path / "both")
    assert both.report.losses == pytest.approx(alone.report.losses, abs=1e-3)


def test_processes_add_up_what_each_has_and_take_the_word_of_the_first():
    with processes.together(2, "cpu", followers.add, ""):
        here = processes.group()
        assert (here.rank, here.size, here.first) == (0, 2, True)
        here.add_up(tensors := [torch.ones(2), torch.ones(3, 2)])
        assert [t.flatten().tolist() for t in tensors] == [[3.0] * 2, [2.0] * 6]
        assert here.of_first("wörd") == "wörd"
        assert here.total(1.5) == 1.75
    assert processes.group() == processes.Group()


@pytest.mark.parametrize(
    ("follow", "kind", "said"),
    [
        (followers.refuse, InputError, "bad luck: choose another"),
        (followers.fail, UnavailableError, "process 2 of 2 ended: LookupError: bad luck"),
        (followers.kill, UnavailableError, "process 2 of 2 ended"),
    ],
)
def test_what_one_process_raises_ends_all_and_is_told_by_the_first(follow, kind, said):
    with (
        pytest.raises(kind, match=said) as caught,
        processes.together(2, "cpu", follow, "bad luck"),
    ):
        processes.group().add_up([torch.ones(3)])
    assert "\n" not in str(caught.value)


def test_a_batch_that_leaves_a_process_without_work_is_refused(start, tmp_path):
    options = replace(OPTIONS, batch_size=8, processes=2)
    with pytest.raises(InputError, match="lower --batch-size to 4"):
        finetune(start, corpus(2), None, options, work=tmp_path)
