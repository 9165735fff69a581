"""The prompts of a command's data: chats are written by the chat template of its tokenizer."""

from collections.abc import Callable
from dataclasses import replace

from tasc.data.corpus import Corpus
from tasc.errors import InputError
from tasc.options.command import StepOptions
from tasc.options.references import parse_label
from tasc.options.texts import Texts
from tasc.tokenizer.chat import ChatTemplate
from tasc.tokenizer.loaded import load_tokenizer


def with_prompts(options: StepOptions, texts: Texts) -> Texts:
    """Write the prompts and outputs of chats as the command's tokenizer does.

    A command that counts outputs alone (``chat_template_of`` is empty) has the messages as they
    are. Chats stay unwritten where the tokenizer has no chat template; their prompts cannot be had.

    Raises:
        InputError: a chat template cannot be used, or those of several models differ.
    """
    if not any(corpus.is_chat for corpus in texts.corpora.values()):
        return texts
    if not options.spec.chat_template_of:
        return replace(texts, corpora=_each(texts, unwritten))
    template = _template(options)
    return texts if template is None else replace(texts, corpora=_each(texts, template.apply))


def _each(texts: Texts, change: Callable[[Corpus], Corpus]) -> dict[str, Corpus]:
    return {name: change(corpus) for name, corpus in texts.corpora.items()}


def unwritten(corpus: Corpus) -> Corpus:
    """Return chats with the text of their messages as prompts, without roles."""
    examples = (replace(example, turn=None) for example in corpus.examples)
    return replace(corpus, examples=tuple(examples))


def _template(options: StepOptions) -> ChatTemplate | None:
    """Return the one chat template of all tokenizers that the command names."""
    named = options.named(options.spec.chat_template_of)
    found = [ChatTemplate.of(load_tokenizer(parse_label(name)[1])) for name in named]
    for name, other in zip(named, found, strict=True):
        if (other and other.source) != (found[0] and found[0].source):
            raise InputError(
                f"{named[0]} and {name} have different chat templates: give models that share one, "
                "or write --template '{input}\\n'"
            )
    return found[0] if found else None
