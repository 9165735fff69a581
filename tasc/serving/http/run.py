"""Starts and ends the server."""

import os
import socket
from collections.abc import Callable
from contextlib import suppress
from ipaddress import ip_address

import torch
import uvicorn

from tasc.environment import API_KEY
from tasc.errors import UnavailableError
from tasc.serving.http.app import Server
from tasc.serving.http.model import ServedModel
from tasc.serving.options import ServeOptions

_MIB = 1 << 20


def serve(options: ServeOptions, note: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT, and then finish what runs, for at most ``grace`` seconds.

    ``note`` receives lines for the operator. Raises UnavailableError if the address is taken, and
    what loading the model raises.
    """
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    with _bound(options.host, options.port) as listener:
        model = ServedModel(options)
        model.start()
        key = os.environ.get(API_KEY) or None
        if key is None and not _is_loopback(options.host):
            note(f"warning: any machine may send requests: set {API_KEY} to a key that they need")
        note(_memory(model, options))
        config = uvicorn.Config(
            Server(model, key, options.timeout).app,
            lifespan="off",
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=options.grace,
        )
        host = f"[{options.host}]" if ":" in options.host else options.host
        ready = f"serving {model.name} at http://{host}:{options.port}/v1"
        try:
            with suppress(KeyboardInterrupt):  # uvicorn raises the signal again when it has ended
                _Uvicorn(config, lambda: note(ready)).run(sockets=[listener])
        finally:
            model.worker.stop()
            if options.state is not None:
                model.save(model.learnt())


def _memory(model: ServedModel, options: ServeOptions) -> str:
    """Return a line on the most memory that outputs can take, a warning if that is too much."""
    most, machine = model.most_bytes, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    line = (
        f"memory: besides the model, at most {most / _MIB:,.0f} MiB of keys and values "
        f"({options.batch_size} outputs of {model.max_length:,} tokens)"
    )
    if most < machine:
        return line
    return f"warning: {line}, more than this machine has: lower --batch-size or --max-length"


class _Uvicorn(uvicorn.Server):
    """A server that says when it is ready."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()


def _bound(host: str, port: int) -> socket.socket:
    """Return a socket that is bound, but does not listen. Raises UnavailableError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise UnavailableError(
            f"cannot listen at {host}, port {port} ({error.strerror}): give another --host or "
            "--port"
        ) from None
    return listener


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:  # a name
        return False
