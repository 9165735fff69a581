"""Measures how long a model's training steps and forwards take on this machine."""

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tasc.benchmark.options import BenchOptions
from tasc.data.corpus import Corpus
from tasc.tokenizer.loaded import LoadedTokenizer, load_tokenizer
from tasc.training.options import BaseOptions, FinetuneOptions

if TYPE_CHECKING:
    from tasc.training.core.batch import Examples
    from tasc.training.speed import TrainingSpeed

_TREE = 13  # tokens of a forward with a draft
_PACKED = 1.25  # memory of a model to decode with over its weights


@dataclass(frozen=True)
class DecodingCost:
    """The cost of a model's forwards, in seconds by ``busy_clock``."""

    load: float
    token: float  # over one token
    tree: float  # over ``_TREE`` tokens
    prompt_token: float  # per token of a prompt
    memory: int  # bytes of the weights


@dataclass(frozen=True)
class TrainingCost:
    """The cost of a model's training steps, and the seconds of loading it."""

    load: float
    speed: "TrainingSpeed"


def measure_training(
    model: str,
    tokenizer: LoadedTokenizer,
    corpus: Corpus,
    step: BaseOptions | FinetuneOptions,
    longest: int,
    batch_size: int | None,
) -> TrainingCost:
    """Measure a few training steps of a model folder, on examples of ``corpus``.

    Examples have at most ``longest`` tokens. Batches have at most ``batch_size`` examples; None:
    any number.
    """
    from tasc.models.load import load_model, training_dtype
    from tasc.training.adapters import lora
    from tasc.training.core.batch import encode_examples
    from tasc.training.core.precision import multiplies_in_bfloat16
    from tasc.training.speed import training_speed

    adapts = step if isinstance(step, FinetuneOptions) else None
    learn_prompts = adapts is None
    examples: Examples = encode_examples(
        tokenizer, corpus.prompts, corpus.outputs, longest, learn_prompts=learn_prompts
    )
    begin = time.thread_time()
    dtype = training_dtype(adapts.dtype if adapts else "float32", step.device)
    loaded = load_model(model, dtype, step.device, adapts.quantization if adapts else "none")
    load = time.thread_time() - begin
    bf16 = adapts is not None and adapts.bf16
    bfloat16 = multiplies_in_bfloat16(loaded.device, adapts.dtype if adapts else "auto", bf16=bf16)
    trained = loaded
    if adapts is None or adapts.adapter == "none":
        trained.float().requires_grad_(True)
    else:
        used = adapts.trained_rows != "new"
        rows = np.unique(examples.tokens).tolist() if used else []
        trained = lora.attach(loaded, rows, adapts)
    speed = training_speed(trained.train(), examples, batch_size, bfloat16=bfloat16)
    return TrainingCost(load, speed)


def measure_decoding(model: str, step: BenchOptions, prompt: int) -> DecodingCost:
    """Measure forwards of a model folder, as ``step`` decodes, with ``prompt`` tokens before."""
    from tasc.models.cost import prefill_seconds, token_seconds
    from tasc.models.folder.fetch import local_folder
    from tasc.models.folder.files import count_parameters
    from tasc.models.load import load_to_decode
    from tasc.models.targets.fastest import target_for

    begin = time.thread_time()
    loaded = load_to_decode(model, step.dtype, step.device, load_tokenizer(model))
    load = time.thread_time() - begin
    target = target_for(loaded)
    # Packed weights are no tensors; a tied LM head is packed beside the embedding.
    width = 1 if step.dtype == "int8" else loaded.dtype.itemsize
    return DecodingCost(
        load=load,
        token=token_seconds(target),
        tree=token_seconds(target, _TREE),
        prompt_token=prefill_seconds(target, prompt) / prompt,
        memory=round(_PACKED * count_parameters(local_folder(model)) * width),
    )
