"""The model that is served: prompts to ids, constraints to grammars, tokens to text in pieces."""

import json
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tasc.decoding.core.grammar import Grammar
from tasc.decoding.core.stopping import StopStrings
from tasc.decoding.decode import Request, generate_all
from tasc.decoding.drafters import Resources, parse
from tasc.decoding.drafters.ngram.index import load_index
from tasc.decoding.loaded import Loaded, load_ready
from tasc.errors import InputError
from tasc.options.constraint import Constraint
from tasc.options.references import parse_path, resolve_model
from tasc.serving.http.worker import Drafting, Worker
from tasc.serving.options import ServeOptions
from tasc.tokenizer.chat import ChatTemplate
from tasc.tokenizer.loaded import load_tokenizer
from tasc.tokenizer.text_pieces import TextPieces
from tasc.tokenizer.token_bytes import token_speller
from tasc.visible import is_unicode

_KEPT = 64  # compiled grammars


class ServedModel:
    """A model, its worker, and what turns requests into jobs.

    ``encode`` is thread-safe; ``chat`` and ``grammar`` have one thread each at a time.
    """

    def __init__(self, options: ServeOptions) -> None:
        """Load the model. Raises what ``load_ready`` and ``load_index`` raise."""
        path = resolve_model(options.folder)[1]
        # Before the model is loaded, as the template's process is forked from this one.
        self.template = ChatTemplate.of(load_tokenizer(path))
        self.loaded: Loaded = load_ready(options.folder, options.dtype, "cpu", graphs="off")
        self.name, target = self.loaded.label, self.loaded.target
        most = target.max_positions or options.max_length
        self.max_length = min(options.max_length, most)
        method, tokenizer = parse(options.method), self.loaded.tokenizer
        folders = [Path(parse_path(index)[1]) for index in options.indexes]
        resources = Resources(
            [np.empty(0, np.int32)],  # an empty output marks where outputs begin
            self.loaded.end_ids[0],
            indexes=[load_index(folder, tokenizer, copy=True) for folder in folders],
            target=target,
            tokenizer=tokenizer,
        )
        drafting = Drafting(method, method.prepare(resources))
        self.worker = Worker(self.loaded, drafting, size=options.batch_size, queue=options.queue)
        self._grammars = OrderedDict[str, Grammar]()

    def start(self) -> None:
        """Decode a token, so that the first request finds all ready, and start the worker."""
        target, make = self.loaded.target, self.worker.drafting.make
        generate_all(target, [Request(target.any_tokens(1), make)], max_new_tokens=1)
        self.worker.start(self.max_length)

    def encode(self, prompt: str | Sequence[int], *, special: bool) -> np.ndarray:
        """Return the ids (L,) int32 of a prompt, with the tokenizer's ``special`` tokens.

        Raises InputError for a text that is no Unicode, and for ids that the model lacks.
        """
        if isinstance(prompt, str):
            if not is_unicode(prompt):
                raise InputError("the prompt has half of a surrogate pair: remove it")
            tokenizer = self.loaded.tokenizer.tokenizer
            prompt = tokenizer.encode(prompt, add_special_tokens=special).ids
        if max(prompt, default=0) >= 2**31:
            raise InputError(f"token id {max(prompt)} is too large: use the model's own tokenizer")
        ids = np.array(prompt, np.int64).astype(np.int32)
        if not len(ids):
            raise InputError("the prompt has no tokens: give a text or ids")
        self.loaded.target.check_ids(ids, "the prompt")
        return ids

    def chat(self, messages: Sequence[dict[str, Any]]) -> np.ndarray:
        """Return the ids (L,) int32 of the prompt for an answer.

        Raises InputError without a chat template, and for what the template refuses.
        """
        if self.template is None:
            raise InputError(f"{self.name} has no chat template: use /v1/completions")
        return self.encode(self.template.prompt(list(messages)), special=False)

    def grammar(self, constraint: Constraint) -> Grammar:
        """Compile a constraint, or return it from the ones that were compiled lately."""
        key = json.dumps([constraint.kind, constraint.text])
        if key not in self._grammars:
            loaded = self.loaded
            self._grammars[key] = Grammar(constraint, loaded.tokenizer, loaded.end_ids)
        self._grammars.move_to_end(key)
        while len(self._grammars) > _KEPT:
            self._grammars.popitem(last=False)
        return self._grammars[key]


class TextStream:
    """The text of an output in pieces, which join to exactly the text of the whole output."""

    def __init__(self, loaded: Loaded, stops: Sequence[str]) -> None:
        tokenizer = loaded.tokenizer.tokenizer
        self.pieces, self.stops = TextPieces(tokenizer, loaded.text), stops
        self.stop = StopStrings(stops, token_speller(tokenizer)) if stops else None
        # Characters at the end that may begin a stop string.
        self.withheld = max(map(len, stops), default=1) - 1
        self.tokens: list[int] = []
        self.sent = list[str]()
        self.unsent = ""
        self.stopped = False

    def add(self, tokens: np.ndarray) -> str:
        """Return the text that ``tokens`` (k,) int32 add, without what may still change."""
        new = tokens.tolist()
        self.tokens += new
        self.unsent += self.pieces.add(new)
        # A stop string may be in the bytes of the tokens alone; the whole text then ends before it.
        self.stopped |= self.stop is not None and self.stop.cut(self.tokens, len(new)) is not None
        if self.stopped:
            return ""
        ends = [at for stop in self.stops if (at := self.unsent.find(stop)) >= 0]
        self.stopped = bool(ends)
        size = min([*ends, max(len(self.unsent) - self.withheld, 0)])
        piece, self.unsent = self.unsent[:size], self.unsent[size:]
        self.sent.append(piece)
        return piece

    def end(self, text: str) -> str:
        """Return the rest of the whole ``text``. Raises RuntimeError if it begins otherwise."""
        sent = "".join(self.sent)
        if not text.startswith(sent):
            raise RuntimeError(f"an output begins with {text!r:.100}, but {sent!r:.100} was sent")
        return text[len(sent) :]
