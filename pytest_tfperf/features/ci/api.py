"""Requests to a CI system's API, with a token that goes to no other host and into no message."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPResponse
from typing import IO, TYPE_CHECKING, Any, Final
from urllib.parse import urljoin, urlsplit

from pytest_tfperf.errors import TfperfError

if TYPE_CHECKING:
    from email.message import Message
    from urllib.error import HTTPError

_SECONDS: Final = 30.0
_MOST_BYTES: Final = 50_000_000
_MOST_REDIRECTS: Final = 5
_REPEATED: Final = (301, 302, 307, 308)
"""The redirects after which both APIs want the same request again; urllib would send a GET, and lose the comment."""


class NotPosted(TfperfError):
    """The comment can't be written from here; the job's summary has the same."""


class Unavailable(NotPosted):
    """The server can't answer now.

    Args:
        fact: why.
        seconds: after which it may, as it says itself; None where it does not say.
    """

    def __init__(self, fact: object = "", *, seconds: float | None = None) -> None:
        NotPosted.__init__(self, fact)
        self.seconds = seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """One token of one CI system.

    Args:
        variable: the environment variable that holds the token.
        secret: its text.
        headers: of each request; {token} stands for the token.
    """

    variable: str
    secret: str = field(repr=False)
    headers: Mapping[str, str]

    def __post_init__(self) -> None:
        token = self.secret.strip()  # a file that it was read from ends with a line end
        if not token:
            raise NotPosted(f"the variable {self.variable} is not set")
        if not (token.isascii() and token.isprintable()) or " " in token:
            raise NotPosted(f"the variable {self.variable} holds a blank or another character that no token has")
        object.__setattr__(self, "secret", token)

    def ask(self, method: str, url: str, body: Mapping[str, str] | None = None) -> Any:
        """The answer's JSON.

        Raises:
            NotPosted: the server refuses, redirects to another host, or answers with something else than JSON.
            Unavailable: it fails, limits the rate or can't be reached.
        """
        import urllib.error

        for _ in range(_MOST_REDIRECTS):
            try:
                with self._sent(method, url, body) as response:
                    return _parsed(response, url)
            except urllib.error.HTTPError as error:
                with error:
                    if error.code not in _REPEATED:
                        raise _refusal(error, url) from None
                    url = _moved(url, error)
            except (OSError, HTTPException, ValueError) as error:
                reason = getattr(error, "reason", error)
                said = f"{getattr(reason, 'strerror', None) or reason or type(reason).__name__}"
                raise Unavailable(f"{_host(url)} does not answer: {said.replace(self.secret, '***')}") from None
        raise NotPosted(f"{_host(url)} redirects again and again")

    def _sent(self, method: str, url: str, body: Mapping[str, str] | None) -> HTTPResponse:
        import urllib.request  # imports ssl, which no other command needs

        class NoRedirect(urllib.request.HTTPRedirectHandler):
            def redirect_request(
                self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
            ) -> None:
                """Follow none: urllib would send the token to any host."""

        if urlsplit(url).scheme not in ("http", "https"):
            raise NotPosted(f"{_host(url)} is no address of a server")
        request = urllib.request.Request(
            url,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Content-Type": "application/json",
                "User-Agent": "pytest-tfperf",
                **{name: text.format(token=self.secret) for name, text in self.headers.items()},
            },
        )
        opened: HTTPResponse = urllib.request.build_opener(NoRedirect).open(request, timeout=_SECONDS)
        return opened


def _parsed(response: HTTPResponse, url: str) -> Any:
    """The JSON of an answer, which may come slowly, but not for ever."""
    read, end = bytearray(), time.monotonic() + _SECONDS
    while chunk := response.read1(2**16):
        read += chunk
        if len(read) > _MOST_BYTES or time.monotonic() > end:
            raise Unavailable(f"the answer of {_host(url)} does not end")
    try:
        return json.loads(read)
    except (ValueError, RecursionError):
        raise NotPosted(f"{_host(url)} answers with something else than JSON") from None


def _refusal(error: HTTPError, url: str) -> NotPosted:
    """What an error status means."""
    status = f"{error.code} {error.reason}"
    after = error.headers.get("Retry-After", "")
    if error.code == 429 or (error.code == 403 and (after or error.headers.get("X-RateLimit-Remaining") == "0")):
        seconds = float(after) if after.isdecimal() else None
        return Unavailable(f"{_host(url)} takes no more requests for now ({status})", seconds=seconds)
    if error.code >= 500:
        return Unavailable(f"{_host(url)} fails ({status})")
    if error.code in (401, 403, 404):
        return NotPosted(f"the token may not write comments here ({status})")
    return NotPosted(f"{_host(url)} refuses it ({status})")


def _moved(url: str, error: HTTPError) -> str:
    """Where a redirect leads, on the same host."""
    there = urljoin(url, error.headers.get("Location", ""))
    if urlsplit(there)[:2] != urlsplit(url)[:2]:
        raise NotPosted(f"{_host(url)} redirects to {_host(there)}, and the token goes to no other host")
    return there


def _host(url: str) -> str:
    """The server of a URL as a message names it."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
