"""The URL of a team's history: a git branch, a folder, an object store or a PostgreSQL server. It shows no secret."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from pytest_tfperf.errors import TfperfError

VARIABLE: Final = "TFPERF_HISTORY_URL"
"""The environment variable for the URL: other users can read a process's arguments, but not its variables."""

BRANCH: Final = "tfperf-history"
"""The branch of a git repository whose URL names none."""

_FORMS: Final = (
    "git+https://HOST/REPOSITORY#BRANCH, git+ssh://..., git+file:///..., git+., a folder, s3://BUCKET/FOLDER, "
    "gs://..., az://..., sftp://... or postgresql://USER@HOST:5432/DATABASE"
)
_SECRET_PARAMETERS = ("password", "sslpassword")
_OF_NO_FOLDER: Final = re.compile(r"[=:;?%{]")  # as in host=h password=..., u:...@h/d
_SCHEME: Final = re.compile(r"(?P<git>git\+)?(?P<name>[a-z][a-z0-9.+-]*)://")
_GIT_SCHEMES: Final = ("ssh", "https", "file")  # git's own "ext::" would run a command; "http" hides nothing
_BRANCH: Final = re.compile(r"(?!-)(?!.*\.\.)[\w./+-]+", re.ASCII)


class Kind(Enum):
    """The kinds of places for a team's history."""

    GIT = auto()
    FOLDER = auto()
    STORE = auto()  # any other address that fsspec has a file system for
    POSTGRESQL = auto()


@dataclass(frozen=True, slots=True)
class HistoryUrl:
    """`git+https://host/repository#branch`, a folder, `s3://bucket/folder` or `postgresql://user:password@host/database`.

    As text it has neither user nor parameters.

    Raises:
        TfperfError: the URL is malformed; the message repeats nothing of it, because any part may belong to a password.
    """

    secret: str = field(repr=False)  # the whole URL, for drivers only

    def __post_init__(self) -> None:
        if not _is_complete(self):
            raise TfperfError(
                f"the URL of a history must look like {_FORMS}",
                next_step="In a password write special characters as %XX, @ as %40; a folder with such a character in "
                "its name must exist",
            )

    @property
    def kind(self) -> Kind:
        """The kind of place."""
        scheme = _SCHEME.match(self.secret)
        if self.secret.startswith("git+"):
            return Kind.GIT
        if scheme is None or scheme["name"] == "file":
            return Kind.FOLDER
        return Kind.POSTGRESQL if scheme["name"] in ("postgresql", "postgres") else Kind.STORE

    @property
    def address(self) -> str:
        """The address for the driver, secrets included: for git without `git+` and branch, for a folder its path."""
        if self.kind is Kind.GIT:
            return self.secret.removeprefix("git+").partition("#")[0]
        if self.kind is Kind.FOLDER:
            is_url = self.secret.startswith("file://")
            return unquote(self.secret.removeprefix("file://")) if is_url else self.secret
        return self.secret

    @property
    def branch(self) -> str:
        """The branch of a git repository."""
        return self.secret.partition("#")[2] or BRANCH

    def __str__(self) -> str:
        if "://" not in self.secret:
            return self.secret
        parts = urlsplit(self.secret)
        branch = f"#{parts.fragment}" if parts.fragment else ""
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}{branch}"

    def without_secrets(self, text: str) -> str:
        """Return a driver's message without this URL's passwords."""
        if "://" not in self.secret:
            return text
        parts = urlsplit(self.secret)
        quoted = [parts.password or "", *re.findall(r"password=([^&]*)", parts.query)]
        if parts.scheme == "git+https" and parts.password is None:
            quoted.append(parts.username or "")  # code hosts take a token as the user
        parameters = [value for name, value in parse_qsl(parts.query) if name in _SECRET_PARAMETERS]
        for password in sorted({*quoted, *map(unquote, quoted), *parameters}, key=len, reverse=True):
            text = text.replace(password, "***") if password else text
        return text


def _is_complete(url: HistoryUrl) -> bool:
    text = url.secret
    if not text.isprintable() or not text:
        return False
    if url.kind is Kind.FOLDER:
        return is_folder(text)
    if url.kind is Kind.GIT and url.address == ".":
        return _BRANCH.fullmatch(url.branch) is not None
    # After an unquoted "/", "?" or "#" the rest of a password would become a part of the URL that is shown.
    try:
        parts = urlsplit(url.address)
        has_port = parts.port is None or parts.port > 0  # `port` raises ValueError where it is no number
    except ValueError:
        return False
    # With two "@" the driver and we would disagree on where the password ends.
    is_clean = (
        " " not in text and not parts.fragment and parts.netloc.count("@") < 2 and "@" not in parts.path + parts.query
    )
    return has_port and is_clean and _names_a_place(url, parts)


def is_folder(text: str) -> bool:
    """Whether a text is a folder's path or `file://` URL, and no address of a driver, which may hold a password."""
    if text.startswith("file://"):
        return text.startswith("file:///") and not re.search(r"[?#@]", text)
    if text.startswith("-") or _SCHEME.match(text):
        return False
    return not _OF_NO_FOLDER.search(text) or Path(text).is_dir()


def _names_a_place(url: HistoryUrl, parts: SplitResult) -> bool:
    """Whether host and path are what this kind needs."""
    has_path = len(parts.path) > 1
    if url.kind is Kind.POSTGRESQL:
        return has_path and not re.search("%(?![0-9A-Fa-f]{2})|%00", url.secret)  # libpq would repeat the wrong part
    # Programs that get them, such as ssh, would take a leading "-" for an option.
    host = unquote(parts.netloc.rpartition("@")[2])
    has_option = any(part.startswith("-") for part in (host, parts.netloc, unquote(parts.path).lstrip("/")))
    if has_option or parts.query:
        return False
    if url.kind is Kind.GIT:
        is_known = parts.scheme in _GIT_SCHEMES and bool(host) == (parts.scheme != "file")
        return is_known and has_path and _BRANCH.fullmatch(url.branch) is not None
    # A repository's address without "git+" is far more often meant than a server that takes uploads.
    return parts.scheme not in ("http", "https", "ssh", "git") and "::" not in url.secret and bool(host or has_path)
