"""A server through the client of the ``openai`` package: reaching it, and why that failed."""

import asyncio
import os
from collections.abc import Awaitable
from typing import Any, Self, TypeVar

from tasc.benchmark.load.address import Address
from tasc.benchmark.load.results import Endpoint
from tasc.data.foreign import one_line
from tasc.errors import UnavailableError

KEY = "TASC_API_KEY"  # not OPENAI_API_KEY: that one is for one company's servers
_REFUSED = (401, 403)  # HTTP: not authorized, forbidden
# What reading an answer raises that is not as it should be, here or inside the client.
_STRANGE = (ValueError, TypeError, AttributeError, LookupError)

T = TypeVar("T")


class BadAnswerError(Exception):
    """An answer that cannot be used, and why: it never leaves this package."""


class Connection:
    """A server: no retries, no redirects, no proxy for this machine, no name or key of others."""

    def __init__(self, address: Address, model: str, timeout: float) -> None:
        """Connect to nothing yet; without a ``model`` the first one that the server lists is asked.

        Raises UnavailableError where the client is not installed.
        """
        try:
            import openai
        except ImportError:
            raise UnavailableError(
                "openai is not installed: install it with pip install 'tasc-lm[endpoint]'"
            ) from None
        self.address, self.model, self._timeout = address, model, timeout
        self.errors = (openai.OpenAIError, TimeoutError, BadAnswerError, *_STRANGE)
        # Of plain dictionaries: the client's own classes take half of the time of a stream.
        self.stream_of: Any = openai.AsyncStream[object]
        left_out: Any = dict.fromkeys(("OpenAI-Organization", "OpenAI-Project"), openai.Omit())
        self.client: Any = openai.AsyncOpenAI(
            base_url=address.url,
            api_key=os.environ.get(KEY) or "none",
            default_headers=left_out,
            max_retries=0,
            timeout=timeout,
            http_client=openai.DefaultAsyncHttpxClient(
                trust_env=not address.local, follow_redirects=False
            ),
        )

    async def __aenter__(self) -> Self:
        """Ask which model it serves, where none was named. Raises UnavailableError."""
        try:
            if not self.model:
                listed = await self.within(self.client.models.list())
                self.model = str(listed.data[0].id)
        except self.errors as error:
            await self.client.close()
            raise self.silent(self.reason(error)) from None
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close its connections."""
        await self.client.close()

    async def within(self, answer: Awaitable[T]) -> T:
        """Wait for an answer as long as a request may take. Raises any of ``errors``."""
        async with asyncio.timeout(self._timeout):
            return await answer

    @property
    def endpoint(self) -> Endpoint:
        """Describe it."""
        return Endpoint(label=self.address.label, url=self.address.url, model=self.model)

    def silent(self, why: str) -> UnavailableError:
        """Return the error of a server that answers no request."""
        return UnavailableError(
            f"no answer from {self.address.label} at {self.address.url} ({why}): start the "
            "server, or name another with --endpoint, its model with --model"
        )

    def reason(self, error: Exception) -> str:
        """Say in a line why a request failed; what a connection fails of is the cause's to say."""
        if isinstance(error, TimeoutError):
            return f"nothing within {self._timeout:g} s"
        if isinstance(error, _STRANGE):
            return "what it sent is no answer of an OpenAI-compatible server"
        status = getattr(error, "status_code", None)
        if status in _REFUSED:
            return f"status {status}: set {KEY} to a key that it takes"
        return one_line(error)


def sound(text: str) -> str:
    """Join halves of a character that came in two pieces; one that stays alone is no text."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
