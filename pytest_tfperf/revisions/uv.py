"""uv in pip's place: whether it is on PATH, and can be told all that pip is set to."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final

# uv doesn't read pip.conf and PIP_*, and a company's index must hold for it, too: a setting of pip -> the variable by
# which uv gets it, and what uv has between several values.
_FOR_UV: Final = {
    "index-url": ("UV_INDEX_URL", " "),
    "extra-index-url": ("UV_EXTRA_INDEX_URL", " "),
    "find-links": ("UV_FIND_LINKS", ","),
    "constraint": ("UV_CONSTRAINT", " "),
    "trusted-host": ("UV_INSECURE_HOST", " "),
    "cert": ("SSL_CERT_FILE", " "),
    "timeout": ("UV_HTTP_TIMEOUT", " "),
    "default-timeout": ("UV_HTTP_TIMEOUT", " "),
}
# Settings that don't change which packages pip installs.
_IGNORED: Final = frozenset(
    {
        "break-system-packages",
        "cache-dir",
        "config-file",
        "disable-pip-version-check",
        "no-cache-dir",
        "no-color",
        "no-input",
        "prefer-binary",
        "progress-bar",
        "quiet",
        "require-virtualenv",
        "retries",
        "root-user-action",
        "verbose",
    }
)
_SECTIONS: Final = ("global", "install", ":env:")  # the later one wins


@dataclass(frozen=True, slots=True)
class Uv:
    """uv, and how pip is set up here.

    Args:
        path: the program.
        variables: environment variables that tell it pip's settings.
    """

    path: str
    variables: Mapping[str, str]


def find_uv() -> Uv | None:
    """The uv on PATH; None without it, or where pip has settings that uv can't be told, such as a proxy.

    What the user set for uv itself counts more than what is set for pip.
    """
    path = shutil.which("uv")
    settings = _pip_settings() if path else None
    if path is None or settings is None or not settings.keys() <= _FOR_UV.keys() | _IGNORED:
        return None
    variables: dict[str, str] = {}
    if settings.keys() & {"extra-index-url", "find-links"}:  # as with pip, the version may be in any of them
        variables["UV_INDEX_STRATEGY"] = "unsafe-best-match"
    for name, value in settings.items():
        if name in _FOR_UV:
            variable, between = _FOR_UV[name]
            variables[variable] = between.join(value.split())
    return Uv(path, {name: value for name, value in variables.items() if name not in os.environ})


def _pip_settings() -> dict[str, str] | None:
    """What pip.conf and PIP_* set for `pip install`; None where pip can't read them.

    An environment without pip was made by uv, whose own settings hold.
    """
    if find_spec("pip") is None:
        return {}
    command = [sys.executable, "-m", "pip", "config", "list"]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    found = re.findall(rf"^({'|'.join(_SECTIONS)})\.([\w-]+)=(.+)$", done.stdout, re.MULTILINE)
    found.sort(key=lambda line: _SECTIONS.index(line[0]))
    return None if done.returncode else {name: str(ast.literal_eval(value)) for _, name, value in found}
