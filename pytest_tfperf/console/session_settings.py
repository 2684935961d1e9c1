"""The settings of a session in the current folder: environment variables, and pytest's ini file."""

from __future__ import annotations

import configparser
import os
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from pytest_tfperf.core.setting import Origin, RawSetting, Setting, T, variable
from pytest_tfperf.errors import TfperfError, worded

FILES: Final = ("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg")
"""The files in which pytest looks for its configuration, in its order."""


class IniFile(NamedTuple):
    """The file that pytest, called in a folder, reads its settings from."""

    path: Path  # its folder is pytest's `rootdir`
    values: Mapping[str, str]  # its settings for pytest

    def lines_for(self, settings: Mapping[str, str]) -> list[str]:
        """The lines of missing settings, below the section's header; [] if none is missing."""
        missing = {name: value for name, value in settings.items() if name not in self.values}
        quote = '"' if self.path.suffix == ".toml" else ""
        lines = [f"{name} = {quote}{value}{quote}" for name, value in missing.items()]
        return [_header(_text(self.path), self.path) or _headers(self.path)[0], *lines] if lines else []


def ini_file(start: Path) -> IniFile | None:
    """The nearest file with settings for pytest, from a folder upwards; None without any.

    Raises:
        TfperfError: a file that can't be read or parsed.
    """
    for path in (base / name for base in _upwards(start) for name in FILES):
        if not path.is_file():
            continue
        text = _text(path)
        values = _values(text, path)
        if values or path.stem.endswith("pytest") or _header(text, path):
            return IniFile(path, {name: str(value) for name, value in values.items()})
    return None


def _text(path: Path) -> str:
    with worded(path, "read", "Repair it, or name another folder"):
        return path.read_bytes().decode("utf-8")


def _values(text: str, path: Path) -> dict[str, Any]:
    """Pytest's settings in a file."""
    try:
        if path.suffix == ".toml":
            document = tomllib.loads(text)
            table = (document.get("tool", {}) if path.name == "pyproject.toml" else document).get("pytest", {})
            return dict(table.get("ini_options", table))
        parser = configparser.ConfigParser(interpolation=None, strict=True)
        parser.read_string(text)
    except (tomllib.TOMLDecodeError, configparser.Error) as error:
        raise TfperfError(f"{path} can't be parsed: {error}", next_step="Repair it first") from None
    section = _headers(path)[0].strip("[]")
    return dict(parser[section]) if parser.has_section(section) else {}


def _headers(path: Path) -> list[str]:
    """The possible headers of pytest's section in such a file."""
    if path.name == "pyproject.toml":
        return ["[tool.pytest.ini_options]", "[tool.pytest]"]
    return ["[tool:pytest]"] if path.name == "setup.cfg" else ["[pytest]"]


def _header(text: str, path: Path) -> str:
    """The header of pytest's section, as it stands in the file; "" without such a section."""
    wanted = _headers(path)
    return next((line for line in text.splitlines() if line.partition("#")[0].strip().replace(" ", "") in wanted), "")


def root() -> Path:
    """The folder from which paths start: pytest's `rootdir`, where pytest is called here without arguments.

    Raises:
        TfperfError: the file can't be read or parsed.
    """
    here = Path.cwd()
    if ini := _read(here):
        return ini.path.parent
    # As pytest's `determine_setup` chooses it: the nearest pyproject.toml, else the nearest setup.py.
    marked = (base for name in ("pyproject.toml", "setup.py") for base in _upwards(here) if (base / name).is_file())
    return next(marked, here)


def setting(wanted: Setting[T]) -> T:
    """The value of a setting: of its variable, else of its ini value, else its default.

    Raises:
        TfperfError: the value is empty or not allowed, or as `root`.
    """
    text, origin, file = os.environ.get(variable(wanted.name)), Origin.VARIABLE, ""
    if text is None and (ini := _read(Path.cwd())) is not None:
        text, origin, file = ini.values.get(f"tfperf_{wanted.name}"), Origin.INI_FILE, str(ini.path)
    value: T = wanted.default if text is None else RawSetting(wanted, origin, text, file).value
    return value


def folder_setting(wanted: Setting[Path]) -> Path:
    """A folder of the session, relative to the current folder where it lies below.

    Raises:
        TfperfError: as `setting`.
    """
    path = root() / setting(wanted)
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def forget() -> None:
    """Read the file again at the next use."""
    _read.cache_clear()


_read = cache(ini_file)  # each command reads several settings


def _upwards(folder: Path) -> tuple[Path, ...]:
    return folder, *folder.parents
