"""Fine-tune a model to a task, with or without new tokens: section 4.2 and App. B.2."""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from peft import PeftModel
from transformers import PreTrainedModel

from tasc.data.corpus import Corpus
from tasc.errors import InputError
from tasc.models.embeddings import NewEmbedding, extend_embeddings, keep_rows, output_head
from tasc.models.folder.quiet import quiet
from tasc.models.folder.vocabulary import check_tokens
from tasc.models.load import check_model, load_model, training_dtype
from tasc.progress import Progress, silent
from tasc.tokenizer.loaded import LoadedTokenizer, load_tokenizer
from tasc.training import processes
from tasc.training.adapters import lora
from tasc.training.adapters.options import TrainedRows
from tasc.training.core.batch import encode_examples, longest_example
from tasc.training.core.precision import multiplies_in_bfloat16, tensor_float32
from tasc.training.core.schedule import Schedule
from tasc.training.finetuned import FinetuneResult, Start
from tasc.training.loop import Run
from tasc.training.objectives import language
from tasc.training.options import FinetuneOptions


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
    """Train adapters and embedding rows, or all weights, to produce outputs from prompts.

    The loss is on outputs and end tokens only. ``validation`` is evaluated after each epoch.
    Checkpoints are in ``work``; ``resume`` continues from the newest one. Raises InputError if
    model, tokenizer and new tokens do not fit together, or the checkpoints belong to another run.
    """
    options.check(held_out=validation is not None)
    _check_batch(options, options.processes)  # before starting that many
    arguments = (start, train, validation, options, work, resume)
    with processes.together(options.processes, options.device, _finetune, *arguments):
        return _finetune(*arguments, progress)


def _finetune(
    start: Start,
    train: Corpus,
    validation: Corpus | None,
    options: FinetuneOptions,
    work: Path,
    resume: bool,
    progress: Progress = silent,
) -> FinetuneResult:
    _check_batch(options, processes.group().size)
    tokenizer = load_tokenizer(start.tokenizer).ending(train.end)
    progress("loading the model", 0, 0)
    model = _loaded(start, options, tokenizer)
    length = longest_example(model, options.max_length)
    progress("encoding the examples", 0, 0)
    examples = encode_examples(tokenizer, train.prompts, train.outputs, length)
    held_out = None
    if validation is not None:
        held_out = encode_examples(tokenizer, validation.prompts, validation.outputs, length)
    schedule = _schedule(options, model.device, len(examples.tokens))
    trained = _trainable(model, options, start, examples.tokens)
    weights = [p for p in trained.parameters() if p.requires_grad]
    groups = [{"params": weights, "lr": options.peak, "weight_decay": 0.0}]
    name = f"{start.model} {options.training}"
    run = Run(language.learner(trained), groups, examples, schedule, work=work, name=name)
    with quiet(), tensor_float32(options.tf32, model.device):
        report = run.train(held_out, resume=resume, progress=progress)
    return FinetuneResult(trained, report, tokenizer, start, options.merge)


def _loaded(start: Start, options: FinetuneOptions, tokenizer: LoadedTokenizer) -> PreTrainedModel:
    merged = options.merge or start.kept is not None
    check_model(start.model, whole=merged or options.adapter == "none")
    dtype = training_dtype(options.dtype, options.device)
    model = load_model(start.model, dtype, options.device, options.quantization)
    if start.kept is not None:
        keep_rows(model, start.kept)
    rows = model.get_input_embeddings().weight.shape[0]
    check_tokens(tokenizer, rows, {token.new_id for token in start.added})
    extend_embeddings(model, start.added, len(tokenizer.vocabulary()))
    if options.gradient_checkpointing:
        with quiet():  # a deprecation warning from transformers 5.20 on
            model.gradient_checkpointing_enable({"use_reentrant": False})
    return model


def _trainable(
    model: PreTrainedModel, options: FinetuneOptions, start: Start, tokens: np.ndarray
) -> PeftModel | PreTrainedModel:
    """Attach adapters, or unfreeze all weights; ``tokens`` (T,) are of the examples."""
    if options.adapter == "none":
        return model.float().requires_grad_(True)  # bfloat16 cannot represent an AdamW step
    rows = _trainable_rows(model, options.trained_rows, start.added, tokens)
    with torch.random.fork_rng():
        torch.manual_seed(options.seed)
        return lora.attach(model, rows, options)


def _trainable_rows(
    model: PreTrainedModel, choice: TrainedRows, added: Sequence[NewEmbedding], tokens: np.ndarray
) -> list[int]:
    """Return the rows of embedding and LM head to train, in order, always with the new tokens'."""
    rows = {token.new_id for token in added}
    if choice == "used":
        rows |= set(np.unique(tokens).tolist())
    elif choice == "all":
        rows |= set(range(model.get_input_embeddings().weight.shape[0]))
    biased = getattr(output_head(model), "bias", None) is not None  # see lora.attach
    return [] if biased and not added else sorted(rows)


def _schedule(options: FinetuneOptions, device: torch.device, epoch_tokens: int) -> Schedule:
    """Return the schedule; a length in tokens fixes the compute, whatever the vocabulary."""
    bfloat16 = multiplies_in_bfloat16(device, options.dtype, bf16=options.bf16)
    schedule = options.schedule(bfloat16=bfloat16)
    tokens = options.tokens if options.tokens_of is None else _tokens_of(Path(options.tokens_of))
    return schedule if tokens is None else replace(schedule, epochs=tokens / epoch_tokens)


def _tokens_of(folder: Path) -> int:
    tokens: object = None
    with suppress(OSError, ValueError, LookupError, TypeError):
        tokens = json.loads((folder / FinetuneOptions.spec.result_file).read_bytes())["tokens"]
    if type(tokens) is not int or tokens < 1:
        raise InputError(
            f"{folder} contains no training report with a number of tokens: give a folder that "
            "tasc finetune wrote"
        )
    return tokens


def _check_batch(options: FinetuneOptions, processes: int) -> None:
    schedule = options.schedule()
    if schedule.effective_batch // schedule.micro_batch < processes:
        raise InputError(
            f"{schedule.effective_batch} examples per step in batches of {schedule.micro_batch} "
            f"are too few for {processes} processes: lower --batch-size to "
            f"{max(1, schedule.effective_batch // processes)}, or raise --effective-batch"
        )
