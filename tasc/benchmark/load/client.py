"""A server under load, through the client of the ``openai`` package: one request, and its times."""

import asyncio
import os
import time
from dataclasses import dataclass, field
from typing import Any, Self

from tasc.benchmark.load.address import Address
from tasc.benchmark.load.options import LoadOptions
from tasc.benchmark.load.results import Endpoint
from tasc.errors import UnavailableError

KEY = "TASC_API_KEY"  # not OPENAI_API_KEY: that one is for one company's servers
_LONGEST_TOKEN = 1000  # characters; what exceeds it says that a server does not keep to max_tokens
_LONGEST_REASON = 200


@dataclass(frozen=True)
class Answer:
    """What came of a request, in milliseconds from sending it.

    Attributes:
        text: empty where it failed.
        tokens: of the text, as the server counts them.
        ms: to the last token (E2EL).
        times: of each piece of text; the first is the time to the first token (TTFT).
        error: why it failed; empty where it did not.
    """

    text: str = ""
    tokens: int = 0
    ms: float = 0.0
    times: tuple[float, ...] = field(default=(), repr=False)
    error: str = ""


class Server:
    """A server: no retries, no redirects, no proxy for this machine, no name or key of others."""

    def __init__(self, address: Address, model: str, options: LoadOptions) -> None:
        """Connect to nothing yet; without a ``model`` the first one that the server lists is asked.

        Raises UnavailableError where the client is not installed.
        """
        try:
            import openai
        except ImportError:
            raise UnavailableError(
                "openai is not installed: install it with pip install 'tasc[endpoint]'"
            ) from None
        self.address, self.model, self._timeout = address, model, options.timeout
        self._longest = _LONGEST_TOKEN * options.max_new_tokens
        # A stream that is not as it should be is an error of any of the last kinds.
        strange = (ValueError, TypeError, AttributeError, LookupError)
        self._errors = (openai.OpenAIError, TimeoutError, *strange)
        # Of plain dictionaries: the client's own classes take half of the time of a stream.
        self._stream_of: Any = openai.AsyncStream[object]
        left_out: Any = dict.fromkeys(("OpenAI-Organization", "OpenAI-Project"), openai.Omit())
        self._client: Any = openai.AsyncOpenAI(
            base_url=address.url,
            api_key=os.environ.get(KEY) or "none",
            default_headers=left_out,
            max_retries=0,
            timeout=options.timeout,
            http_client=openai.DefaultAsyncHttpxClient(
                trust_env=not address.local, follow_redirects=False
            ),
        )
        self._asked: dict[str, Any] = {
            "temperature": 0.0,
            "max_tokens": options.max_new_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if options.stop:
            self._asked["stop"] = list(options.stop)

    async def __aenter__(self) -> Self:
        """Ask which model it serves, where none was named. Raises UnavailableError."""
        try:
            if not self.model:
                async with asyncio.timeout(self._timeout):
                    listed = await self._client.models.list()
                self.model = str(listed.data[0].id)
        except self._errors as error:
            await self._client.close()
            raise self.silent(self._reason(error)) from None
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close its connections."""
        await self._client.close()

    @property
    def endpoint(self) -> Endpoint:
        """Describe it."""
        return Endpoint(label=self.address.label, url=self.address.url, model=self.model)

    def silent(self, why: str) -> UnavailableError:
        """Return the error of a server that does not answer."""
        return UnavailableError(
            f"{self.address.label} does not answer at {self.address.url} ({why}): start the "
            "server, or name another with --endpoint, its model with --model"
        )

    async def answer(self, prompt: str) -> Answer:
        """Send a prompt and read what comes; a failure is an answer, too."""
        try:
            async with asyncio.timeout(self._timeout):
                return await self._stream(prompt)
        except self._errors as error:
            return Answer(error=self._reason(error))

    async def _stream(self, prompt: str) -> Answer:
        texts, times, usage, length = list[str](), list[float](), None, 0
        begin, ended = time.perf_counter(), 0.0
        asked = {"model": self.model, "prompt": prompt, **self._asked}
        async with await self._client.post(
            "/completions", body=asked, cast_to=object, stream=True, stream_cls=self._stream_of
        ) as chunks:
            async for chunk in chunks:
                usage = chunk.get("usage") or usage
                if chunk.get("choices"):  # the chunk that tells the usage may have none
                    ended = 1000 * (time.perf_counter() - begin)
                    texts.append(chunk["choices"][0]["text"])
                    length += len(texts[-1])
                    times += [ended] if texts[-1] else []
                if length > self._longest:
                    raise ValueError("the answer is far longer than was asked for")
        tokens = -1 if usage is None else int(usage["completion_tokens"])
        if not texts or tokens < 0:
            raise ValueError("the stream ended without text or without the usage of tokens")
        # Halves of a character may come in two pieces; one that stays alone is no text.
        text = "".join(texts).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        times = times or [ended]  # nothing but the end token
        return Answer(text, tokens, times[-1], tuple(times))

    def _reason(self, error: Exception) -> str:
        """Say in a line why a request failed; what a connection fails of is the cause's to say."""
        told = error if isinstance(error, ValueError) else error.__cause__ or error
        if isinstance(error, TimeoutError):
            return f"no answer within {self._timeout:g} s"
        return " ".join((str(told) or type(told).__name__).split())[:_LONGEST_REASON]
