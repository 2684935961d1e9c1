"""Requests with a token, or to a secret URL, neither of which goes to another host or into a message."""

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

from pytest_tfperf.core import plain_json
from pytest_tfperf.errors import TfperfError

if TYPE_CHECKING:
    from email.message import Message

_SECONDS: Final = 30.0
_MOST_BYTES: Final = 50_000_000
_MOST_REDIRECTS: Final = 5
_REDIRECTS: Final = (301, 302, 307, 308)
"""After these a server wants the same request again; urllib would send a GET, and lose what was posted."""


class NotPosted(TfperfError):
    """A server did not take what was sent to it."""


class Unavailable(NotPosted):
    """The server can't answer now; `seconds` is the pause that it asks for, None if it does not say."""

    def __init__(self, fact: object = "", *, seconds: float | None = None) -> None:
        NotPosted.__init__(self, fact)
        self.seconds = seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """A server that is asked with a token, or at a URL that only its users know."""

    variable: str = ""  # the environment variable that holds the token; "" where there is none
    secret: str = field(default="", repr=False)  # the token
    headers: Mapping[str, str] = field(default_factory=dict)  # of each request; {token} stands for the token
    wish: str = ""  # what the token is for, as in "write comments"
    seconds: float = _SECONDS  # the longest that a request waits for the server

    def __post_init__(self) -> None:
        if not self.variable:
            return
        token = self.secret.strip()  # a token read from a file ends with a newline
        if not token:
            raise NotPosted(f"the variable {self.variable} is not set")
        if not (token.isascii() and token.isprintable()) or " " in token:
            raise NotPosted(f"the variable {self.variable} holds a blank or another character that no token has")
        object.__setattr__(self, "secret", token)

    def ask(self, method: str, url: str, body: Mapping[str, object] | None = None) -> Any:
        """Send a request and return the JSON of the answer.

        Raises:
            NotPosted: the server refuses, redirects to another host, or answers with something else than JSON.
            Unavailable: the server fails, limits the rate or can't be reached.
        """
        try:
            return plain_json.from_json(self._answer(method, url, body))
        except ValueError:
            raise NotPosted(f"{host(url)} answers with something else than JSON") from None

    def post(self, url: str, body: Mapping[str, object]) -> None:
        """Post JSON to a server that may answer with nothing, or with any text but a web page.

        Raises:
            NotPosted, Unavailable: as `ask`.
        """
        if self._answer("POST", url, body).lstrip().startswith(b"<"):
            raise NotPosted(f"{host(url)} answers with a web page, as it does where one has to sign in")

    def _answer(self, method: str, url: str, body: Mapping[str, object] | None) -> bytes:
        for _ in range(_MOST_REDIRECTS):
            try:
                with self._send(method, url, body) as response:
                    return self._read(response, url)
            except HTTPError as error:
                with error:
                    if error.code not in _REDIRECTS:
                        raise self._refusal(error, url) from None
                    url = _redirect_target(url, error)
            except (OSError, HTTPException, ValueError) as error:
                reason = getattr(error, "reason", error)
                why = f"{getattr(reason, 'strerror', None) or reason or type(reason).__name__}"
                raise Unavailable(f"{host(url)} does not answer: {self._shown(why, url)}") from None
        raise NotPosted(f"{host(url)} redirects again and again")

    def _send(self, method: str, url: str, body: Mapping[str, object] | None) -> HTTPResponse:
        if urlsplit(url).scheme not in ("http", "https"):
            raise NotPosted(f"{host(url)} is no address of a server")
        if "@" in urlsplit(url).netloc:
            raise NotPosted(f"the URL of {host(url)} has a user or a password, which no request sends")
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
        response: HTTPResponse = build_opener(_NoRedirect).open(request, timeout=self.seconds)
        return response

    def _read(self, response: HTTPResponse, url: str) -> bytes:
        """Read an answer, which may come slowly, but not for ever."""
        content, end = bytearray(), time.monotonic() + self.seconds
        while chunk := response.read1(2**16):
            content += chunk
            if len(content) > _MOST_BYTES or time.monotonic() > end:
                raise Unavailable(f"the answer of {host(url)} does not end")
        return bytes(content)

    def _refusal(self, error: HTTPError, url: str) -> NotPosted:
        status = f"{error.code} {self._shown(error.reason, url)}"
        after = error.headers.get("Retry-After", "")
        if error.code == 429 or (error.code == 403 and (after or error.headers.get("X-RateLimit-Remaining") == "0")):
            seconds = float(after) if after.isdecimal() else None
            return Unavailable(f"{host(url)} takes no more requests for now ({status})", seconds=seconds)
        if error.code >= 500:
            return Unavailable(f"{host(url)} fails ({status})")
        if error.code in (401, 403, 404) and self.variable:
            return NotPosted(f"the token may not {self.wish} here ({status})")
        return NotPosted(f"{host(url)} refuses it ({status})")

    def _shown(self, text: str, url: str) -> str:
        """Return a server's or a library's text without the token and the path, which either may repeat."""
        for secret in (self.secret, *urlsplit(url)[2:4]):
            text = text.replace(secret, "***") if len(secret) > len("/v1") else text
        return text


class _NoRedirect(HTTPRedirectHandler):
    def redirect_request(self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str) -> None:
        """Follow no redirect: urllib would send the token to any host."""


def _redirect_target(url: str, error: HTTPError) -> str:
    target = urljoin(url, error.headers.get("Location", ""))
    if urlsplit(target)[:2] != urlsplit(url)[:2]:
        raise NotPosted(f"{host(url)} redirects to {host(target)}, and the request goes to no other host")
    return target


def host(url: str) -> str:
    """Return the scheme and host of a URL, without user, password and path."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
