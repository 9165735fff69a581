"""A target that has learnt real data, so that acceptance is real; trained at its first use."""

import shutil
from dataclasses import dataclass
from typing import Any

import numpy as np
from transformers import PreTrainedModel

from benchmarks.gpu.setup import Setup
from benchmarks.lossless import ids
from tasc.data.corpus import load
from tasc.data.source import Source
from tasc.decoding.drafters import Resources
from tasc.models.load import load_model
from tasc.models.target import Target
from tasc.tokenizer.loaded import load_tokenizer
from tasc.training.base import train_base
from tasc.training.options import BaseOptions


@dataclass(frozen=True)
class Trained:
    """The model, prompts (L_i,) int32 of the test split, and outputs of the training split."""

    model: PreTrainedModel
    prompts: list[np.ndarray]
    outputs: list[np.ndarray]
    end: int

    def resources(self, target: Target) -> Resources:
        """Return what drafters are made from."""
        return Resources(self.outputs, self.end, target=target)


def trained(setup: Setup, **options: Any) -> Trained:  # noqa: ANN401
    """Train the model, or find it trained; ``options`` are those of load_model."""
    source, folder = Source(str(setup.data)), setup.work / f"{setup.shape}-{setup.minutes:g}"
    if not folder.is_dir():
        some = 400 if setup.quick else None
        shape = BaseOptions(
            source=source.path,
            preset=setup.shape,
            minutes=setup.minutes,
            epochs=12,
            checkpoint_steps=0,
            device=setup.device.type,
            seed=setup.seed,
        )
        aside = folder.with_suffix(".new")
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(parents=True)
        corpus = load(source, "train", limit=some)
        train_base(corpus, None, shape, work=aside / "checkpoints").save(aside)
        aside.rename(folder)
    options = {"dtype": "bfloat16", "device": setup.device.type} | options
    model = load_model(str(folder), **options)
    tokenizer = load_tokenizer(str(folder))
    prompts = load(source, "test", limit=2 if setup.quick else 32).prompts
    outputs = load(source, "train").outputs
    return Trained(model, ids(tokenizer, prompts), ids(tokenizer, outputs), tokenizer.eos_id)
