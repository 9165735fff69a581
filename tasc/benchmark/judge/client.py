"""A judge behind an endpoint: a question, and the scores that it gives."""

from collections.abc import Sequence
from typing import Any

from tasc.benchmark.judge.results import Judgement
from tasc.benchmark.judge.rubric import Question, parse, reminder
from tasc.benchmark.load.address import Address
from tasc.benchmark.load.connection import BadAnswerError, Connection, sound

_TIMES = 2  # that a judge is asked
_LONGEST = 10_000  # characters of a reply that are kept

Message = dict[str, str]


class Judge(Connection):
    """A server of chat completions that scores answers, with temperature 0."""

    def __init__(
        self, address: Address, model: str, *, timeout: float, max_new_tokens: int
    ) -> None:
        """See Connection; a reply has at most ``max_new_tokens``."""
        super().__init__(address, model, timeout)
        self._asked: dict[str, Any] = {"temperature": 0.0, "max_tokens": max_new_tokens}

    async def judge(self, question: Question, answers: Sequence[tuple[str, str]]) -> Judgement:
        """Have answers scored, (model, text) each, in this order.

        What holds no scores is asked again once, with a line that tells what they look like.
        """
        first = _message("user", question.text([text for _, text in answers]))
        messages, replies, scores, error = [first], list[str](), None, ""
        for _ in range(_TIMES):
            reply, error = await self._reply(messages)
            if error:
                continue
            replies.append(reply)
            scores = parse(reply, len(answers))
            if scores:
                break
            again = _message("user", reminder(len(answers)))
            messages = [first, _message("assistant", reply), again]
        return Judgement(
            models=tuple(model for model, _ in answers),
            replies=tuple(replies),
            error=error,
            scores=scores,
        )

    async def _reply(self, messages: Sequence[Message]) -> tuple[str, str]:
        """Return what the judge wrote; or an empty text, and why the request failed."""
        asked = {"model": self.model, "messages": messages, **self._asked}
        try:
            found = await self.within(
                self.client.post("/chat/completions", body=asked, cast_to=object)
            )
            text = found["choices"][0]["message"]["content"]
            if not isinstance(text, str):
                raise BadAnswerError("the reply has no text: a larger --max-new-tokens may help")
        except self.errors as error:
            return "", self.reason(error)
        return sound(text[:_LONGEST]), ""


def _message(role: str, text: str) -> Message:
    return {"role": role, "content": text}
