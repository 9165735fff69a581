"""Train a small base model from scratch, with Qwen2's architecture and pre-tokenizer."""

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedModel, Qwen2Config, Qwen2ForCausalLM

from tasc.data.corpus import Corpus
from tasc.models.load import device_has_bfloat16, resolve_device
from tasc.progress import Progress, silent
from tasc.report.record import Reported
from tasc.tokenizer.files import made_up_files
from tasc.tokenizer.loaded import LoadedTokenizer, load_tokenizer
from tasc.tokenizer.patterns import QWEN2, byte_level
from tasc.training import processes
from tasc.training.core.batch import Examples, encode_examples, pack_blocks
from tasc.training.core.schedule import BaseReport
from tasc.training.folder import save_model
from tasc.training.loop import Run
from tasc.training.objectives import sampled
from tasc.training.options import BaseOptions

END = "<|endoftext|>"


@dataclass(frozen=True)
class Preset:
    """The shape of a model, and a good learning rate for it."""

    vocabulary: int
    hidden: int
    intermediate: int
    layers: int
    heads: int
    key_value_heads: int
    learning_rate: float
    rows: int = 0  # of the embedding, if published models have more rows than tokens


PRESETS = {
    "pico": Preset(512, 64, 192, 2, 4, 2, 5e-3),  # 0.13 M
    "tiny": Preset(1024, 128, 384, 4, 4, 2, 4e-3),  # 1.0 M
    "small": Preset(2048, 256, 768, 5, 4, 2, 3e-3),  # 4.5 M
    "medium": Preset(8192, 512, 1536, 8, 8, 2, 1e-3),  # 28 M
    # The shape of Qwen2.5-0.5B, for a GPU: 0.49 B. Its learning rate is customary, not tuned.
    "large": Preset(8192, 896, 4864, 24, 14, 2, 3e-4, rows=151_936),
}


@dataclass(frozen=True, eq=False)
class BaseResult(Reported):
    """A trained base model, still in memory."""

    model: PreTrainedModel
    tokenizer: LoadedTokenizer
    report: BaseReport

    def save(self, folder: Path) -> None:
        """Write a folder that ``AutoModelForCausalLM`` and ``AutoTokenizer`` load."""
        save_model(self.model, self.tokenizer, folder)


def train_base(
    corpus: Corpus,
    validation: Corpus | None,
    options: BaseOptions,
    *,
    work: Path,
    resume: bool = False,
    progress: Progress = silent,
) -> BaseResult:
    """Train a tokenizer and a model on the documents prompt + output + end token of a corpus.

    ``validation`` is evaluated after each epoch. ``resume`` reads the last checkpoint in ``work``.
    """
    processes.check_alone()
    options.check(held_out=validation is not None)
    preset = PRESETS[options.preset]
    progress("loading the tokenizer" if options.tokenizer else "training the tokenizer", 0, 0)
    tokenizer = new_tokenizer(corpus, options)
    size = len(tokenizer.vocabulary())
    rows = max(size, preset.rows)
    model = build(preset, rows, options.positions, options.seed, end=tokenizer.eos_id)
    model.to(resolve_device(options.device))
    progress("encoding the documents", 0, 0)
    documents = _documents(tokenizer, corpus, sys.maxsize)
    blocks = pack_blocks(documents, options.block, options.seed)
    held_out = None if validation is None else _documents(tokenizer, validation, options.positions)
    groups = _groups(model, options.learning_rate or preset.learning_rate)
    schedule = options.schedule(bfloat16=device_has_bfloat16(model.device))
    name = f"base {options.training} {asdict(preset)}"
    run = Run(sampled.learner(model), groups, blocks, schedule, work=work, name=name)
    report = run.train(held_out, resume=resume, progress=progress)
    whole = BaseReport(**dict(report), vocabulary=size, vocabulary_wanted=options.vocabulary)
    return BaseResult(model, tokenizer, whole)


def new_tokenizer(corpus: Corpus, options: BaseOptions) -> LoadedTokenizer:
    """Load the tokenizer in the options, or train one."""
    if options.tokenizer is not None:
        return load_tokenizer(options.tokenizer).ending(corpus.end)
    texts = list(corpus.prompts)
    if options.tokenizer_text == "all":
        texts = [prompt + out for prompt, out in zip(texts, corpus.outputs, strict=True)]
    return train_tokenizer(texts, options.vocabulary or PRESETS[options.preset].vocabulary)


def train_tokenizer(texts: Sequence[str], size: int) -> LoadedTokenizer:
    """Train a tokenizer of at most ``size`` tokens; id 0 is the end token, also for padding."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()  # as Qwen2 does
    tokenizer.pre_tokenizer = byte_level(QWEN2)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return LoadedTokenizer(tokenizer, "(new tokenizer)", made_up_files(END))


def build(
    preset: Preset, vocabulary: int, positions: int, seed: int, *, end: int = 0
) -> PreTrainedModel:
    """Return a model with random weights and a tied LM head; the end token is also for padding."""
    config = Qwen2Config(
        vocab_size=vocabulary,
        hidden_size=preset.hidden,
        intermediate_size=preset.intermediate,
        num_hidden_layers=preset.layers,
        num_attention_heads=preset.heads,
        num_key_value_heads=preset.key_value_heads,
        max_position_embeddings=positions,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=end,
        pad_token_id=end,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model: PreTrainedModel = Qwen2ForCausalLM(config)
    return model


def _documents(tokenizer: LoadedTokenizer, corpus: Corpus, max_length: int) -> Examples:
    texts = corpus.prompts, corpus.outputs
    return encode_examples(tokenizer, *texts, max_length, learn_prompts=True)


def _groups(model: PreTrainedModel, rate: float) -> list[dict[str, Any]]:
    """Return AdamW groups with weight decay on matrices, but not on biases and norms."""
    betas = (0.9, 0.95)
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    others = [p for p in model.parameters() if p.ndim < 2]
    return [
        {"params": matrices, "lr": rate, "betas": betas, "weight_decay": 0.1},
        {"params": others, "lr": rate, "betas": betas, "weight_decay": 0.0},
    ]
