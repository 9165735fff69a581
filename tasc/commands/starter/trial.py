"""Trying prompts with a model: the loss of held-out outputs after each, untuned and trained."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tasc.commands.starter.data import OwnData
from tasc.commands.starter.fit import fit
from tasc.commands.starter.holdout import by_hash
from tasc.commands.starter.model import parameters_of
from tasc.commands.starter.options import InitOptions
from tasc.commands.starter.prompts import (
    ChosenPrompt,
    best,
    candidates,
    few_shot,
    is_clear,
    labelled,
    with_figures,
)
from tasc.commands.starter.prompts import written as prompts_of
from tasc.data.source import Source
from tasc.progress import Progress
from tasc.tokenizer.loaded import LoadedTokenizer, load_tokenizer

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

    from tasc.models.load import Quantization
    from tasc.training.core.batch import Examples

LARGEST_CPU, LARGEST_GPU = 10**9, 2 * 10**10  # parameters of models that prompts are tried with
FEWEST_HOURS = 0.5  # from which prompts are trained with, too
_HELD, _LEARNT = 48, 64  # outputs whose loss is measured; examples of the short training
_FEWEST = 8  # held-out outputs
_TOKENS = 24_000  # of all forwards of untuned models: long examples are measured on fewer
_LONGEST = 1024  # tokens of an example
_SPACE = 128  # of them: the most that a prompt may add to its input
_TRAINED = 3  # prompts that are trained with
_EXAMPLES = (1, 3)  # in prompts, from those to train on
_EXAMPLE_TOKENS = 384  # of all examples in a prompt
_BATCH, _PASSES = 8, 2  # examples per step, and passes over the examples
_SECONDS = 120.0  # the most of a short training
_MICRO_BATCH = 512  # tokens of a forward


@dataclass(frozen=True)
class Trial:
    """A model, and different inputs with an output each: to measure, and to train on before."""

    model: str
    parameters: float
    tokenizer: LoadedTokenizer
    held_out: Sequence[tuple[str, str]]
    learnt: Sequence[tuple[str, str]]
    seed: int


def prompt_for(options: InitOptions, data: OwnData, progress: Progress) -> ChosenPrompt | None:
    """Choose a prompt; None for chats, and for a template that was given or that the data imply.

    A model that is not on this machine, or without weights, cannot try prompts.
    """
    source = data.source
    if source.chat or source.names("template"):
        return None
    parameters = parameters_of(options.model)
    if options.model is None or data.corpus is None or parameters == math.inf:
        return ChosenPrompt(labelled(source))
    return choose(
        options.model,
        parameters,
        load_tokenizer(options.model),
        source,
        data.training_pairs(),
        options.hours,
        options.seed,
        progress,
    )


def choose(
    model: str,
    parameters: float,
    tokenizer: LoadedTokenizer,
    source: Source,
    pairs: Sequence[tuple[str, str]],
    hours: float | None,
    seed: int,
    progress: Progress,
) -> ChosenPrompt:
    """Choose the prompt after which the outputs of ``pairs`` (input, output) are most probable.

    With enough ``hours``, the best prompt is also tried with examples in it, the model is trained
    on a few examples with each of the best prompts, and those losses decide. As the recipe trains,
    a prompt with examples is chosen only if it is clearly better after training, too. Models and
    examples that are too large are not tried, and the columns' names label the input.
    """
    import torch

    most = LARGEST_GPU if torch.cuda.is_available() else LARGEST_CPU
    templates = candidates(source, tokenizer)
    trains = hours is not None and hours >= FEWEST_HOURS
    # Prompts with examples are longer, and are chosen only after a training with them.
    weight = len(templates) + (2 * len(_EXAMPLES) if trains else 0)
    held_out, learnt = divided(pairs, tokenizer, weight, seed)
    if parameters > most or len(held_out) < _FEWEST:
        return ChosenPrompt(labelled(source))
    shown, learnt = learnt[: max(_EXAMPLES)], learnt[max(_EXAMPLES) :]
    trial = Trial(model, parameters, tokenizer, held_out, learnt, seed)
    trains = trains and len(learnt) >= _BATCH
    total = len(templates) + (len(_EXAMPLES) + _TRAINED if trains else 0)
    losses = dict[str, np.ndarray]()
    loaded = _loaded(trial)
    for done, template in enumerate(templates):
        progress("try prompts", done, total)
        losses[template] = _measured(loaded, trial, template)
    longer = dict[str, int]()
    if trains:
        longer = _with_examples(min(losses, key=_mean_in(losses)), source, tokenizer, shown)
    with_examples = dict[str, np.ndarray]()
    for done, template in enumerate(longer, start=len(templates)):
        progress("try prompts", done, total)
        with_examples[template] = _measured(loaded, trial, template)
    del loaded
    trained = dict[str, np.ndarray]()
    if trains:
        contenders = sorted(with_examples, key=_mean_in(with_examples))[:1]
        order = sorted(losses, key=_mean_in(losses))[: _TRAINED - len(contenders)] + contenders
        steps: int | None = None
        for done, template in enumerate(order, start=total - _TRAINED):
            progress("try prompts", done, total)
            trained[template], steps = _trained(trial, template, steps)
    progress("try prompts", total, total)
    plain = {template: trained[template] for template in losses if template in trained}
    chosen = best(plain or losses)
    for template in trained.keys() & longer.keys():
        if is_clear(trained[template], trained[chosen]):
            chosen = template
    return with_figures(chosen, losses | with_examples, trained, longer)


def _mean_in(losses: Mapping[str, np.ndarray]) -> Callable[[str], float]:
    return lambda template: float(losses[template].mean())


def _with_examples(
    template: str, source: Source, tokenizer: LoadedTokenizer, pairs: Sequence[tuple[str, str]]
) -> dict[str, int]:
    """Return a prompt with one and with more of ``pairs``, if they are short, and their number."""
    longer_prompts = dict[str, int]()
    for count in _EXAMPLES:
        examples = pairs[:count]
        texts = [text for pair in examples for text in pair]
        if len(examples) < count or len(tokenizer.encode(texts).tokens) > _EXAMPLE_TOKENS:
            break
        longer = few_shot(template, source, tokenizer, examples)
        if longer is not None:
            longer_prompts[longer] = count
    return longer_prompts


def divided(
    pairs: Sequence[tuple[str, str]], tokenizer: LoadedTokenizer, count: int, seed: int
) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return pairs to measure ``count`` prompts with and others to train on, by hashes of inputs.

    Inputs are different, with the first output of each. Long pairs are left out.
    """
    output_of = dict(reversed(pairs))  # the first output of each
    inputs = by_hash(output_of, seed)[: 4 * (_HELD + _LEARNT)]
    outputs = [output_of[text] for text in inputs]
    lengths = sum(np.diff(tokenizer.encode(texts).offsets) for texts in (inputs, outputs))
    fitting = [
        text
        for text, length in zip(inputs, np.atleast_1d(lengths), strict=True)
        if length + _SPACE < _LONGEST
    ]
    usual = float(np.mean(lengths)) + 1 if inputs else 1.0
    tested = min(_HELD, max(_FEWEST, int(_TOKENS / (count * usual))), len(fitting) // 2)
    chosen = [(text, output_of[text]) for text in fitting[: tested + _LEARNT]]
    return chosen[:tested], chosen[tested:]


def _loaded(trial: Trial) -> "PreTrainedModel":
    from tasc.models.load import load_model, training_dtype

    quantize: Quantization = fit(trial.parameters, None, None).quantize  # type: ignore[assignment]
    dtype = training_dtype("auto", "auto")
    return load_model(trial.model, dtype, "auto", quantize, trial.tokenizer)


def _encoded(
    model: "PreTrainedModel", trial: Trial, template: str, pairs: Sequence[tuple[str, str]]
) -> "Examples":
    from tasc.training.core.batch import encode_examples, longest_example

    prompts = prompts_of(template, [text for text, _ in pairs])
    outputs = [output for _, output in pairs]
    return encode_examples(trial.tokenizer, prompts, outputs, longest_example(model, 2 * _LONGEST))


def output_losses(model: "torch.nn.Module", examples: "Examples", *, bfloat16: bool) -> np.ndarray:
    """Return (S,) losses in nats, summed over the targets of each example."""
    import torch
    from torch.nn.functional import cross_entropy

    from tasc.training.core.batch import IGNORED, collate
    from tasc.training.objectives.language import target_logits

    losses = np.zeros(len(examples))
    size = max(1, _MICRO_BATCH // int(examples.lengths.max()))
    order = np.argsort(examples.lengths, kind="stable")
    device = next(model.parameters()).device
    for start in range(0, len(order), size):
        indices = order[start : start + size]
        batch = collate(examples, indices).to(device)
        with torch.inference_mode(), torch.autocast(device.type, torch.bfloat16, enabled=bfloat16):
            logits, labels = target_logits(model, batch)
        values = cross_entropy(logits, labels, reduction="none").cpu().numpy()
        owners = (batch.labels[:, 1:] != IGNORED).nonzero()[:, 0].cpu().numpy()
        np.add.at(losses, indices[owners], values)
    return losses


def _measured(model: "PreTrainedModel", trial: Trial, template: str) -> np.ndarray:
    from tasc.training.core.precision import multiplies_in_bfloat16

    bfloat16 = multiplies_in_bfloat16(model.device, "auto", bf16=False)
    return output_losses(model, _encoded(model, trial, template, trial.held_out), bfloat16=bfloat16)


def _trained(trial: Trial, template: str, steps: int | None) -> tuple[np.ndarray, int]:
    """Return the losses after ``steps`` of training, or after those that the time allows."""
    import torch

    from tasc.training.adapters import lora
    from tasc.training.adapters.options import AdapterOptions
    from tasc.training.core.batch import collate
    from tasc.training.core.precision import multiplies_in_bfloat16
    from tasc.training.objectives.language import summed_loss

    loaded = _loaded(trial)
    examples = _encoded(loaded, trial, template, trial.learnt)
    with torch.random.fork_rng():
        torch.manual_seed(trial.seed)
        adapted = lora.attach(loaded, np.unique(examples.tokens).tolist(), AdapterOptions()).train()
        rate = float(fit(trial.parameters, None, None).learning_rate)
        weights = [weight for weight in adapted.parameters() if weight.requires_grad]
        optimizer = torch.optim.AdamW(weights, lr=rate, weight_decay=0.0)
        bfloat16 = multiplies_in_bfloat16(loaded.device, "auto", bf16=False)
        begin, order = time.monotonic(), np.random.default_rng(trial.seed)
        batches = [
            indices
            for _ in range(_PASSES)
            for indices in np.array_split(
                order.permutation(len(examples)), -(-len(examples) // _BATCH)
            )
        ][:steps]
        done = 0
        for indices in batches:
            for part in np.array_split(indices, len(indices)):
                batch = collate(examples, part).to(loaded.device)
                loss = summed_loss(adapted, batch, bfloat16=bfloat16)
                torch.autograd.backward(loss / examples.targets_of(indices))
            optimizer.step()
            optimizer.zero_grad()
            done += 1
            if steps is None and time.monotonic() - begin > _SECONDS:
                break
    return _measured(adapted.eval(), trial, template), done
