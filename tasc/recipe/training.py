"""What the commands do that train: a base model, an adapter, a draft head."""

from pathlib import Path

from tasc.places import resolve_model
from tasc.recipe.job import Job, Result
from tasc.recipe.training_configs import BaseConfig, FinetuneConfig


def base(job: Job) -> Result:
    """Do ``tasc base``."""
    from tasc.finetune.base import BaseOptions, train_base

    c: BaseConfig = job.config
    options = BaseOptions(
        preset=c.preset,
        tokenizer=c.tokenizer,
        vocabulary=c.vocabulary,
        tokenizer_text=c.tokenizer_text,
        epochs=c.epochs,
        minutes=c.minutes,
        learning_rate=c.learning_rate,
        block=c.block,
        seed=c.seed,
    )
    result = train_base(
        job.corpus,
        job.optional("validation"),
        options,
        **job.training,
    )
    result.save(job.workspace.folder)
    return result.report.to_dict()


def finetune(job: Job) -> Result:
    """Do ``tasc finetune``."""
    from tasc.finetune.train import TrainOptions
    from tasc.finetune.train import finetune as train
    from tasc.vocab.merges import read_merges

    c: FinetuneConfig = job.config
    _, model = resolve_model(c.model)
    if c.draft_head:
        return _draft_head(job, model)
    options = TrainOptions(
        epochs=c.epochs,
        learning_rate=c.learning_rate or TrainOptions.learning_rate,
        row_learning_rate=c.row_learning_rate,
        warmup_steps=c.warmup_steps,
        batch_size=c.batch_size,
        effective_batch=c.effective_batch or TrainOptions.effective_batch,
        max_length=c.max_length,
        quantize=c.quantize,
        device=c.device,
        seed=c.seed,
    )
    result = train(
        model,
        c.augmented or model,
        read_merges(Path(c.augmented)) if c.augmented else (),
        job.corpus,
        job.optional("validation"),
        options,
        **job.training,
    )
    result.save_adapter(job.workspace.folder / "adapter")
    if c.merge:
        result.save_merged(job.workspace.folder / "model")
    return result.report.to_dict()


def _draft_head(job: Job, model: str) -> Result:
    from tasc.finetune.draft_head import HeadOptions, train_head

    c: FinetuneConfig = job.config
    options = HeadOptions(
        kind=c.head,
        heads=c.heads or HeadOptions.heads,
        epochs=c.epochs,
        learning_rate=c.learning_rate or HeadOptions.learning_rate,
        batch_size=c.batch_size,
        effective_batch=c.effective_batch or HeadOptions.effective_batch,
        max_length=c.max_length,
        max_new_tokens=c.max_new_tokens,
        repetition_penalty=c.repetition_penalty,
        device=c.device,
        seed=c.seed,
    )
    result = train_head(
        model,
        job.corpus,
        job.optional("validation"),
        options,
        **job.training,
    )
    result.save(job.workspace.folder / "head")
    return result.report.to_dict()
