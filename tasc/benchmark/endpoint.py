"""Servers with the OpenAI API: their addresses, and requests that can fail but do no harm."""

import asyncio
import os
import re
import signal
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from ipaddress import ip_address
from typing import Annotated, Any, Self, TypeVar

from pydantic import Field

from tasc.data.foreign import one_line
from tasc.environment import API_KEY as KEY  # not OPENAI_API_KEY, of one company's servers
from tasc.errors import InputError, UnavailableError
from tasc.options.references import parse_label

# Stricter than the standard, so that no two parsers read two hosts from one text.
_URL = re.compile(
    r"https?://(\[[0-9a-f:.]+\]|[a-z0-9.-]+)(?::([0-9]{1,5}))?(/[\w.~/-]*)?", re.ASCII | re.I
)
_BYTES, _BYTES_PER_TOKEN = 2**20, 2**12  # of the largest response that is read
_LONGEST_URL = 2048  # characters
_REPORTED = "the server reports an error"
_SHOWN = 200  # characters of a server's error
_REFUSED = (401, 403)  # HTTP: not authorized, forbidden

AllowRemote = Annotated[
    bool, Field(description="Allow endpoints on other machines, which then receive the prompts.")
]
T = TypeVar("T")


@dataclass(frozen=True)
class Address:
    """The address of a server's API."""

    label: str  # its name in reports: host and port by default
    url: str  # base URL of the API, without a trailing slash
    local: bool  # whether it is on this machine, whatever resolves names

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Read ``URL`` or ``NAME=URL``; a URL without a path gets ``/v1``.

        Raises InputError if it is not a plain URL, without names, passwords and queries.
        """
        label, url = parse_label(text)
        match = _URL.fullmatch(url)
        if match is None or int(match[2] or 0) > 65535 or len(url) > _LONGEST_URL:
            raise InputError(
                f"endpoint {text!r:.100} is not a plain URL: give one such as "
                "http://127.0.0.1:8000/v1, without a password or a query, of at most "
                f"{_LONGEST_URL:,} characters"
            )
        path = (match[3] or "").rstrip("/")
        url = url.rstrip("/") if path else f"{url.rstrip('/')}/v1"
        return cls(label or url.split("/")[2], url, _is_loopback(match[1].strip("[]").lower()))


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:  # a name, which may resolve to anything
        return False


def check_reach(addresses: Iterable[Address], allow_remote: bool) -> None:
    """Raise InputError if an address is on another machine and that was not allowed."""
    remote = [address.label for address in addresses if not address.local]
    if remote and not allow_remote:
        raise InputError(
            f"{', '.join(remote)} is not on this machine and would receive the task's prompts: "
            "add --allow-remote to send them"
        )


def run_requests(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, as asyncio.run does; SIGTERM cancels it, too.

    The command line raises KeyboardInterrupt on SIGTERM. Inside of a request it would end another
    task than the one that waits, and asyncio would print its traceback. Raises KeyboardInterrupt
    once the coroutine is cancelled.
    """
    stopped = False

    async def stoppable() -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def stop(*_: object) -> None:
            nonlocal stopped
            stopped = True
            loop.call_soon_threadsafe(task.cancel)

        if threading.current_thread() is not threading.main_thread():
            return await work  # which gets no signals
        before = signal.signal(signal.SIGTERM, stop)
        try:
            return await work
        finally:
            signal.signal(signal.SIGTERM, before)

    try:
        return asyncio.run(stoppable())
    except asyncio.CancelledError:
        if stopped:
            raise KeyboardInterrupt from None
        raise


class RequestError(Exception):
    """A request without a usable answer; the message is the reason, in one line."""


class Client:
    """A connection to one model: no retries, no redirects, no credentials of other services."""

    def __init__(self, address: Address, model: str, timeout: float, max_tokens: int) -> None:
        """Prepare a client; without a ``model`` it uses the first that the server lists.

        Raises UnavailableError if the ``openai`` package is not installed.
        """
        try:
            import openai
        except ImportError:
            raise UnavailableError(
                "openai is not installed: install it with pip install 'tasc-lm[endpoint]'"
            ) from None
        self.address, self.model, self._timeout = address, model, timeout
        self._fixed = {"temperature": 0.0, "max_tokens": max_tokens}
        omitted: Any = dict.fromkeys(("OpenAI-Organization", "OpenAI-Project"), openai.Omit())
        self._client: Any = openai.AsyncOpenAI(
            base_url=address.url,
            api_key=os.environ.get(KEY) or "none",
            default_headers=omitted | {"Accept-Encoding": "identity"},
            max_retries=0,
            timeout=timeout,
            http_client=openai.DefaultAsyncHttpxClient(
                trust_env=not address.local,
                follow_redirects=False,
                event_hooks={"response": [_bounded(_BYTES + _BYTES_PER_TOKEN * max_tokens)]},
            ),
        )

    async def __aenter__(self) -> Self:
        """Find the model's name. Raises UnavailableError if the server does not answer."""
        try:
            if not self.model:
                self.model = await self._request(
                    "get", "/models", lambda answer: text_of(answer["data"][0]["id"])
                )
        except RequestError as error:
            await self._client.close()
            raise self.unavailable(str(error)) from None
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()

    async def post(self, path: str, read: Callable[[Any], T], **body: Any) -> T:  # noqa: ANN401
        """Send a request at temperature 0 and return ``read`` of its JSON.

        Raises RequestError if the request or ``read`` fails.
        """
        return await self._request(
            "post", path, read, body={"model": self.model, **self._fixed, **body}
        )

    async def _request(self, verb: str, path: str, read: Callable[[Any], T], **more: Any) -> T:  # noqa: ANN401
        try:
            async with asyncio.timeout(self._timeout):
                answer = await getattr(self._client, verb)(path, cast_to=object, **more)
                _refuse_error(answer)
                return read(answer)
        except Exception as error:  # nothing that a server sends may end a run
            raise RequestError(self._reason(error)) from None

    def _reason(self, error: Exception) -> str:
        import openai

        if isinstance(error, TimeoutError | openai.APITimeoutError):
            return f"no answer within {self._timeout:g} s"
        if getattr(error, "status_code", None) in _REFUSED:
            return f"status {error.status_code}: set {KEY} to a valid key"  # type: ignore[attr-defined]
        if isinstance(error, openai.OpenAIError | RequestError):
            return one_line(error)
        return "the answer is not of the OpenAI API: check the path of the URL, such as /v1"

    def unavailable(self, reason: str) -> UnavailableError:
        advice = "start the server, or name another endpoint and model"
        if reason.startswith(_REPORTED):
            advice = "correct the request or the server, or name another endpoint and model"
        return UnavailableError(
            f"no answer from {self.address.label} at {self.address.url} ({reason}): {advice}"
        )


def text_of(value: object) -> str:
    """Check that ``value`` is text, and repair it: a lone half of a character becomes U+FFFD."""
    if not isinstance(value, str):
        raise RequestError("the answer has no text")
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _refuse_error(answer: object) -> None:
    """Raise RequestError for an error that a server sends with the status of a success.

    Some proxies and servers answer ``{"error": …}``, ``{"object": "error", "message": …}`` or
    ``{"detail": …}``, others a choice with an ``error``.
    """
    if not isinstance(answer, Mapping):
        return
    choices = answer.get("choices")
    stated = answer.get("error")
    if not choices and not answer.get("data"):
        stated = stated or answer.get("detail") or answer.get("errors")
        stated = stated or (answer.get("message") if answer.get("object") == "error" else None)
    elif isinstance(choices, list) and isinstance(choices[0], Mapping):
        stated = stated or choices[0].get("error")
    if not stated:
        return
    if isinstance(stated, Mapping):
        stated = stated.get("message") or stated
    text = " ".join(str(stated).split())
    raise RequestError(f"{_REPORTED}: {text[:_SHOWN]}")


def _bounded(most: int) -> Callable[[Any], Any]:
    """Return a HTTP hook that reads at most ``most`` bytes of any response.

    A compressed response fails at once: its size says nothing about the memory that it takes.
    """
    import openai

    # The package of the client's HTTP library: its name depends on the version of openai.
    library = openai.DefaultAsyncHttpxClient.__mro__[1].__module__.partition(".")[0]
    stream_of = import_module(library).ByteStream

    async def read(response: Any) -> None:  # noqa: ANN401
        if response.headers.get("content-encoding", "identity") != "identity":
            raise RequestError("the answer is compressed, which was not requested")
        body = bytearray()
        async for part in response.stream:
            body += part
            if len(body) > most:
                raise RequestError(f"the answer is longer than {most:,} bytes")
        await response.stream.aclose()
        response.stream = stream_of(bytes(body))

    return read
