"""Fitting a recipe to the machine, the model and the data."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tasc.commands.lengths import spread_evenly, token_lengths, with_chat_template
from tasc.data.corpus import Corpus
from tasc.errors import InputError
from tasc.options.texts import SHARE
from tasc.progress import Progress
from tasc.tokenizer.loaded import LoadedTokenizer

# Learning rates of adapters by the parameters of the model, and of larger ones
_RATES = {10**8: 3e-3, 10**9: 1e-3}
_LARGE_RATE = 2e-4
_LARGE = 10**8  # parameters from which 4 bits save memory
_MICRO_BATCH = 2048  # tokens
_STEPS = 250  # of the optimizer: the fewest for batches of more than 8 examples
_NEW_TOKENS = 64, 2048  # the least and the most
_UNSEEN = 150  # assumed tokens per output if the data cannot be read
_TEST, _FEWEST_TESTED = 200, 30  # test examples
_BENCH_SHARE = 1 / 3  # of the time: the most for more than the fewest test examples
_EPOCHS, _FEWEST_EPOCHS, _MOST_EPOCHS = 3.0, 2.0, 10.0
_FEWEST = 100  # training examples
_SPARE = 0.85  # of the time; the rest is for loading models, building indexes and checking drafts
_FORWARD = 0.4  # of a training step: the forward alone
_BENCH = 3.0  # times the cost of decoding the baseline alone


@dataclass(frozen=True)
class Fit:
    """The options of a recipe's steps."""

    learning_rate: str
    quantize: str
    max_new_tokens: int
    batch_size: int = 8
    effective_batch: int = 32
    max_length: int = 512
    epochs: float = _EPOCHS
    limit: int | None = None  # training examples; None for all
    test: int = _TEST  # most test examples
    minutes: float | None = None  # of decoding them; None for any


def fit(parameters: float, tokenizer: LoadedTokenizer | None, corpus: Corpus | None) -> Fit:
    """Choose options for a model of ``parameters`` and the examples of ``corpus``.

    Without the model's tokenizer, a token is taken to be two bytes. 4-bit weights save memory, and
    only a GPU computes with them at speed.
    """
    import torch

    rate = next((rate for size, rate in _RATES.items() if parameters < size), _LARGE_RATE)
    quantizes = parameters >= _LARGE and torch.cuda.is_available()
    values = Fit(f"{rate:.1e}", "nf4" if quantizes else "none", _room([_UNSEEN], *_NEW_TOKENS))
    if corpus is None:
        return values
    prompts, outputs = _lengths(corpus, tokenizer)
    lengths = prompts + outputs
    usual = max(1, int(np.quantile(lengths, 0.9)))
    effective = _batch(len(corpus.examples) * _EPOCHS)
    return replace(
        values,
        max_new_tokens=_room(outputs, *_NEW_TOKENS),
        max_length=_room(lengths, 128, 4096),
        effective_batch=effective,
        batch_size=min(effective, 1 << max(0, (_MICRO_BATCH // usual).bit_length() - 1)),
    )


def within(
    values: Fit,
    hours: float,
    model: str,
    tokenizer: LoadedTokenizer,
    corpus: Corpus,
    validation: int,
    progress: Progress,
    models: int = 2,
) -> Fit:
    """Choose the training and test examples and the epochs that ``hours`` allow on this machine.

    One training step of each kind is measured. The ``models``, the baseline and perhaps TASC-ft,
    train on the same number of tokens, for at least two epochs, and are evaluated on ``validation``
    examples after each. Decoding stops when the rest is over: outputs may be longer than the
    references. Raises InputError if the time is too short.
    """
    training, decoding = _measure(values, model, tokenizer, corpus, progress)
    _, outputs = _lengths(corpus, tokenizer)
    tested = float(outputs.mean()) * decoding * _BENCH  # seconds of a test example
    seconds = 3600 * hours * _SPARE
    fewest = min(_FEWEST_TESTED, values.test)
    test = max(min(values.test, int(seconds * _BENCH_SHARE / tested)), fewest)
    # A pass over n examples is n * training, for each model, and the validation's forwards.
    passes = (seconds - test * tested) / (models * training)
    count, validated = len(corpus.examples), _FORWARD * validation
    epochs = min(np.floor(2 * passes / (count + validated)) / 2, _MOST_EPOCHS)
    limit = None
    if epochs < _FEWEST_EPOCHS:
        # --limit bounds the validation examples, too.
        share = passes / _FEWEST_EPOCHS
        limit = int(max(share - validated, share / (1 + _FORWARD * SHARE))) // 50 * 50
        if limit < _FEWEST:
            trained = models * training * _FEWEST_EPOCHS * (1 + _FORWARD * SHARE) * (_FEWEST + 50)
            least = max(trained / (1 - _BENCH_SHARE), trained + fewest * tested) / _SPARE
            raise InputError(
                f"{hours:g} hours are too short on this machine: a training example takes "
                f"{training:.2g} s and a test example {tested:.2g} s: give --hours "
                f"{np.ceil(least / 360) / 10:g} or more, or a smaller model"
            )
        epochs, limit = _FEWEST_EPOCHS, min(limit, count)
        validated = min(validated, _FORWARD * SHARE * limit)
        batch = _batch(limit * epochs)
        values = replace(values, effective_batch=batch, batch_size=min(values.batch_size, batch))
    trained = models * training * epochs * ((limit or count) + validated)
    minutes = (seconds - trained) / 60
    return replace(values, epochs=epochs, limit=limit, test=test, minutes=minutes)


def _batch(seen: float) -> int:
    """Return the examples per step of the optimizer, if the training sees ``seen`` in all."""
    return next((n for n in (32, 16) if seen >= n * _STEPS), 8)


def chat_outputs(corpus: Corpus, tokenizer: LoadedTokenizer | None) -> list[str]:
    """Return the outputs of chats as the tokenizer's chat template writes them, if it has one."""
    return with_chat_template(corpus, tokenizer).outputs


def _lengths(corpus: Corpus, tokenizer: LoadedTokenizer | None) -> tuple[np.ndarray, np.ndarray]:
    """Count the tokens of prompts and of outputs, as the tokenizer's chat template writes them."""
    return token_lengths(with_chat_template(spread_evenly(corpus), tokenizer), tokenizer)


def _room(lengths: Sequence[int] | np.ndarray, least: int, most: int) -> int:
    """Return a power of two that has room for a quarter more than the longest."""
    return min(max(1 << (int(max(lengths)) * 5 // 4).bit_length(), least), most)


def _measure(
    values: Fit, model: str, tokenizer: LoadedTokenizer, corpus: Corpus, progress: Progress
) -> tuple[float, float]:
    """Return the seconds of training on an example, and of decoding a token.

    Other work on the machine hardly changes them: see ``busy_clock``.
    """
    from tasc.commands.measure import measure_training
    from tasc.models.cost import token_seconds
    from tasc.models.load import Quantization, load_to_decode
    from tasc.models.targets.fastest import target_for
    from tasc.training.options import FinetuneOptions

    progress("measure decoding", 0, 0)
    # As bench will decode
    decoding = token_seconds(target_for(load_to_decode(model, "auto", "auto", tokenizer)))
    progress("measure training", 0, 0)
    some = with_chat_template(spread_evenly(corpus), tokenizer)
    quantize: Quantization = values.quantize  # type: ignore[assignment]
    step = FinetuneOptions(source=corpus.source.path, model=model, quantize=quantize)
    training = measure_training(model, tokenizer, some, step, values.max_length, values.batch_size)
    return training.speed.example, decoding
