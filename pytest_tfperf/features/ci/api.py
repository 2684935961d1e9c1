"""Requests to a CI system's API, with a token that goes to no other host and into no message."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPResponse
from typing import IO, TYPE_CHECKING, Any, Final
from urllib.error import HTTPError
from urllib.parse import urljoin, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from pytest_tfperf.core import bounded_decoding
from pytest_tfperf.errors import TfperfError

if TYPE_CHECKING:
    from email.message import Message

_SECONDS: Final = 30.0
_MOST_BYTES: Final = 50_000_000
_MOST_REDIRECTS: Final = 5
_REDIRECTS: Final = (301, 302, 307, 308)
"""After these both APIs want the same request again; urllib would send a GET, and lose the comment."""


class NotPosted(TfperfError):
    """The comment can't be written from here; the job's summary has the same."""


class Unavailable(NotPosted):
    """The server can't answer now.

    Args:
        fact: why.
        seconds: the pause that the server asks for; None if it does not say.
    """

    def __init__(self, fact: object = "", *, seconds: float | None = None) -> None:
        NotPosted.__init__(self, fact)
        self.seconds = seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """A CI system's API, used with a token.

    Args:
        variable: the environment variable that holds the token.
        secret: the token.
        headers: of each request; {token} stands for the token.
    """

    variable: str
    secret: str = field(repr=False)
    headers: Mapping[str, str]

    def __post_init__(self) -> None:
        token = self.secret.strip()  # a token read from a file ends with a newline
        if not token:
            raise NotPosted(f"the variable {self.variable} is not set")
        if not (token.isascii() and token.isprintable()) or " " in token:
            raise NotPosted(f"the variable {self.variable} holds a blank or another character that no token has")
        object.__setattr__(self, "secret", token)

    def ask(self, method: str, url: str, body: Mapping[str, str] | None = None) -> Any:
        """Send a request and return the JSON of the answer.

        Raises:
            NotPosted: the server refuses, redirects to another host, or answers with something else than JSON.
            Unavailable: the server fails, limits the rate or can't be reached.
        """
        for _ in range(_MOST_REDIRECTS):
            try:
                with self._send(method, url, body) as response:
                    return _parse(response, url)
            except HTTPError as error:
                with error:
                    if error.code not in _REDIRECTS:
                        raise _refusal(error, url) from None
                    url = _redirect_target(url, error)
            except (OSError, HTTPException, ValueError) as error:
                reason = getattr(error, "reason", error)
                why = f"{getattr(reason, 'strerror', None) or reason or type(reason).__name__}"
                raise Unavailable(f"{_host(url)} does not answer: {why.replace(self.secret, '***')}") from None
        raise NotPosted(f"{_host(url)} redirects again and again")

    def _send(self, method: str, url: str, body: Mapping[str, str] | None) -> HTTPResponse:
        if urlsplit(url).scheme not in ("http", "https"):
            raise NotPosted(f"{_host(url)} is no address of a server")
        request = Request(
            url,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Content-Type": "application/json",
                "User-Agent": "pytest-tfperf",
                **{name: text.format(token=self.secret) for name, text in self.headers.items()},
            },
        )
        response: HTTPResponse = build_opener(_NoRedirect).open(request, timeout=_SECONDS)
        return response


class _NoRedirect(HTTPRedirectHandler):
    def redirect_request(self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str) -> None:
        """Follow no redirect: urllib would send the token to any host."""


def _parse(response: HTTPResponse, url: str) -> Any:
    """Read the JSON of an answer, which may come slowly, but not for ever."""
    content, end = bytearray(), time.monotonic() + _SECONDS
    while chunk := response.read1(2**16):
        content += chunk
        if len(content) > _MOST_BYTES or time.monotonic() > end:
            raise Unavailable(f"the answer of {_host(url)} does not end")
    try:
        return bounded_decoding.from_json(bytes(content))
    except ValueError:
        raise NotPosted(f"{_host(url)} answers with something else than JSON") from None


def _refusal(error: HTTPError, url: str) -> NotPosted:
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


def _redirect_target(url: str, error: HTTPError) -> str:
    target = urljoin(url, error.headers.get("Location", ""))
    if urlsplit(target)[:2] != urlsplit(url)[:2]:
        raise NotPosted(f"{_host(url)} redirects to {_host(target)}, and the token goes to no other host")
    return target


def _host(url: str) -> str:
    """Return the scheme and host of a URL, without user and password."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
