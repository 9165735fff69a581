"""A task's examples as training reads them: tokens, targets, lengths and cuts."""

import random
from collections.abc import Sequence
from operator import ne
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from tasc.commands.context import with_prompts
from tasc.data.corpus import Corpus
from tasc.options.command import StepOptions, StepSpec
from tasc.options.fields import LONGEST, TOKENIZER, Tokens
from tasc.options.texts import read_texts
from tasc.report.record import Record, Report
from tasc.tokenizer.loaded import LoadedTokenizer, load_tokenizer

QUANTILES = (0.0, 0.1, 0.5, 0.9, 0.99, 1.0)
_NEAR = 1000  # cut tokens that are listed before, and after, those that training sees

State = Literal["cut", "read", "learnt"]


class DataOptions(StepOptions):
    """Options of ``tasc data``, which reads data as a step does and writes nothing."""

    command = "data"
    flags: ClassVar = ("json",)
    spec = StepSpec(references={"tokenizer": "tokenizer"}, chat_template_of="tokenizer")

    tokenizer: str = TOKENIZER
    samples: int = Field(3, ge=0, le=1000, description="Examples to show, drawn by the seed.")
    max_length: int = Field(
        512, ge=8, le=LONGEST, description="Show what tasc finetune cuts with this --max-length."
    )
    max_new_tokens: Tokens = Field(
        256, description="Count outputs that tasc bench cuts with this limit."
    )


class Token(Record):
    """A token of an example."""

    id: int
    text: str
    """Its string; bytes that are no whole character as \\xNN."""
    state: State
    """Whether training never sees it, reads it, or learns to write it."""


class Sample(Record):
    """An example as training reads it."""

    number: int
    """Its position among the examples, from 1."""
    tokens: tuple[Token, ...]
    """Prompt, output, end token; of cut tokens, the 1,000 nearest to the others on each side."""
    unlisted: int = 0
    """Cut tokens farther away."""


class Cuts(Record):
    """Numbers of examples that are cut."""

    prompts: int
    """Lose the beginning of their prompt to ``max_length``."""
    outputs: int
    """Lose the end of their output to ``max_length``, and with it the end token."""
    unfinished: int
    """Have an output of more than ``max_new_tokens`` tokens, which no bench can finish."""


class DataReport(Report):
    """The report of ``tasc data``; lengths are in tokens, at ``QUANTILES``."""

    path: str
    split: str
    tokenizer: str
    recognised: str
    """How unnamed columns were recognised; empty if the columns were named."""
    unread_marks: str = ""
    """A line on columns that may be marks of learnt rows and are not read."""
    chat_template: bool
    """Whether the tokenizer's chat template wrote the prompts."""
    chat_notes: tuple[str, ...] = ()
    """Lines on what the chat template does to the chats, such as writing the date."""
    examples: int
    dropped: int
    """Skipped, as their output is empty."""
    end: str
    """The token that ends an output."""
    max_length: int
    max_new_tokens: int
    prompts: tuple[int, ...]
    outputs: tuple[int, ...]
    """Without the end token."""
    together: tuple[int, ...]
    """Prompt, output and end token."""
    rewritten: int = 0
    """Outputs that come back from the tokenizer as other text, such as accents that it composes:
    no model with this tokenizer writes them as they are."""
    first_rewritten: int = 0
    """The number of the first of them among the examples, from 1; 0: none."""
    ended: int = 0
    """Outputs that contain the end token, at which decoding stops."""
    first_ended: int = 0
    """The number of the first of them, like ``first_rewritten``."""
    cuts: Cuts
    samples: tuple[Sample, ...]


def inspect_data(options: DataOptions) -> DataReport:
    """Return examples as ``tasc finetune`` reads them, and how long they are.

    Raises InputError if data or tokenizer cannot be read, or prompts need a chat template.

    Example:
        >>> found = tasc.inspect_data(tasc.DataOptions(source="task.jsonl", tokenizer="base"))
        >>> found.cuts.outputs
        0
    """
    texts = read_texts(options)
    written = with_prompts(options, texts)
    corpus = written.corpus
    tokenizer = load_tokenizer(options.tokenizer).ending(corpus.end)
    prompts = np.diff(tokenizer.encode(corpus.prompts).offsets)
    encoded = tokenizer.encode(corpus.outputs)
    outputs = np.diff(encoded.offsets)
    ids = encoded.split()
    rewritten = list(map(ne, tokenizer.decode_batch(ids), corpus.outputs))
    ended = [tokenizer.eos_id in output for output in ids]
    count = min(options.samples, len(corpus.examples))
    chosen = sorted(random.Random(options.seed).sample(range(len(corpus.examples)), count))
    strings = tokenizer.vocabulary()
    return DataReport(
        path=corpus.source.path,
        split=corpus.split,
        tokenizer=tokenizer.path,
        recognised=texts.recognised,
        unread_marks=texts.unread_marks,
        chat_template=texts.corpus.is_chat,
        chat_notes=written.chat_notes,
        examples=len(corpus.examples),
        dropped=corpus.dropped,
        end=tokenizer.tokenizer.id_to_token(tokenizer.eos_id),
        max_length=options.max_length,
        max_new_tokens=options.max_new_tokens,
        prompts=_quantiles(prompts),
        outputs=_quantiles(outputs),
        together=_quantiles(prompts + outputs + 1),
        rewritten=sum(rewritten),
        first_rewritten=_first(rewritten),
        ended=sum(ended),
        first_ended=_first(ended),
        cuts=_cuts(prompts, outputs, options),
        samples=tuple(_sample(tokenizer, strings, corpus, i, options.max_length) for i in chosen),
    )


def _first(marks: Sequence[bool]) -> int:
    """Return the number of the first true mark, from 1; 0 without any."""
    return marks.index(True) + 1 if True in marks else 0


def _quantiles(lengths: np.ndarray) -> tuple[int, ...]:
    return tuple(int(n) for n in np.quantile(lengths, QUANTILES, method="higher"))


def _cuts(prompts: np.ndarray, outputs: np.ndarray, options: DataOptions) -> Cuts:
    from tasc.training.core.batch import kept_lengths

    sizes = np.stack([prompts, outputs + 1], axis=-1)
    left = [kept_lengths(prompt, answer, options.max_length) for prompt, answer in sizes.tolist()]
    cut = (np.array(left) < sizes).sum(axis=0).tolist()
    unfinished = int((outputs > options.max_new_tokens).sum())
    return Cuts(prompts=cut[0], outputs=cut[1], unfinished=unfinished)


def _sample(
    tokenizer: LoadedTokenizer, strings: list[bytes], corpus: Corpus, number: int, most: int
) -> Sample:
    """Return an example with its tokens, of which a training of at most ``most`` sees some."""
    from tasc.training.core.batch import encode_examples, kept_lengths

    texts = [corpus.prompts[number]], [corpus.outputs[number]]
    prompt, answer = (len(tokenizer.encode(text).tokens) for text in texts)
    whole = encode_examples(tokenizer, *texts, prompt + answer + 1).tokens
    seen = encode_examples(tokenizer, *texts, most)
    states: list[State] = ["cut"] * len(whole)
    begin = prompt - kept_lengths(prompt, answer + 1, most)[0]
    for i, learnt in enumerate(seen.targets, start=begin):
        states[i] = "learnt" if learnt else "read"
    listed = slice(max(0, begin - _NEAR), begin + len(seen.targets) + _NEAR)
    tokens = tuple(
        Token(id=i, text=_text(tokenizer, strings, i), state=state)
        for i, state in zip(whole[listed].tolist(), states[listed], strict=True)
    )
    return Sample(number=number + 1, tokens=tokens, unlisted=len(whole) - len(tokens))


def _text(tokenizer: LoadedTokenizer, strings: list[bytes], number: int) -> str:
    if strings[number]:
        return strings[number].decode(errors="backslashreplace")
    return tokenizer.tokenizer.id_to_token(number) or f"<{number}>"
