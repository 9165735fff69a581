"""Logarithms of the probabilities that the model gave to tokens, before anything changed them."""

import codecs
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

MOST_TOP = 20  # most likely tokens of a position that a request may ask for
_LEAST = -9999.0  # JSON has no infinity


@dataclass(frozen=True, eq=False)
class Logprobs:
    """Of k tokens (k,) float32, and of the n likeliest ids at each place (k, n), falling."""

    own: np.ndarray
    ids: np.ndarray
    top: np.ndarray

    @classmethod
    def of(cls, tokens: np.ndarray, logits: torch.Tensor, count: int) -> "Logprobs":
        """Take ``tokens`` (k,) int32, the ``logits`` (k, V) behind each, and n, ``count``."""
        rows = logits.float().log_softmax(-1).clamp(min=_LEAST)
        ids_of_rows = torch.from_numpy(tokens.astype(np.int64))[:, None].to(rows.device)
        chosen = rows.gather(1, ids_of_rows)
        top, ids = rows.topk(min(count, rows.shape[1]))
        return cls(chosen[:, 0].cpu().numpy(), ids.cpu().numpy(), top.cpu().numpy())

    def __iter__(self) -> Iterator[tuple[float, list[tuple[int, float]]]]:
        for own, ids, top in zip(self.own, self.ids, self.top, strict=True):
            yield float(own), list(zip(ids.tolist(), top.tolist(), strict=True))


class Spelt:
    """Writes the log-probabilities of one output, in the form of chats or of completions."""

    def __init__(self, spell: Callable[[int], bytes], first: Callable[[int], str]) -> None:
        """``spell`` returns a token's bytes, ``first`` the text of an output's first token."""
        self.spell, self.first = spell, first
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.offset, self.begun = 0, False

    def chat(self, tokens: Sequence[int], logprobs: Logprobs) -> dict[str, Any]:
        """Return ``tokens`` with their log-probabilities, as in chats."""
        content = [
            self._entry(token, own) | {"top_logprobs": [self._entry(*one) for one in top]}
            for token, (own, top) in zip(tokens, logprobs, strict=True)
        ]
        return {"content": content, "refusal": None}

    def completion(self, tokens: Sequence[int], logprobs: Logprobs) -> dict[str, Any]:
        """Return the same as in completions, where the token itself is among the likely ones."""
        scored = list(zip(tokens, logprobs, strict=True))
        return {
            "tokens": [self._name(token) for token in tokens],
            "token_logprobs": [own for _, (own, _) in scored],
            "top_logprobs": [
                {self._name(token): own} | {self._name(i): value for i, value in reversed(top)}
                for token, (own, top) in scored
            ],
            "text_offset": [self._next_offset(token) for token in tokens],
        }

    def _entry(self, token: int, logprob: float) -> dict[str, Any]:
        spelt = self.spell(token)
        return {"token": self._text(token), "logprob": logprob, "bytes": list(spelt)}

    def _text(self, token: int) -> str:
        return self.spell(token).decode(errors="replace")

    def _name(self, token: int) -> str:
        """Return the text of a token, or bytes that are none: these are keys of an object."""
        spelt = self.spell(token)
        try:
            return spelt.decode()
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in spelt)

    def _next_offset(self, token: int) -> int:
        """Return the characters before ``token``, and count its own."""
        offset, spelt = self.offset, self.spell(token)
        if not self.begun and spelt.startswith(b" ") and not self.first(token).startswith(" "):
            spelt = spelt[1:]  # some tokenizers drop the space of the first word
        self.begun = True
        self.offset += len(self.decoder.decode(spelt))
        return offset


def joined(parts: Sequence[Logprobs]) -> Logprobs:
    """Return the log-probabilities of all steps of an output, which has at least one."""
    return Logprobs(
        np.concatenate([part.own for part in parts]),
        np.concatenate([part.ids for part in parts]),
        np.concatenate([part.top for part in parts]),
    )
