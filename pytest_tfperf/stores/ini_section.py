"""Settings added to a project's own pytest configuration, which keeps its comments, order and other sections."""

from __future__ import annotations

import configparser
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pytest_tfperf.errors import TfperfError

FILES: Final = ("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg")
"""Where pytest looks for its configuration, in its order."""


def configuration(folder: Path) -> Path:
    """The file that pytest reads its configuration from; for a new section pyproject.toml, else pytest.ini.

    Raises:
        TfperfError: a file that can't be read or parsed.
    """
    for name in FILES:
        path = folder / name
        if path.is_file() and (path.stem.endswith("pytest") or _header(_text(path), path)):
            return path
    project = folder / "pyproject.toml"
    return project if project.is_file() else folder / "pytest.ini"


def settings_for(folder: Path) -> tuple[Path, dict[str, str]]:
    """The file that pytest, called in a folder, reads its settings from, and these; they are for `rootdir`, its folder.

    The nearest one counts, from the folder upwards. Without any the folder itself and no settings are returned.

    Raises:
        TfperfError: a file that can't be read or parsed.
    """
    for path in (base / name for base in (folder, *folder.parents) for name in FILES):
        if not path.is_file():
            continue
        text = _text(path)
        values = _values(text, path)
        if values or path.stem.endswith("pytest") or _header(text, path):
            return path.parent, {name: str(value) for name, value in values.items()}
    return folder, {}


def with_settings(path: Path, settings: Mapping[str, str]) -> str:
    """The text of a file with the settings that it lacks; the same text where it lacks none.

    Raises:
        TfperfError: the file can't be read or parsed, or its section has a form that lines can't be added to.
    """
    text = _text(path) if path.exists() else ""
    before = _values(text, path)
    missing = {name: value for name, value in settings.items() if name not in before}
    if not missing:
        return text
    is_toml = path.suffix == ".toml"
    lines = [f'{name} = "{value}"' if is_toml else f"{name} = {value}" for name, value in missing.items()]
    header = _header(text, path)
    new = _inserted(text, header, lines) if header else _appended(text, _headers(path)[0], lines)
    try:
        is_kept = _values(new, path) == before | missing
    except TfperfError:
        is_kept = False
    if not is_kept:
        raise TfperfError(f"{path}: its section for pytest has an unusual form. Add by hand:\n" + "\n".join(lines))
    return new


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TfperfError(f"{path} can't be read: {error}. Repair it, or name another folder") from None


def _values(text: str, path: Path) -> dict[str, Any]:
    """The settings of pytest in a file."""
    try:
        if path.suffix == ".toml":
            return _toml_values(tomllib.loads(text), path)
        parser = configparser.ConfigParser(interpolation=None, strict=True)
        parser.read_string(text)
    except (tomllib.TOMLDecodeError, configparser.Error) as error:
        raise TfperfError(f"{path} can't be parsed: {error}. Repair it first") from None
    section = _headers(path)[0].strip("[]")
    return dict(parser[section]) if parser.has_section(section) else {}


def _toml_values(document: dict[str, Any], path: Path) -> dict[str, Any]:
    table = document.get("tool", {}).get("pytest", {}) if path.name == "pyproject.toml" else document.get("pytest", {})
    return dict(table.get("ini_options", table))


def _headers(path: Path) -> list[str]:
    """The headers that may begin pytest's section in such a file; the first one is for a new section."""
    if path.name == "pyproject.toml":
        return ["[tool.pytest.ini_options]", "[tool.pytest]"]
    return ["[tool:pytest]"] if path.name == "setup.cfg" else ["[pytest]"]


def _header(text: str, path: Path) -> str:
    """The line that begins pytest's section, as it stands in the file; "" for none."""
    wanted = _headers(path)
    return next((line for line in text.splitlines() if line.partition("#")[0].strip().replace(" ", "") in wanted), "")


def _inserted(text: str, header: str, lines: list[str]) -> str:
    """The lines right below the header, with the file's own line ends."""
    end = "\r\n" if "\r\n" in text else "\n"
    found = text.splitlines(keepends=True)
    index = next(i for i, line in enumerate(found) if line.splitlines() == [header])
    found[index] = header + end
    return "".join([*found[: index + 1], *(line + end for line in lines), *found[index + 1 :]])


def _appended(text: str, header: str, lines: list[str]) -> str:
    end = "\r\n" if "\r\n" in text else "\n"
    gap = "" if not text else end if text.endswith("\n") else end * 2
    return text + gap + end.join([header, *lines]) + end
