"""Runs of the training loop on a tiny model, interrupted and resumed."""

import pytest
import torch

from tasc.training.core.schedule import Schedule
from tasc.training.loop import Run
from tasc.training.objectives.language import learner
from tests import pico
from tests.seeds import SEED

SCHEDULE = Schedule(
    2.0, 4, 8, warmup_steps=2, bfloat16=False, checkpoint_steps=2, shape="cosine", seed=SEED + 3
)


def start(data, work, schedule=SCHEDULE, name="a"):
    model = pico.build_model(hidden=32, layers=1)
    model.config.attention_dropout = 0.2  # draws from the generator that a checkpoint restores
    for layer in model.model.layers:
        layer.self_attn.attention_dropout = 0.2
    groups = [{"params": list(model.parameters()), "lr": 1e-3, "weight_decay": 0.1}]
    return Run(learner(model), groups, data, schedule, work=work, name=name)


def weights(run):
    return {name: p.detach().clone() for name, p in run.trainable.items()}


def assert_same(found, expected):
    """Two models, or the weights of two runs, have the very same bits."""
    if isinstance(found, torch.nn.Module):
        found, expected = dict(found.named_parameters()), dict(expected.named_parameters())
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def assert_close(found, expected, ids, off):
    """The logits of two models differ by a share of the largest at most."""
    with torch.no_grad():
        found, expected = found(input_ids=ids).logits, expected(input_ids=ids).logits
    assert (found - expected).abs().max() < off * expected.abs().max()


def note_steps(seen):
    def progress(description, done, total):
        if description.startswith("training"):
            seen.append(done)

    return progress


def interrupt(train, step, *arguments, **options):
    """Train until a step is done, which an interrupt follows."""

    def progress(description, done, total):
        if description.startswith("training") and done == step:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(*arguments, **options, progress=progress)


def resumed(train, step, *arguments, **options):
    """Interrupt a training after a step; return what it gives when it goes on."""
    interrupt(train, step, *arguments, **options)
    return train(*arguments, **options, resume=True)
