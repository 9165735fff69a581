"""Train a draft head on the answers of its target."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from transformers import GenerationConfig

from tasc.data.corpus import Corpus
from tasc.errors import InputError
from tasc.models.attention import check_stateless
from tasc.models.draft_head import DraftHead, new_head
from tasc.models.folder.quiet import quiet
from tasc.models.load import device_has_bfloat16, load_model, training_dtype
from tasc.progress import Progress, silent
from tasc.report.record import Reported
from tasc.tokenizer.loaded import load_tokenizer
from tasc.training import processes
from tasc.training.core.batch import longest_example
from tasc.training.core.precision import tensor_float32
from tasc.training.core.schedule import TrainReport
from tasc.training.generate_targets import generate_targets
from tasc.training.loop import Run
from tasc.training.objectives.eagle import learner
from tasc.training.options import FinetuneOptions

_HELD_OUT = 128


@dataclass(frozen=True, eq=False)
class HeadResult(Reported):
    """A trained head, still in memory."""

    head: DraftHead
    report: TrainReport

    def save(self, folder: Path) -> None:
        """Write ``head`` for ``tasc bench --draft-head`` and other loaders of EAGLE heads."""
        self.head.save(folder / "head")


def train_head(
    model_path: str,
    train: Corpus,
    validation: Corpus | None,
    options: FinetuneOptions,
    *,
    work: Path,
    resume: bool = False,
    progress: Progress = silent,
) -> HeadResult:
    """Generate a model's greedy answers to a corpus's prompts; train a head to draft them.

    The model, a folder or Hub id, is frozen. The outputs of ``train`` are ignored. The first 128
    prompts of ``validation`` serve for the loss after each epoch. Answers and checkpoints are
    stored in ``work``, so that a killed run resumes in either phase.
    """
    processes.check_alone()
    options.check(held_out=validation is not None)
    progress("loading the model", 0, 0)
    tokenizer = load_tokenizer(model_path)
    dtype = training_dtype(options.dtype, options.device)
    model = load_model(model_path, dtype, options.device, tokenizer=tokenizer)
    model.requires_grad_(False)
    check_stateless(model)
    length = longest_example(model, options.max_length)
    if options.max_new_tokens >= length:
        raise InputError(
            f"max_new_tokens must be below the model's {length} positions, got "
            f"{options.max_new_tokens}: lower --max-new-tokens"
        )
    tokenizer = tokenizer.ending(train.end)
    config = model.generation_config = _greedy(options, tokenizer.eos_id)  # fills what is unset
    targets = partial(generate_targets, model, tokenizer, max_length=length, config=config)
    more: dict[str, Any] = {"resume": resume, "progress": progress}
    head = new_head(model, options.seed)
    examples = targets(train.prompts, work / "answers", **more)
    schedule = options.schedule(bfloat16=options.bf16 or device_has_bfloat16(model.device))
    groups = [{"params": list(head.parameters()), "lr": options.peak, "betas": (0.9, 0.95)}]
    name = f"draft head {model_path} {options.training}"
    run = Run(learner(model, head), groups, examples, schedule, work=work, name=name)
    held_out = None
    if validation is not None:
        held_out = targets(validation.prompts[:_HELD_OUT], work / "held-out", **more)
    with quiet(), tensor_float32(options.tf32, model.device):
        report = run.train(held_out, **more)
    return HeadResult(head.to(model.dtype), report)


def _greedy(options: FinetuneOptions, end: int) -> GenerationConfig:
    return GenerationConfig(
        max_new_tokens=options.max_new_tokens,
        repetition_penalty=options.repetition_penalty,
        do_sample=False,
        eos_token_id=end,
        pad_token_id=end,
    )
