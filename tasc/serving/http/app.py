"""The routes of the server. Requests become jobs of the worker, and its callbacks answers."""

import asyncio
import hmac
import json
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from tasc.environment import API_KEY
from tasc.errors import TascError
from tasc.serving.http.answers import Form, Usage
from tasc.serving.http.logprobs import Spelt
from tasc.serving.http.metrics import Metrics
from tasc.serving.http.model import ServedModel, TextStream
from tasc.serving.http.protocol import (
    Body,
    ChatBody,
    CompletionBody,
    RefusedError,
    read_body,
    refusal,
)
from tasc.serving.http.tools import CallStream
from tasc.serving.http.worker import BusyError, Ended, Job, Written

MOST_BYTES = 4 << 20  # of a request
_BODY_SECONDS = 30.0  # to receive one
_DEFAULT_TOKENS = 16  # of a completion; a chat may fill the context
_RETRY = "1"  # seconds
_GONE = 499  # status in the metrics for a client that went away

T = TypeVar("T")
Event = tuple[int, Written | Ended]  # the number of the output, and what came
_log = logging.getLogger("tasc")


@dataclass(frozen=True)
class Asked:
    """A request that was read: what it asks for, and the ids of its prompts."""

    body: Body
    prompts: list[np.ndarray]
    most_tokens: Sequence[int]  # of each prompt's outputs
    chat: bool


class Server:
    """The application: one model, its metrics, and the key that clients must have, if any."""

    def __init__(self, model: ServedModel, key: str | None, seconds: float = 600.0) -> None:
        """Let each request take ``seconds``, its wait included."""
        self.model, self.key, self.metrics = model, key, Metrics(model.worker)
        self.seconds = seconds
        # One thread each, so that slow templates and schemas delay no other requests.
        self.templates, self.schemas = ThreadPoolExecutor(1), ThreadPoolExecutor(1)
        routes = [
            ("/v1/completions", "POST", self.completions),
            ("/v1/chat/completions", "POST", self.chat),
            ("/v1/models", "GET", self.models),
            ("/v1/models/{name:path}", "GET", self.one_model),
            ("/v1/tasks/{name}", "PUT", self.put_task),
            ("/v1/tasks/{name}", "DELETE", self.remove_task),
            ("/v1/state", "POST", self.save),
            ("/health", "GET", self.health),
            ("/metrics", "GET", self.page),
        ]
        self.app = Starlette(
            routes=[
                Route(path, self._guarded(path, handler), methods=[method])
                for path, method, handler in routes
            ],
            exception_handlers={HTTPException: _http_error},
        )

    def _guarded(
        self, path: str, handler: Callable[[Request], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        """Return a handler that checks the key, counts, and answers errors in the API's form."""

        async def handle(request: Request) -> Response:
            try:
                if path.startswith("/v1/"):
                    self._check_key(request)
                answer = await handler(request)
            except RefusedError as error:
                answer = JSONResponse(error.body, error.status, error.headers)
            except ClientDisconnect:
                answer = Response(status_code=_GONE)
            except asyncio.CancelledError:  # the server stops, and the request took too long
                answer = JSONResponse(_stopped().body, _stopped().status)
            except Exception as error:
                _log.exception("a request failed")
                answer = JSONResponse(refusal(error).body, refusal(error).status)
            if path.startswith("/v1/"):
                self.metrics.requests.labels(str(answer.status_code)).inc()
            return answer

        return handle

    def _check_key(self, request: Request) -> None:
        key = request.headers.get("authorization", "").removeprefix("Bearer ")
        if self.key is not None and not hmac.compare_digest(key.encode(), self.key.encode()):
            raise RefusedError(
                "the API key is missing or wrong", status=401, code="invalid_api_key"
            )

    async def health(self, _: Request) -> Response:
        """Say whether the worker decodes."""
        alive = self.model.worker.thread.is_alive()
        return JSONResponse({"status": "ok" if alive else "stopped"}, 200 if alive else 503)

    async def page(self, _: Request) -> Response:
        """Return the metrics."""
        return Response(self.metrics.page(), media_type="text/plain; version=0.0.4")

    async def models(self, _: Request) -> Response:
        """List the tasks, the first of which is the model itself."""
        data = [self._model(name) for name in self.model.tasks]
        return JSONResponse({"object": "list", "data": data})

    async def one_model(self, request: Request) -> Response:
        """Return one of them."""
        name = request.path_params["name"]
        self._check_model(name)
        return JSONResponse(self._model(name))

    def _model(self, name: str) -> dict[str, object]:
        most = {"max_model_len": self.model.max_length}
        return {"id": name, "object": "model", "created": 0, "owned_by": "tasc", **most}

    async def put_task(self, request: Request) -> Response:
        """Load a task from the folder of tasks, or load it again."""
        self._check_operator()
        name, model = request.path_params["name"], self.model

        def learnt() -> list[np.ndarray]:
            return model.tasks[name].learnt if name in model.tasks else []

        outputs = await asyncio.wrap_future(model.worker.call(learnt))
        await _off_loop(lambda: model.tasks.put(name, outputs), self.schemas)
        return JSONResponse({"id": name, "object": "model"})

    async def remove_task(self, request: Request) -> Response:
        """Forget a task."""
        self._check_operator()
        name = request.path_params["name"]
        await _off_loop(lambda: self.model.tasks.remove(name), self.schemas)
        return JSONResponse({"id": name, "object": "model", "deleted": True})

    async def save(self, _: Request) -> Response:
        """Write what was learnt to the state."""
        self._check_operator()
        learnt = await asyncio.wrap_future(self.model.worker.call(self.model.learnt))
        outputs = await _off_loop(lambda: self.model.save(learnt), self.schemas)
        return JSONResponse({"outputs": outputs})

    def _check_operator(self) -> None:
        """Raise RefusedError without a key: any page in a browser could send the request."""
        if self.key is None:
            raise RefusedError(
                f"start the server with a key in {API_KEY} to change tasks", status=403
            )

    async def completions(self, request: Request) -> Response:
        """Continue texts."""
        body = read_body(CompletionBody, await _read(request))
        self._check_model(body.model)

        def encode() -> list[np.ndarray]:
            special = body.add_special_tokens
            return [self.model.encode(prompt, special=special) for prompt in body.prompts]

        prompts = await _off_loop(encode)
        if not prompts:
            raise RefusedError("prompt is an empty list", param="prompt")
        most = body.max_tokens or _DEFAULT_TOKENS
        return await self._answer(request, Asked(body, prompts, [most] * len(prompts), chat=False))

    async def chat(self, request: Request) -> Response:
        """Answer a chat."""
        body = read_body(ChatBody, await _read(request))
        self._check_model(body.model)
        tools = body.used_tools

        def write() -> np.ndarray:
            return self.model.chat([message.for_template for message in body.messages], tools)

        prompt = await _off_loop(write, self.templates)
        room = max(self.model.max_length - len(prompt), 1)
        most = body.max_completion_tokens or body.max_tokens or room
        return await self._answer(request, Asked(body, [prompt], [most], chat=True))

    def _check_model(self, name: str) -> None:
        if name not in self.model.tasks:
            raise RefusedError(
                f"there is no model {name!r:.100}: this server has {self.model.name!r} and "
                f"{len(self.model.tasks) - 1} tasks, see /v1/models",
                status=404,
                param="model",
                code="model_not_found",
            )

    async def _answer(self, request: Request, asked: Asked) -> Response:
        for prompt, most in zip(asked.prompts, asked.most_tokens, strict=True):
            if len(prompt) + most > self.model.max_length:
                raise RefusedError(
                    f"a prompt of {len(prompt)} tokens and {most} new ones exceed the "
                    f"{self.model.max_length} tokens of this server: shorten the prompt, or lower "
                    "max_tokens",
                    code="context_length_exceeded",
                )
        most = self.model.worker.most
        if len(asked.prompts) * (asked.body.n or 1) > most:
            raise RefusedError(f"a request may ask for {most} outputs at most", param="n")
        events = asyncio.Queue[Event]()
        jobs = await self._jobs(asked, events)
        try:
            self.model.worker.submit(jobs)
        except BusyError:
            raise RefusedError(
                "all places of the queue are taken: try again",
                status=429,
                code="queue_full",
                headers={"Retry-After": _RETRY},
            ) from None
        form = Form(asked.body.model, asked.chat, asked.body.tool_names)
        usage = Usage(sum(map(len, asked.prompts)))
        answering = _Answering(self, asked.body, jobs, events, form, usage)
        if asked.body.stream:
            return _Streamed(answering)
        return await answering.whole(request)

    async def _jobs(self, asked: Asked, events: "asyncio.Queue[Event]") -> list[Job]:
        body, loop = asked.body, asyncio.get_running_loop()
        self._check_model(body.model)  # again: the task may have been removed meanwhile
        task = self.model.tasks[body.model]
        try:
            sampling = body.sampling(secrets.randbelow(2**63))
            constraint = body.constraint if body.states_form else task.constraint
            grammar = None
            if constraint:
                grammar = await _off_loop(lambda: self.model.grammar(constraint), self.schemas)
        except TascError as error:
            raise RefusedError(str(error)) from None

        def put(number: int, event: Written | Ended) -> None:
            with suppress(RuntimeError):  # the loop is closed: the server has stopped
                loop.call_soon_threadsafe(events.put_nowait, (number, event))

        jobs = list[Job]()
        for prompt, most in zip(asked.prompts, asked.most_tokens, strict=True):
            for number in range(body.n or 1):
                heard = partial(put, len(jobs))
                job = Job(
                    prompt,
                    most,
                    on_end=heard,
                    on_tokens=heard if body.stream else None,
                    sampling=sampling,
                    number=number,
                    stops=body.stops,
                    grammar=grammar,
                    drafting=task.drafting if body.drafting else None,
                    penalties=body.penalties,
                    top_tokens=body.top_tokens,
                )
                jobs.append(job)
        return jobs


@dataclass(frozen=True, eq=False)
class _Answering:
    """The answer to one request while its jobs are decoded."""

    server: Server
    body: Body
    jobs: list[Job]
    events: "asyncio.Queue[Event]"
    form: Form
    usage: Usage

    def spelt(self) -> Spelt:
        """Return what writes the log-probabilities of one output."""
        model = self.server.model
        return Spelt(model.worker.spell, lambda token: model.loaded.text([token]))

    def cancel(self) -> None:
        """Free the places of jobs that have not ended."""
        self.server.model.worker.cancel(self.jobs)

    async def whole(self, request: Request) -> Response:
        """Return the answer with all outputs, once they have ended."""
        gone = asyncio.create_task(_until_gone(request.receive))
        done = asyncio.create_task(self._ended())
        try:
            await asyncio.wait({gone, done}, return_when=asyncio.FIRST_COMPLETED)
            if not done.done():
                raise ClientDisconnect
            with_ids = self.body.return_token_ids
            return JSONResponse(
                self.form.whole(done.result(), self.usage, self.spelt, with_ids=with_ids)
            )
        finally:
            gone.cancel()
            done.cancel()
            self.cancel()

    async def _ended(self) -> list[Ended]:
        ended = dict[int, Ended]()
        async for number, event in self._events():
            if isinstance(event, Ended):
                ended[number] = self._count(number, event)
        return [ended[number] for number in range(len(self.jobs))]

    async def _events(self) -> AsyncIterator[Event]:
        """Yield events until all jobs have ended. Raises RefusedError when their time is over."""
        left, seconds = len(self.jobs), self.server.seconds
        end = asyncio.get_running_loop().time() + seconds
        while left:
            try:
                async with asyncio.timeout_at(end):
                    event = await self.events.get()
            except TimeoutError:
                raise RefusedError(
                    f"the request took more than {seconds:g} s: lower max_tokens, or try again "
                    "when fewer requests wait",
                    status=408,
                    code="timeout",
                ) from None
            left -= isinstance(event[1], Ended)
            yield event

    def _count(self, number: int, ended: Ended) -> Ended:
        """Count an output. Raises RefusedError if it ended with an error."""
        if ended.error is not None:
            raise refusal(ended.error)
        self.usage.add(ended)
        self.server.metrics.add(self.jobs[number], ended)
        return ended

    async def pieces(self) -> AsyncIterator[dict[str, Any]]:
        """Yield the outputs in pieces, as they come, and the usage last if the request wants it."""
        usage = {"usage": None} if self.body.includes_usage else {}
        streams = [_Output(self) for _ in self.jobs]
        for number in range(len(self.jobs)):
            if (first := self.form.first(number)) is not None:
                yield first | usage
        async for number, event in self._events():
            if isinstance(event, Ended):
                yield streams[number].last(number, self._count(number, event)) | usage
            elif (piece := streams[number].piece(number, event)) is not None:
                yield piece | usage
        if self.body.includes_usage:
            yield self.form.totals(self.usage)


class _Output:
    """One output of an answer in pieces."""

    def __init__(self, answering: _Answering) -> None:
        self.form, self.spelt = answering.form, answering.spelt()
        self.text = TextStream(answering.server.model.loaded, answering.body.stops)
        self.calls = CallStream(self.form.tool_names) if self.form.tool_names else None

    def piece(self, number: int, written: Written) -> dict[str, Any] | None:
        """Return what a step adds; None if there is nothing to send yet."""
        text = self.text.add(written.tokens)
        if self.calls is not None:
            text = self.calls.add(text)
        logprobs = self.form.logprobs(self.spelt, written.tokens, written.logprobs)
        if not text and logprobs is None:
            return None
        return self.form.piece(number, text, logprobs)

    def last(self, number: int, ended: Ended) -> dict[str, Any]:
        """Return the rest of the output, which has ended."""
        text = self.text.end(ended.text)
        if self.calls is None:
            return self.form.last(number, text, ended.finish)
        begun = self.calls.add(text)
        rest, calls = self.calls.end()
        return self.form.last(number, begun + rest, ended.finish, calls)


class _Streamed(Response):
    """Server-sent events; a client that goes away ends its jobs."""

    media_type = "text/event-stream"

    def __init__(self, answering: _Answering) -> None:
        super().__init__(headers={"Cache-Control": "no-cache"})
        del self.headers["content-length"]
        self.answering, self.has_begun = answering, False

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        gone = asyncio.create_task(_until_gone(receive))
        sending = asyncio.create_task(self._send(send))
        try:
            await asyncio.wait({gone, sending}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        except asyncio.CancelledError:  # the server stops, and the stream took too long
            sending.cancel()
            await asyncio.wait({sending})
            await self._begin(send)
            await _send_event(send, json.dumps(_stopped().body))
            await _send_last(send)
        finally:
            gone.cancel()
            sending.cancel()
            self.answering.cancel()

    async def _begin(self, send: Send) -> None:
        if not self.has_begun:
            self.has_begun = True
            head = {"status": self.status_code, "headers": self.raw_headers}
            await send({"type": "http.response.start", **head})

    async def _send(self, send: Send) -> None:
        await self._begin(send)
        try:
            async for piece in self.answering.pieces():
                await _send_event(send, json.dumps(piece))
        except Exception as error:
            if not isinstance(error, RefusedError):
                _log.exception("a stream failed")
                error = refusal(error)
            await _send_event(send, json.dumps(error.body))
        await _send_last(send)


async def _send_event(send: Send, data: str) -> None:
    body = f"data: {data}\n\n".encode()
    await send({"type": "http.response.body", "body": body, "more_body": True})


async def _send_last(send: Send) -> None:
    await _send_event(send, "[DONE]")
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def _stopped() -> RefusedError:
    return RefusedError("the server was stopped", status=503, code="stopped")


async def _until_gone(receive: Receive) -> None:
    """Return when the client has gone away; the body of the request was read before."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _off_loop(work: Callable[[], T], threads: ThreadPoolExecutor | None = None) -> T:
    """Do ``work`` in a thread: other requests go on. Raises RefusedError for a bad input."""
    try:
        return await asyncio.get_running_loop().run_in_executor(threads, work)
    except TascError as error:
        raise RefusedError(str(error)) from None


async def _read(request: Request) -> bytes:
    """Return the body. Raises RefusedError for one that is too large, or takes too long."""
    data = bytearray()
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            async for part in request.stream():
                data += part
                if len(data) > MOST_BYTES:
                    raise RefusedError(
                        f"the body has more than {MOST_BYTES:,} bytes: shorten it", status=413
                    )
    except TimeoutError:
        raise RefusedError(
            f"the body did not arrive within {_BODY_SECONDS:.0f} s", status=408
        ) from None
    return bytes(data)


async def _http_error(_: Request, error: Exception) -> Response:
    """Answer an unknown path or method in the API's form."""
    assert isinstance(error, HTTPException)
    refused = RefusedError(error.detail.lower(), status=error.status_code)
    return JSONResponse(refused.body, error.status_code, error.headers)
