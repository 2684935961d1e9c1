"""The channels that the ini value `tfperf_notify` names, one a line."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from pytest_tfperf.errors import TfperfError, known_names, unknown

_LINE: Final = re.compile(r"(?:owner=(\S+)\s*)?(\S*)\s*(.*)")
_VARIABLE: Final = re.compile(r"\$[A-Za-z_]\w*", re.ASCII)
_PROJECT: Final = re.compile(r"\w[\w.-]*(/\w[\w.-]*)+|\d+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Channel:
    """A way to people; as text it has nothing of a URL but its host, and of a command nothing but its program."""

    kind: str  # "webhook", "slack", "teams", "github", "gitlab" or "command"
    target: str = field(repr=False)  # a URL or the variable that holds it, "$TFPERF_WEBHOOK"; a project; or a command
    owner: str = ""  # whose events it gets; "" for those of all owners without a channel of their own

    def __str__(self) -> str:
        if self.kind == "command":
            return f"{self._prefix}{shlex.split(self.target)[0]}"
        return f"{self._prefix}{self.target if self._is_public else urlsplit(self.target).netloc.rpartition('@')[2]}"

    @property
    def key(self) -> str:
        """The channel's name in files, which shows no secret."""
        digest = hashlib.sha256(self.target.encode()).hexdigest()[:16]
        return f"{self._prefix}{self.target if self._is_public else digest}"

    @property
    def _prefix(self) -> str:
        return f"{f'owner={self.owner} ' if self.owner else ''}{self.kind} "

    @property
    def _is_public(self) -> bool:
        return self.target.startswith("$") or self.kind in ("github", "gitlab")

    def url(self, variables: Mapping[str, str]) -> str:
        """Return the URL of a webhook.

        Raises:
            TfperfError: its variable is not set, or holds no URL.
        """
        name = self.target.removeprefix("$")
        url = variables.get(name, "").strip() if self._is_public else self.target
        if not _is_url(url):
            raise TfperfError(f"the variable {name} {'holds no URL of a server' if url else 'is not set'}")
        if _has_login(url):
            raise TfperfError(f"the variable {name} holds {_LOGIN}", next_step=_WITHOUT_LOGIN)
        return url


def channels(text: str) -> tuple[Channel, ...]:
    """Parse the lines of the ini value.

    Raises:
        TfperfError: a line names no channel; the message repeats nothing that may be secret.
    """
    found: list[Channel] = []
    for number, line in enumerate(filter(str.strip, text.splitlines()), 1):
        channel = _channel(line.strip(), f"line {number}")
        if channel in found:
            raise TfperfError(f"line {number} names {channel} again", next_step="Delete it")
        found.append(channel)
    return tuple(found)


def _channel(line: str, where: str) -> Channel:
    owner, kind, target = _LINE.fullmatch(line).groups("")  # type: ignore[union-attr]  # it matches any line
    if kind not in _TARGETS:
        name = kind if kind.isalpha() else "***"  # it may be a URL
        raise TfperfError(f"{where}: {unknown('channel', name)}", next_step=known_names(name, _TARGETS))
    is_right, form = _TARGETS[kind]
    if not is_right(target):
        raise TfperfError(f"{where}: {kind} must be followed by {form}")
    if kind in _WEBHOOKS and _has_login(target):
        raise TfperfError(f"{where}: {kind} is followed by {_LOGIN}", next_step=_WITHOUT_LOGIN)
    return Channel(kind, target, owner)


def _is_url(text: str) -> bool:
    with suppress(ValueError):  # a port that is no number
        parts = urlsplit(text)
        has_host = parts.scheme in ("https", "http") and bool(parts.hostname) and parts.port != 0
        return has_host and text.isascii() and text.isprintable() and " " not in text
    return False


def _has_login(url: str) -> bool:
    return "@" in urlsplit(url).netloc


def _is_command(text: str) -> bool:
    with suppress(ValueError):  # a quote is missing
        return bool(shlex.split(text))
    return False


_WEBHOOKS: Final = ("webhook", "slack", "teams")
_LOGIN: Final = "a URL with a user or a password, which no request sends"
_WITHOUT_LOGIN: Final = (
    "Leave them out, and put a secret into the URL's path or query; or let a program log in: command curl -sS --fail "
    "--netrc --json @- https://..."
)
_WEBHOOK: Final[tuple[Callable[[str], object], str]] = (
    lambda text: _VARIABLE.fullmatch(text) or _is_url(text),
    "a variable that holds its URL, as in $TFPERF_WEBHOOK, or by its URL, https://...",
)
_TARGETS: Final[Mapping[str, tuple[Callable[[str], object], str]]] = {
    **dict.fromkeys(_WEBHOOKS, _WEBHOOK),
    "github": (lambda text: text.count("/") == 1 and _PROJECT.fullmatch(text), "OWNER/REPO"),
    "gitlab": (_PROJECT.fullmatch, "GROUP/PROJECT, or the project's number"),
    "command": (_is_command, "PROGRAM ARGUMENTS, quoted as in a shell"),
}
