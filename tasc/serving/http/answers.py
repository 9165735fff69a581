"""The bodies of answers, whole or in pieces."""

import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tasc.serving.http.logprobs import Logprobs, Spelt
from tasc.serving.http.tools import Call, calls_in
from tasc.serving.http.worker import Ended

_REASONS = {"end": "stop", "stop": "stop", "length": "length"}
_CALLS = "tool_calls"


@dataclass
class Usage:
    """The tokens of a request: those of its prompts, and those of outputs that ended."""

    prompt: int
    completion: int = 0
    drafted: int = 0
    accepted: int = 0

    def add(self, ended: Ended) -> None:
        self.completion += len(ended.tokens)
        self.drafted += ended.drafted
        self.accepted += ended.accepted

    @property
    def body(self) -> dict[str, int]:
        return {
            "prompt_tokens": self.prompt,
            "completion_tokens": self.completion,
            "total_tokens": self.prompt + self.completion,
            "drafted_tokens": self.drafted,
            "accepted_tokens": self.accepted,
        }


@dataclass(frozen=True)
class Form:
    """The form of the answers to one request, of a chat or of plain text."""

    model: str
    chat: bool
    tool_names: tuple[str, ...] = ()  # that a chat may call
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    created: int = field(default_factory=lambda: int(time.time()))

    def whole(
        self, ended: Sequence[Ended], usage: Usage, spelt: Callable[[], Spelt], *, with_ids: bool
    ) -> dict[str, Any]:
        """Return the answer with all outputs, perhaps also as ids."""
        choices = [self._choice(index, one, spelt()) for index, one in enumerate(ended)]
        for choice, one in zip(choices, ended, strict=True):
            choice |= {"token_ids": one.tokens.tolist()} if with_ids else {}
        kind = "chat.completion" if self.chat else "text_completion"
        return self._body(kind, choices) | {"usage": usage.body}

    def _choice(self, index: int, ended: Ended, spelt: Spelt) -> dict[str, Any]:
        said: dict[str, Any] = {"text": ended.text}
        reason = _REASONS[ended.finish]
        if self.chat:
            text, calls = calls_in(ended.text, self.tool_names) if self.tool_names else (None, [])
            message: dict[str, Any] = {"role": "assistant", "content": ended.text}
            if calls:
                message |= {"content": text or None, _CALLS: [call.body() for call in calls]}
                reason = _CALLS
            said = {"message": message}
        logprobs = self.logprobs(spelt, ended.tokens, ended.logprobs)
        return {"index": index, **said, "logprobs": logprobs, "finish_reason": reason}

    def logprobs(
        self, spelt: Spelt, tokens: np.ndarray, logprobs: Logprobs | None
    ) -> dict[str, Any] | None:
        """Return the log-probabilities of ``tokens`` (k,) in this form, if there are any."""
        if logprobs is None:
            return None
        write = spelt.chat if self.chat else spelt.completion
        return write(tokens.tolist(), logprobs)

    def first(self, index: int) -> dict[str, Any] | None:
        """Return the piece that opens output ``index``, if this form has one."""
        return self._piece(index, {"role": "assistant", "content": ""}) if self.chat else None

    def piece(
        self, index: int, text: str, logprobs: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return a piece of output ``index``."""
        said = ({"content": text} if text else {}) if self.chat else text
        return self._piece(index, said, logprobs)

    def last(
        self, index: int, text: str, finish: str, calls: Sequence[Call] = ()
    ) -> dict[str, Any]:
        """Return the last piece of output ``index``, with the tools that it calls."""
        said: Any = text
        if self.chat:
            said = {"content": text} if text else {}
            said |= {_CALLS: [call.body(i) for i, call in enumerate(calls)]} if calls else {}
        return self._piece(index, said, reason=_CALLS if calls else _REASONS[finish])

    def _piece(
        self,
        index: int,
        said: Any,  # noqa: ANN401
        logprobs: dict[str, Any] | None = None,
        reason: str | None = None,
    ) -> dict[str, Any]:
        key, kind = ("delta", "chat.completion.chunk") if self.chat else ("text", "text_completion")
        choice = {"index": index, key: said, "logprobs": logprobs, "finish_reason": reason}
        return self._body(kind, [choice])

    def totals(self, usage: Usage) -> dict[str, Any]:
        """Return the piece after all outputs, which has only the usage."""
        kind = "chat.completion.chunk" if self.chat else "text_completion"
        return self._body(kind, []) | {"usage": usage.body}

    def _body(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        name = f"{'chatcmpl' if self.chat else 'cmpl'}-{self.id}"
        return {
            "id": name,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "choices": choices,
        }
