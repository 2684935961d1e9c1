"""The URL of a team's history on a PostgreSQL server. Its password is never shown."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from pytest_tfperf.errors import TfperfError

VARIABLE: Final = "TFPERF_HISTORY_URL"
"""The environment variable for the URL: other users can read a process's arguments, but not its variables."""

_FORM: Final = "postgresql://USER@HOST:5432/DATABASE?sslmode=require"
_SECRET_PARAMETERS = ("password", "sslpassword")
_OF_NO_FOLDER: Final = re.compile(r"[=:;?%{]")  # as in host=h password=..., u:...@h/d


@dataclass(frozen=True, slots=True)
class HistoryUrl:
    """`postgresql://user:password@host:5432/database?sslmode=require`; as text it has neither user nor parameters.

    Raises:
        TfperfError: the URL is malformed; the message repeats nothing of it, because any part may belong to a password.
    """

    secret: str = field(repr=False)  # the whole URL, for the driver only

    def __post_init__(self) -> None:
        if not _is_complete(self.secret):
            raise TfperfError(
                f"the URL of a history must look like {_FORM}",
                next_step="In a password write special characters as %XX, @ as %40",
            )

    def __str__(self) -> str:
        parts = urlsplit(self.secret)
        return f"postgresql://{parts.netloc.rpartition('@')[2]}{parts.path}"

    def without_secrets(self, text: str) -> str:
        """Return a driver's message without this URL's passwords."""
        parts = urlsplit(self.secret)
        quoted = [parts.password or "", *re.findall(r"password=([^&]*)", parts.query)]
        parameters = [value for name, value in parse_qsl(parts.query) if name in _SECRET_PARAMETERS]
        for password in sorted({*quoted, *map(unquote, quoted), *parameters}, key=len, reverse=True):
            text = text.replace(password, "***") if password else text
        return text


def place_of(place: str | Path) -> Path | HistoryUrl:
    """Return the file or the server of the history for which a user named a folder or a URL.

    Raises:
        TfperfError: it is neither; the message repeats nothing of it, because other drivers' addresses hold passwords.
    """
    text = str(place)
    if "://" in text:
        return HistoryUrl(text)
    if _OF_NO_FOLDER.search(text) and not Path(text).is_dir():
        raise TfperfError(
            "the history is neither a folder that exists nor a server's URL",
            next_step=f"Name a folder, or a server as {_FORM}",
        )
    return Path(text) / "history.sqlite"


def _is_complete(text: str) -> bool:
    # After an unquoted "/", "?" or "#" the rest of a password would become a part of the URL that is shown.
    try:
        parts = urlsplit(text)
        has_port = parts.port is None or parts.port > 0  # `port` raises ValueError where it is no number
    except ValueError:
        return False
    # With two "@" the driver and we would disagree on where the password ends.
    is_clean = text.isprintable() and " " not in text and not parts.fragment and parts.netloc.count("@") < 2
    has_database = len(parts.path) > 1 and "@" not in parts.path + parts.query
    return parts.scheme in ("postgresql", "postgres") and has_port and is_clean and has_database
