"""The lengths of a task's prompts and outputs in tokens, without reading all of a large corpus."""

from dataclasses import replace

import numpy as np

from tasc.commands.context import unwritten
from tasc.data.corpus import Corpus
from tasc.tokenizer.chat import ChatTemplate
from tasc.tokenizer.loaded import LoadedTokenizer

_READ = 2000  # examples whose lengths are counted


def spread_evenly(corpus: Corpus) -> Corpus:
    """Return at most ``_READ`` examples, spread evenly."""
    every = -(-len(corpus.examples) // _READ) or 1
    return replace(corpus, examples=corpus.examples[::every])


def with_chat_template(corpus: Corpus, tokenizer: LoadedTokenizer | None) -> Corpus:
    """Return chats as the tokenizer's chat template writes them, if it has one."""
    template = ChatTemplate.of(tokenizer) if tokenizer and corpus.is_chat else None
    return template.apply(corpus) if template else unwritten(corpus)


def token_lengths(
    corpus: Corpus, tokenizer: LoadedTokenizer | None
) -> tuple[np.ndarray, np.ndarray]:
    """Count the tokens (N,) of prompts and of outputs, with the end token.

    Without a tokenizer, a token is taken to be two bytes.
    """
    texts = corpus.prompts, corpus.outputs
    if tokenizer is None:
        counts = [np.array([len(text.encode()) // 2 for text in column]) for column in texts]
    else:
        counts = [np.diff(tokenizer.encode(column).offsets) for column in texts]
    return counts[0], counts[1] + 1
