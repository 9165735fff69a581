"""A server under load: one request, and its times."""

import time
from dataclasses import dataclass, field
from typing import Any

from tasc.benchmark.load.address import Address
from tasc.benchmark.load.connection import BadAnswerError, Connection, sound
from tasc.benchmark.load.options import LoadOptions

_LONGEST_TOKEN = 1000  # characters; what exceeds it says that a server does not keep to max_tokens


@dataclass(frozen=True)
class Answer:
    """What came of a request, in milliseconds from sending it."""

    text: str = ""  # empty where it failed
    tokens: int = 0  # of the text, as the server counts them
    ms: float = 0.0  # to the last token (E2EL)
    # Of each piece of text; the first is the time to the first token (TTFT).
    times: tuple[float, ...] = field(default=(), repr=False)
    error: str = ""  # why it failed; empty where it did not


class Server(Connection):
    """A server that is asked to complete prompts, streamed."""

    def __init__(self, address: Address, model: str, options: LoadOptions) -> None:
        """See Connection."""
        super().__init__(address, model, options.timeout)
        self._longest = _LONGEST_TOKEN * options.max_new_tokens
        self._asked: dict[str, Any] = {
            "temperature": 0.0,
            "max_tokens": options.max_new_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if options.stop:
            self._asked["stop"] = list(options.stop)

    async def answer(self, prompt: str) -> Answer:
        """Send a prompt and read what comes; a failure is an answer, too."""
        try:
            return await self.within(self._stream(prompt))
        except self.errors as error:
            return Answer(error=self.reason(error))

    async def _stream(self, prompt: str) -> Answer:
        texts, times, usage, length = list[str](), list[float](), None, 0
        begin, ended = time.perf_counter(), 0.0
        asked = {"model": self.model, "prompt": prompt, **self._asked}
        async with await self.client.post(
            "/completions", body=asked, cast_to=object, stream=True, stream_cls=self.stream_of
        ) as chunks:
            async for chunk in chunks:
                usage = chunk.get("usage") or usage
                if chunk.get("choices"):  # the chunk that tells the usage may have none
                    ended = 1000 * (time.perf_counter() - begin)
                    texts.append(chunk["choices"][0]["text"])
                    length += len(texts[-1])
                    times += [ended] if texts[-1] else []
                if length > self._longest:
                    raise BadAnswerError("the answer is far longer than max_tokens")
        tokens = -1 if usage is None else int(usage["completion_tokens"])
        if not texts or tokens < 0:
            raise BadAnswerError("the stream ended without text or without the usage of tokens")
        times = times or [ended]  # nothing but the end token
        return Answer(sound("".join(texts)), tokens, times[-1], tuple(times))
