"""Where a server is, as a person writes it: ``URL`` or ``NAME=URL``."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_address

from tasc.errors import InputError
from tasc.options.references import parse_label

# Stricter than the standard, so that no two parsers can read two hosts in one text.
_URL = re.compile(
    r"https?://(\[[0-9a-f:.]+\]|[a-z0-9.-]+)(?::([0-9]{1,5}))?(/[\w.~/-]*)?", re.ASCII | re.I
)


@dataclass(frozen=True)
class Address:
    """A server's API."""

    label: str  # its name in reports; host and port where none was given
    url: str  # that of the API, without a last slash
    local: bool  # whether it is on this machine, whatever resolves names

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Read ``URL`` or ``NAME=URL``; a URL without a path is that of ``/v1``.

        Raises:
            InputError: it is no plain URL: names, passwords and queries are none.
        """
        label, url = parse_label(text)
        found = _URL.fullmatch(url)
        if found is None or int(found[2] or 0) > 65535:
            raise InputError(
                f"endpoint {text!r:.100} is no URL of a server: give one as "
                "http://127.0.0.1:8000/v1, without password or query"
            )
        path = (found[3] or "").rstrip("/")
        url = url.rstrip("/") if path else f"{url.rstrip('/')}/v1"
        return cls(label or url.split("/")[2], url, _is_loopback(found[1].strip("[]").lower()))


def check_reach(addresses: Iterable[Address], allow_remote: bool) -> None:
    """Raise InputError where one is on another machine and that was not allowed."""
    away = [address.label for address in addresses if not address.local]
    if away and not allow_remote:
        raise InputError(
            f"{', '.join(away)} is not on this machine: the task's prompts would leave it: "
            "add --allow-remote if they may"
        )


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:  # a name: what it resolves to may change
        return False
