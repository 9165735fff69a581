"""The model that is served: prompts to ids, constraints to grammars, tokens to text in pieces."""

import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tasc.decoding.core.grammar import Grammar
from tasc.decoding.core.stopping import StopStrings
from tasc.decoding.decode import Request, generate_all
from tasc.decoding.drafters import Resources, parse
from tasc.decoding.drafters.ngram.index import load_index
from tasc.decoding.loaded import Loaded, load_ready
from tasc.errors import InputError, UnavailableError
from tasc.options.constraint import Constraint
from tasc.options.references import parse_path, resolve_model
from tasc.serving.drafts.state import read_state, teach, write_state
from tasc.serving.http.tasks import Tasks
from tasc.serving.http.worker import SHARED, Drafting, Worker
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
        self.method, self.state = parse(options.method), options.state
        plain = [Path(parse_path(index)[1]) for index in options.indexes]
        folder = None if options.tasks is None else Path(options.tasks)
        self.tasks = Tasks(self.name, self._drafting, plain, folder)
        if self.state is not None:
            for name, outputs in read_state(Path(self.state), self.loaded.tokenizer).items():
                if (task := self.tasks.get(name or self.name)) is not None:
                    teach(task.drafting.make, outputs)
        self.worker = Worker(
            self.loaded,
            self.method,
            size=options.batch_size,
            queue=options.queue,
            capacity=self.max_length,
        )
        self._grammars = OrderedDict[str, Grammar]()

    def start(self) -> None:
        """Decode a token, so that the first request finds all ready, and start the worker."""
        target, make = self.loaded.target, self.tasks[self.name].drafting.make
        generate_all(target, [Request(target.any_tokens(1), make)], max_new_tokens=1)
        blocks = target.kv_cache.blocks.values()
        self._position_bytes = sum(block[:, :, 0, :, 0].nbytes for block in blocks)
        self.worker.start()

    @property
    def most_bytes(self) -> int:
        """The most that keys and values can take, once it has started."""
        worker = self.worker
        # A cache that grows gets twice what is needed, beside the one before. The beginning that is
        # read is beside those that are kept.
        positions = 3 * worker.longest * worker.size + (SHARED + 2) * self.max_length
        return positions * self._position_bytes

    def _drafting(self, folders: Sequence[Path]) -> Drafting:
        """Prepare drafts from the indexes in ``folders``. Raises what ``load_index`` raises."""
        tokenizer = self.loaded.tokenizer
        resources = Resources(
            [np.empty(0, np.int32)],  # an empty output marks where outputs begin
            self.loaded.end_ids[0],
            indexes=[load_index(folder, tokenizer, copy=True) for folder in folders],
            target=self.loaded.target,
            tokenizer=tokenizer,
        )
        return Drafting(self.method, self.method.prepare(resources))

    def learnt(self) -> dict[str, list[np.ndarray]]:
        """Return the outputs that each task learnt; call it in the worker's thread, or after it."""
        return {"" if name == self.name else name: task.learnt for name, task in self.tasks.items()}

    def save(self, learnt: Mapping[str, Sequence[np.ndarray]]) -> int:
        """Write what was learnt to the state, and return the number of outputs.

        Raises InputError without a file, and UnavailableError if it cannot be written.
        """
        if self.state is None:
            raise InputError("the server keeps no state: pass --state FILE at its start")
        try:
            write_state(Path(self.state), learnt, self.loaded.tokenizer)
        except OSError as error:
            raise UnavailableError(
                f"cannot write {self.state} ({error.strerror}): check the file's folder"
            ) from None
        return sum(map(len, learnt.values()))

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

    def chat(
        self, messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]] = ()
    ) -> np.ndarray:
        """Return the ids (L,) int32 of the prompt for an answer, which may call ``tools``.

        Raises InputError without a chat template, for what the template refuses, and for tools
        that it does not write.
        """
        if self.template is None:
            raise InputError(f"{self.name} has no chat template: use /v1/completions")
        text = self.template.prompt(list(messages), list(tools) or None)
        if tools and text == self.template.prompt(list(messages)):
            raise InputError(
                f"the chat template of {self.name} writes no tools: leave them out, or describe "
                "them in a message"
            )
        return self.encode(text, special=False)

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
