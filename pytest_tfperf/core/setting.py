"""A setting of the user's as a value, and the parsers of settings.

A parser's ValueError continues the message after the given text, as in "'x' must be ...".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from configparser import ConfigParser
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar, overload

from pytest_tfperf.errors import TfperfError
from pytest_tfperf.lines import shortened, without_passwords

if TYPE_CHECKING:
    from pytest_tfperf.core.settings import Settings

T = TypeVar("T")

DEFAULT: Final = "none"
"""The text that stands for a setting's default; it overrides the ini file for one session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting(Generic[T]):
    """A setting: an option, an environment variable `TFPERF_NAME` or an ini value `tfperf_NAME`.

    Those of the spine are attributes of `Settings`, those of a feature are listed in its `FEATURE`.
    """

    name: str = ""  # in Python's spelling, as in "fail_on_drift"; an attribute of `Settings` has that of the attribute
    default: T
    # makes the value from text; raises ValueError or TfperfError for text that is not allowed
    parse: Callable[[str], Any]
    help: str  # its text in `pytest --help`
    metavar: str | None = None  # the word for its value in the help
    # whether it is also an option `--tfperf-NAME`, as settings are that change from session to session
    is_option: bool = True
    of_one_session: bool = False  # whether rerun commands leave it out
    # whether it holds a password, so that no command may show it. CI systems set the variable of a secret to "" for
    # jobs that may not read it, so an empty variable then counts as unset.
    is_secret: bool = False
    is_output: bool = False  # whether it names where results go, for people or other programs to find them there
    # names of settings that can't be given together with it, and why
    excludes: Mapping[str, str] = field(default_factory=dict)

    def __set_name__(self, owner: object, name: str) -> None:
        """Take the name of the attribute."""
        object.__setattr__(self, "name", name)

    @overload
    def __get__(self, settings: None, owner: object) -> Self: ...
    @overload
    def __get__(self, settings: Settings, owner: object) -> T: ...
    def __get__(self, settings: Settings | None, owner: object) -> Any:
        """The value in a session, where the setting is an attribute of `Settings`."""
        return self if settings is None else settings.of(self)

    @property
    def spelled(self) -> str:
        """The setting as a message names it."""
        return f"--tfperf-{self.name.replace('_', '-')}" if self.is_option else f"tfperf_{self.name}"


def output_file(name: str, help: str, *, is_option: bool = True) -> Setting[Path | None]:
    """Return a setting that names the file which gets a session's result in some form."""
    return Setting(
        name=name,
        default=None,
        parse=file,
        help=help,
        metavar="PATH",
        is_option=is_option,
        of_one_session=True,
        is_output=True,
    )


class Origin(Enum):
    """Where a setting was given."""

    OPTION = "option"
    VARIABLE = "environment variable"
    OVERRIDE = "-o"
    INI_FILE = "ini file"


@dataclass(frozen=True, slots=True)
class RawSetting:
    """A setting that the user gave, before it is parsed; its str() names it in messages."""

    setting: Setting[Any]
    origin: Origin  # where it was given
    text: str
    file: str = ""  # pytest's ini file, where the value was given there

    def __str__(self) -> str:
        name = self.setting.name
        match self.origin:
            case Origin.OPTION:
                return self.setting.spelled
            case Origin.VARIABLE:
                return f"environment variable {variable(name)}"
            case Origin.OVERRIDE:
                return f"-o tfperf_{name}"
            case Origin.INI_FILE:
                return f"{self.file}: tfperf_{name}"

    @property
    def value(self) -> Any:
        """The parsed value.

        Raises:
            TfperfError: the text is empty or not allowed; names the setting and the allowed values.
        """
        if not self.text.strip():  # an unset variable in a CI file must not switch off what the file asks for
            raise TfperfError(
                f"{self} is empty: a shell or CI variable in it may not be set",
                next_step=f"Give a value, or leave it out; {DEFAULT} stands for the default",
            )
        if self.text == DEFAULT:
            return self.setting.default
        try:
            return self.setting.parse(self.text)
        except TfperfError as error:
            raise error.at(str(self)) from None
        except ValueError as error:
            raise TfperfError(f"{self}: {shortened(self.text)!r} {error}") from None


def variable(name: str) -> str:
    """Return the environment variable of a setting."""
    return f"TFPERF_{name.upper()}"


def _number(kind: type[int] | type[float], allows: Callable[[float], bool], says: str) -> Callable[[str], Any]:
    def parse(text: str) -> float:
        with suppress(ValueError):
            value = kind(text)
            if allows(value):
                return value
        raise ValueError(says)

    return parse


fraction = _number(float, lambda x: 0 <= x < 1, "must be a fraction from 0 to below 1, 0.4 for 40 %")
share = _number(float, lambda x: 0 < x <= 1, "must be a fraction above 0, up to 1, 0.4 for 40 %")
seconds = _number(float, lambda x: 0 < x <= 1e6, "must be above 0 and at most 1,000,000 seconds")
seconds_or_inf = _number(float, lambda x: x > 0, "must be above 0 seconds, or inf")


_SECONDS_OF = {"s": 1, "m": 60, "h": 3600}


def duration(text: str) -> float:
    """Parse "90s", "30m" or "1.5h" into seconds."""
    with suppress(ValueError, KeyError):
        seconds = float(text[:-1]) * _SECONDS_OF[text[-1:]]
        if 0 < seconds < inf:
            return seconds
    raise ValueError("must be a time above 0 with its unit: 90s, 30m or 1.5h")


def tolerance(text: str) -> float:
    """Parse a tolerance."""
    from pytest_tfperf.core.baseline import MOST_TOLERANCE  # not before a value is given: each pytest imports this file

    says = f"must be a fraction above 0, up to {MOST_TOLERANCE:g}, 0.05 for 5 %"
    given: float = _number(float, lambda x: 0 < x <= MOST_TOLERANCE, says)(text)
    return given


def count(least: int) -> Callable[[str], Any]:
    """Make a parser of whole numbers, `least` or more."""
    return _number(int, lambda n: n >= least, f"must be a whole number, {least} or more")


def flag(text: str) -> bool:
    """Parse an ini file's boolean: true or false, yes or no, on or off, 1 or 0."""
    try:
        return ConfigParser.BOOLEAN_STATES[text.lower()]
    except KeyError:
        raise ValueError("must be true or false") from None


def _path(kind: str) -> Callable[[str], Path]:
    """Make a parser of paths, in which `~` is the user's home."""

    def parse(text: str) -> Path:
        try:
            path = Path(text).expanduser()
        except RuntimeError:
            raise ValueError(f"must be a {kind}, and there is no such user's home") from None
        if without_passwords(text) != text:
            raise ValueError(f"must be a {kind}, and not a server's address with a password")
        return path

    return parse


folder, file = _path("folder"), _path("file")


def lines(text: str) -> tuple[str, ...]:
    """Parse the lines of a text; blank lines are left out."""
    return tuple(line.strip() for line in text.splitlines() if line.strip())


def owners(text: str) -> tuple[tuple[str, str], ...]:
    """Parse lines of a pattern of node ids and an owner."""
    pairs = [tuple(line.split(maxsplit=1)) for line in lines(text)]
    if any(len(pair) < 2 for pair in pairs):
        raise ValueError("must have a pattern of node ids and an owner in each line: perf_tests/test_bert.py* team-nlp")
    return tuple((pattern, owner) for pattern, owner in pairs)


def machine(text: str) -> str:
    """Check a machine's name."""
    from pytest_tfperf.core.topology import check_name  # as in `tolerance`

    check_name(text)
    return text
