"""The bodies of answers, whole or in pieces."""

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tasc.serving.http.worker import Ended

_REASONS = {"end": "stop", "stop": "stop", "length": "length"}


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
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    created: int = field(default_factory=lambda: int(time.time()))

    def whole(self, ended: Sequence[Ended], usage: Usage, *, with_ids: bool) -> dict[str, Any]:
        """Return the answer with all outputs, perhaps also as ids."""
        choices = [self._choice(i, one.text, one.finish) for i, one in enumerate(ended)]
        for choice, one in zip(choices, ended, strict=True):
            choice |= {"token_ids": one.tokens.tolist()} if with_ids else {}
        kind = "chat.completion" if self.chat else "text_completion"
        return self._body(kind, choices) | {"usage": usage.body}

    def _choice(self, index: int, text: str, finish: str) -> dict[str, Any]:
        said: dict[str, Any] = {"text": text}
        if self.chat:
            said = {"message": {"role": "assistant", "content": text}}
        return {"index": index, **said, "logprobs": None, "finish_reason": _REASONS[finish]}

    def first(self, index: int) -> dict[str, Any] | None:
        """Return the piece that opens output ``index``, if this form has one."""
        return self._piece(index, {"role": "assistant", "content": ""}, None) if self.chat else None

    def piece(self, index: int, text: str, finish: str | None = None) -> dict[str, Any]:
        """Return a piece of output ``index``; ``finish`` marks the last one."""
        said = ({"content": text} if text else {}) if self.chat else text
        return self._piece(index, said, finish)

    def _piece(self, index: int, said: Any, finish: str | None) -> dict[str, Any]:  # noqa: ANN401
        key, kind = ("delta", "chat.completion.chunk") if self.chat else ("text", "text_completion")
        reason = None if finish is None else _REASONS[finish]
        choice = {"index": index, key: said, "logprobs": None, "finish_reason": reason}
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
