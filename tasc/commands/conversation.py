"""A conversation with a model: ``tasc chat``."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from tasc.commands.context import StepContext
from tasc.commands.conversation_options import ChatOptions
from tasc.data.source import Source
from tasc.decoding.core.resources import Resources, end_ids
from tasc.decoding.decode import Generation, Request, generate_all
from tasc.decoding.drafters import parse
from tasc.decoding.library import prepare
from tasc.decoding.verify import greedy
from tasc.models.load import decoding_dtype, load_model
from tasc.models.packed import pack
from tasc.models.static import target_for
from tasc.options.references import resolve_model
from tasc.options.texts import MAIN
from tasc.tokenizer.chat import ChatTemplate
from tasc.tokenizer.loaded import load_tokenizer

_BROKEN = "\ufffd"  # decoded from a part of a character


class Conversation:
    """A model with its drafter, and the messages so far.

    The chat template writes all messages anew for each answer; without a chat template, or with
    ``--template``, each message is a prompt of its own.
    """

    def __init__(self, options: ChatOptions, context: StepContext) -> None:
        """Load the model. Raises InputError if the model or the method is unusable."""
        self.options, self.method = options, parse(options.method)
        head = Path(options.draft_head) if options.draft_head else None
        self.method.check(head is not None, draft=False)
        path = resolve_model(options.model)[1]
        tokenizer = load_tokenizer(path)
        templated = options.source and "template" in options.source.model_fields_set
        self.template = None if templated else ChatTemplate.of(tokenizer)
        self.tokenizer = tokenizer.ending(self.template.end if self.template else None)
        dtype = decoding_dtype(options.dtype, options.device)
        model = load_model(path, dtype, options.device, tokenizer=tokenizer)
        pack(model)
        self.target, self.ends = target_for(model), end_ids(model, self.tokenizer.eos_id)
        corpus = context.texts.corpora.get(MAIN)
        outputs = self.tokenizer.encode(corpus.outputs).split() if corpus else None
        resources = Resources(
            (), self.ends[0], target=self.target, tokenizer=self.tokenizer, draft_head=head
        )
        self.drafter = prepare(self.method, outputs, None, resources)
        self.messages = list[dict[str, str]]()

    def answer(self, text: str, on_text: Callable[[str, bool], None]) -> Generation:
        """Answer ``text``; call ``on_text`` with decoded text and whether a draft contained it.

        Raises InputError if the conversation exceeds the model's context.
        """
        tokens, shown = list[int](), 0

        def show(committed: np.ndarray) -> None:
            nonlocal shown
            for i, token in enumerate(committed.tolist(), 1):
                tokens.append(token)
                whole = self.tokenizer.decode(tokens).rstrip(_BROKEN)
                on_text(whole[shown:], i < len(committed))  # the last token is the model's own
                shown = max(shown, len(whole))

        messages = [*self.messages, {"role": "user", "content": text}]
        if self.template is not None:
            prompt = self.template.prompt(messages)
        else:
            data = self.options.source
            source = data.source() if data else Source(self.options.model)
            prompt = source.prompt(text, dict.fromkeys(source.template_columns(), ""))
        (ids,) = self.tokenizer.encode([prompt]).split()
        (found,) = generate_all(
            self.target,
            [Request(ids, self.drafter, greedy, on_tokens=show)],
            max_new_tokens=self.options.max_new_tokens,
            end_ids=self.ends,
            budget=self.method.budget,
        )
        content = self.tokenizer.decode(tokens)
        on_text(content[shown:], False)  # half a character at the end
        self.messages = [*messages, {"role": "assistant", "content": content}]
        return found
