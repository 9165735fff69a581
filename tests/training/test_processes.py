"""One training in two processes: the same losses as in one, one result, and one line of error."""

from collections.abc import Callable

import pytest
import torch
from transformers import AutoModelForCausalLM

from tasc.errors import InputError, UnavailableError
from tasc.training import processes
from tasc.training.train import finetune
from tests.options import FinetuneOptions, replace
from tests.training import followers, samples
from tests.training.runs import stop_after
from tests.training.samples import corpus

pytestmark = pytest.mark.slow

OPTIONS = replace(samples.OPTIONS, epochs=10.0, checkpoint_steps=10)
WAYS = {"adapters": {}, "all weights": {"adapter": "none"}, "4 bits": {"quantize": "nf4"}}


@pytest.mark.parametrize("way", WAYS)
def test_fifty_steps_in_two_processes_lose_what_they_do_in_one(start, tmp_path, way):
    options = replace(OPTIONS, **WAYS[way], epochs=10.0 if way == "adapters" else 2.0)
    data, shared = corpus(2), replace(options, processes=2)
    alone = finetune(start, data, corpus(1, 12), options, work=tmp_path / "alone")
    both = finetune(start, data, corpus(1, 12), shared, work=tmp_path / "both")
    assert alone.report.steps == (50 if way == "adapters" else 10)
    assert both.report.losses == pytest.approx(alone.report.losses, abs=1e-3)
    assert both.report.tokens == alone.report.tokens
    assert both.report.targets == alone.report.targets
    assert both.report.total_parameters == alone.report.total_parameters
    assert both.report.trainable_parameters == alone.report.trainable_parameters
    assert [e.loss for e in both.report.evaluations] == pytest.approx(
        [e.loss for e in alone.report.evaluations], abs=1e-3
    )
    both.save_merged(tmp_path / "merged")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "merged")
    ids = torch.tensor([[1, 320, 7, 321]])
    with torch.no_grad():
        torch.testing.assert_close(model(ids).logits, alone.merged()(ids).logits, atol=0.02, rtol=0)


def test_a_resumed_training_in_two_processes_ends_with_the_very_same_weights(start, tmp_path):
    options = replace(OPTIONS, processes=2, epochs=2.0, checkpoint_steps=2)
    whole = finetune(start, corpus(2), None, options, work=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        finetune(start, corpus(2), None, options, work=tmp_path / "cut", progress=stop_after(5))
    assert len(list((tmp_path / "cut").iterdir())) == 2
    again = finetune(start, corpus(2), None, options, work=tmp_path / "cut", resume=True)
    assert again.report.losses == whole.report.losses
    expected = dict(whole.model.named_parameters())
    for name, parameter in again.model.named_parameters():
        assert torch.equal(parameter, expected[name]), name


def test_a_step_with_fewer_batches_than_processes_is_a_step_of_all(start, tmp_path):
    options = replace(samples.OPTIONS, adapter="none", quantize=None, gradient_checkpointing=True)
    data = corpus(1, 3)  # 17 examples in batches of 4: the last step of an epoch has one batch
    alone = finetune(start, data, None, options, work=tmp_path / "alone")
    both = finetune(start, data, None, replace(options, processes=2), work=tmp_path / "both")
    assert both.report.losses == pytest.approx(alone.report.losses, abs=1e-3)


def test_a_training_in_two_processes_goes_on_in_one(start, tmp_path):
    options = replace(OPTIONS, processes=2, epochs=2.0, checkpoint_steps=2)
    with pytest.raises(KeyboardInterrupt):
        finetune(start, corpus(2), None, options, work=tmp_path, progress=stop_after(5))
    alone = replace(options, processes=1)
    again = finetune(start, corpus(2), None, alone, work=tmp_path, resume=True)
    whole = finetune(start, corpus(2), None, alone, work=tmp_path / "whole")
    assert again.report.losses == pytest.approx(whole.report.losses, abs=1e-3)


def test_processes_add_up_what_each_has_and_take_the_word_of_the_first():
    with processes.together(2, "cpu", followers.add, ""):
        here = processes.group()
        assert (here.rank, here.size, here.first) == (0, 2, True)
        tensors = [torch.ones(2), torch.ones(3, 2)]
        here.add_up(tensors)
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
def test_what_one_process_raises_ends_all_and_is_told_by_the_first(
    follow: Callable[[str], None], kind, said
):
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


def test_processes_are_for_what_trains_the_model_itself():
    with pytest.raises(InputError, match="processes"):
        FinetuneOptions(draft_head=True, processes=2)
