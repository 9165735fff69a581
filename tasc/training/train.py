"""Fine-tuning a model to a task, with or without new tokens: section 4.2 and App. B.2."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from peft import PeftModel
from transformers import PreTrainedModel

from tasc.data.corpus import Corpus
from tasc.errors import InputError
from tasc.models.embeddings import NewEmbedding, extend_embeddings, output_head
from tasc.models.folder.quiet import quiet
from tasc.models.folder.vocabulary import check_tokens
from tasc.models.load import load_model
from tasc.options.fields import Device
from tasc.progress import Progress, silent
from tasc.tokenizer.loaded import LoadedTokenizer, load_tokenizer
from tasc.training import processes, tracking
from tasc.training.adapters import full, lora
from tasc.training.adapters.options import TrainedRows
from tasc.training.core.batch import Sequences, example_sequences
from tasc.training.core.precision import multiplies_in_bfloat16, tensor_float32
from tasc.training.core.schedule import Schedule
from tasc.training.finetuned import FinetuneResult
from tasc.training.loop import Run
from tasc.training.objectives import language
from tasc.training.options import FinetuneOptions


@dataclass(frozen=True)
class Start:
    """What a training starts from."""

    model: str  # the base model's folder or Hub id
    tokenizer: str  # its tokenizer, or the augmented one
    # The tokens that the augmented one has beyond the model's own; their embeddings start as
    # the mean of those of their base tokens.
    added: Sequence[NewEmbedding] = ()


def finetune(
    start: Start,
    train: Corpus,
    validation: Corpus | None,
    options: FinetuneOptions,
    *,
    work: Path,
    resume: bool = False,
    progress: Progress = silent,
) -> FinetuneResult:
    """Train adapters and embeddings, or all weights, to produce outputs from prompts.

    The loss is on outputs and end tokens only; that of ``validation`` is found after each epoch.
    Checkpoints lie in ``work``; ``resume`` goes on from the newest one there. ``progress`` is
    called after each step. Raises InputError where model, tokenizer and new tokens do not belong
    together, or checkpoints belong to another run.
    """
    options.check(held_out=validation is not None)
    tracking.check(options.log_to)
    _check_share(options, options.processes)  # before so many are started
    given = (start, train, validation, options, work, resume)
    with processes.together(options.processes, options.device, _finetune, *given):
        return _finetune(*given, progress)


def _finetune(
    start: Start,
    train: Corpus,
    validation: Corpus | None,
    options: FinetuneOptions,
    work: Path,
    resume: bool,
    progress: Progress = silent,
) -> FinetuneResult:
    """Do the work of ``finetune`` as one of the processes."""
    _check_share(options, processes.group().size)
    tokenizer = load_tokenizer(start.tokenizer).ending(train.end)
    progress("loading the model", 0, 0)
    model = _loaded(start, options, tokenizer, options.device)
    length = _longest(model, options.max_length)
    rows = _sequences(tokenizer, train, length)
    held_out = None if validation is None else _sequences(tokenizer, validation, length)
    schedule = _schedule(options, model.device, len(rows.tokens))
    if options.gradient_checkpointing:
        with quiet():  # named otherwise from transformers 5.20 on
            model.gradient_checkpointing_enable({"use_reentrant": False})
    trained = _trained(model, options, start.added, rows.tokens)
    run = Run(
        language.learner(trained),
        _groups(trained, options),
        rows,
        schedule,
        work=work,
        name=f"{start.model} {options.training}",
    )
    with quiet(), tensor_float32(options.tf32, model.device), tracking.opened(options, work) as log:
        report = run.train(held_out, resume=resume, progress=progress, log=log)
    return FinetuneResult(
        trained, report, tokenizer, tuple(start.added), start.model, options.merge
    )


def _loaded(
    start: Start, options: FinetuneOptions, tokenizer: LoadedTokenizer, device: Device
) -> PreTrainedModel:
    """Return the base model with rows for new tokens."""
    model = load_model(start.model, options.dtype, device, options.quantization)
    known = model.get_input_embeddings().weight.shape[0]
    check_tokens(tokenizer, known, {row.new_id for row in start.added})
    extend_embeddings(model, start.added, len(tokenizer.vocabulary()))
    return model


def _sequences(tokenizer: LoadedTokenizer, corpus: Corpus, length: int) -> Sequences:
    return example_sequences(tokenizer, corpus.prompts, corpus.outputs, length)


def _trained(
    model: PreTrainedModel,
    options: FinetuneOptions,
    added: Sequence[NewEmbedding],
    tokens: np.ndarray,
) -> PeftModel | PreTrainedModel:
    """Return what trains."""
    if options.adapter == "none":
        return full.prepare(model)
    with torch.random.fork_rng():
        torch.manual_seed(options.seed)
        return lora.attach(
            model,
            _trained_rows(model, options.trained_rows, added, tokens),
            rank=options.rank,
            alpha=options.alpha,
            dropout=options.dropout,
            targets=options.target_modules,
        )


def _groups(
    trained: PeftModel | PreTrainedModel, options: FinetuneOptions
) -> list[dict[str, object]]:
    """Return the groups for AdamW."""
    rates = options.peak, options.embedding_learning_rate or options.peak
    if isinstance(trained, PeftModel):
        return lora.parameter_groups(trained, *rates)
    return full.parameter_groups(trained, *rates)


def _trained_rows(
    model: PreTrainedModel, choice: TrainedRows, added: Sequence[NewEmbedding], tokens: np.ndarray
) -> list[int]:
    """Return the rows of the embedding and the LM head that train, in order.

    Those of new tokens in any case. An LM head with a bias learns no rows (see ``lora.attach``):
    without new tokens such a model trains adapters alone.
    """
    rows = {token.new_id for token in added}
    if choice == "used":
        rows |= set(np.unique(tokens).tolist())
    elif choice == "all":
        rows |= set(range(model.get_input_embeddings().weight.shape[0]))
    biased = getattr(output_head(model), "bias", None) is not None
    return [] if biased and not added else sorted(rows)


def _schedule(options: FinetuneOptions, device: torch.device, tokens: int) -> Schedule:
    """Return the schedule for ``tokens`` tokens an epoch.

    Tokens read, prompts included, are the compute of a training: a forward and a backward cost
    the same for each, whatever the vocabulary.
    """
    bfloat16 = multiplies_in_bfloat16(device, options.dtype, bf16=options.bf16)
    wanted = options.tokens
    if options.tokens_of is not None:
        wanted = _tokens_of(Path(options.tokens_of))
    schedule = options.schedule(bfloat16=bfloat16)
    return schedule if wanted is None else replace(schedule, epochs=wanted / tokens)


def _tokens_of(folder: Path) -> int:
    """Return how many tokens a finished training has read."""
    try:
        tokens = json.loads((folder / FinetuneOptions.result_file).read_bytes())["tokens"]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise InputError(
            f"{folder} holds no report of a training: name a folder that tasc finetune wrote"
        ) from error
    if type(tokens) is not int or tokens < 1:
        raise InputError(f"{folder}: {tokens!r:.60} tokens were read: name another folder")
    return tokens


def _check_share(options: FinetuneOptions, processes: int) -> None:
    """Refuse a step that leaves a process without examples."""
    schedule = options.schedule()
    if schedule.effective_batch // schedule.micro_batch < processes:
        raise InputError(
            f"{schedule.effective_batch} examples a step in batches of {schedule.micro_batch} are "
            f"too few for {processes} processes: lower --batch-size to "
            f"{max(1, schedule.effective_batch // processes)}, or raise --effective-batch"
        )


def _longest(model: PreTrainedModel, max_length: int) -> int:
    positions = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    if positions is not None and positions < 2:
        raise InputError(
            f"the model reads {positions} positions by its config.json, and an example has two or "
            "more: choose another model"
        )
    return min(max_length, positions) if positions else max_length
