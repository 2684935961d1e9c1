"""The lines of a report or an error as values, and their text for a terminal.

The text has no passwords of URLs, tokens or control characters, and no line is too long.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum, auto
from textwrap import wrap
from typing import Final, TypeVar

_HIDDEN: Final = "***"
_MOST: Final = 200  # characters of a value that a message repeats
_MOST_OF_A_LINE: Final = 2000  # characters of one line of an error
_GAP: Final = " ... "

# A program's output and a shared history may contain any text, so no pattern may take quadratic time.

# After "scheme://user:" comes a password or a port. A word ends at white space, or at the quote that ends a JSON
# string; a password with spaces continues to the next "@". `Path` leaves one slash of "://".
_LOGIN: Final = re.compile(
    r"""(?P<before>:/(?P<slash>/*)[^\s:/"\[]*:)"""
    r"""(?P<word>(?:\\.|"(?![\s,:\]}]|$)|[^\s"])+)"""
    r"""(?P<more>(?:[ ][^\s"@]+){1,8}@[^\s"]*)?""",
    re.MULTILINE,
)
_PORT: Final = re.compile(r"\d{1,5}(?!\w)")
# A login without "scheme://" before it, "user:password@host". Test ids have "::", images "name:tag@sha256:", and a
# training's log "mAP:0.5@0.75".
_BARE_LOGIN: Final = re.compile(
    r"""(?<![^\s"'=(,])((?:\w*//)?[\w.%+-]*(?::|%3A))(?!:|/|\d\.\d+@)[^\s"]*(?:@|%40)(?!sha256:)""", re.IGNORECASE
)
_TOKEN: Final = re.compile(
    # the user of an HTTP URL, which is a token as often as a name
    r"""(?P<before>(?i:https?):/{1,2})[^\s/?#"'<>\\]+(?=@)"""
    # of GitHub, GitLab, Hugging Face, Weights & Biases, OpenAI, NVIDIA, Amazon, Google, Slack, npm, PyPI
    r"|\b(?:gh[pousr]_\w{30,}|github_pat_\w{20,}|glpat-[\w-]{20,}|hf_[A-Za-z0-9]{30,}|wandb_v1_\w{20,}"
    r"|sk-(?=[\w-]{0,80}\d)[\w-]{20,}|nvapi-[\w-]{40,}|A(?:KI|SI)A[0-9A-Z]{16}\b|AIza[\w-]{35}|ya29\.[\w-]{20,}"
    r"|xox[a-z]-[\w-]{10,}|xapp-[\w-]{20,}|npm_\w{36}|pypi-[\w-]{40,}"
    r"|(?<![\w-])eyJ[\w-]{10,}+\.eyJ[\w-]{10,}(?:\.[\w-]+)?)",  # a JSON Web Token
    re.ASCII,
)
# Whoever knows these URLs can use them: hooks of Slack, Discord, Teams and Telegram, and signed addresses of files.
_SECRET_URL: Final = re.compile(
    r"""(?P<before>\b(?:hooks\.slack(?:-gov)?\.com|discord(?:app)?\.com/api/webhooks|webhook\.office\.com"""
    r"""|outlook\.office(?:365)?\.com/webhook|logic\.azure\.com(?::\d+)?|api\.telegram\.org)/"""
    r"""|[?&](?:[\w.-]{0,40}[-_])?(?:sig|signature|token|key|credential)=)[^\s"'<>()&#\\]+""",
    re.IGNORECASE,
)
_NAMED: Final = (
    r"(?:password|passwd|passphrase|(?<![A-Za-z])pwd(?![ \t]{0,9}[=:][ \t]{0,9}[/~$])|secret|authorization"
    r"|(?:api|access|account|private|secret|signing|encryption)[-_ ]?key"
    r"|(?:api|auth|access|bearer|bot|client|hub|hf|github|gitlab|private|refresh|session)[-_ ]?token)"
)
# The value ends where a list, a query, a connection string or a JSON string goes on. Words for "none" stay.
_VALUE: Final = (
    r"""(?!(?:none|null|true|false)(?![\w./+-]))"""
    r"""(?:(?P<quote>\\?["'])(?:(?!(?P=quote))(?:\\.|"(?![\s,:\]}]|$)|[^"\\\n]))++(?P=quote)?"""
    r"""|(?:\\.|["'),\]}](?![\s,:;)\]}"'&]|$)|[;&](?![\w. ]{0,40}=|\s|$)|[^\s"'),;&\\\]}])++)"""
)
# "--password secret", also as items of a list.
_OPTION: Final = r"(?<![\w-])--?(?:[\w-]{0,40}?[-_])?"
_NEXT_WORD: Final = r"""(?:[ \t]{1,9}(?!-)|\\?["'],[ \t]{0,9}(?=\\?["'](?!-)))"""
_PARAMETER: Final = re.compile(
    r"(?P<about>(?<![\w-])--?[\w-]{1,60}:[ ])"  # "argument --password: expected one argument"
    r"|(?P<before>"
    # "password: secret" of YAML, "password=secret" of libpq, ODBC and shells, "password": "secret" of JSON, itself
    # perhaps within JSON, and an HTTP header
    rf"""{_NAMED}(?P<key>\\?["'])?[ \t]{{0,9}}(?:=|:(?!:))[ \t]{{0,9}}"""
    r"""(?P<scheme>\\?["']?(?:bearer|basic|token|bot)[ ]{1,3})?"""
    rf"""|{_OPTION}{_NAMED}{_NEXT_WORD}"""
    rf"){_VALUE}",
    re.IGNORECASE | re.MULTILINE,
)
# A language model's tokens are no secrets: what is only called a token has to look like one, or to be a variable or an
# option with a value that is neither a number nor "<pad>".
_CALLED_TOKEN: Final = re.compile(
    r"""(?P<before>token\\?["']?[ \t]{0,9}(?:=|:(?!:))[ \t]{0,9}\\?["']?"""
    r"""|\bbearer[ ]{1,3}|\bwandb[ ]login[ ](?:--\w+[ ])?)"""
    r"""(?=[\w.+/=~-]{0,80}\d)(?=[\w.+/=~-]{0,80}[a-z])[\w.+/=~-]{12,}"""
    r"""|(?P<option>(?-i:(?<![a-z])TOKEN=)|"""
    rf"""{_OPTION}token(?:=|{_NEXT_WORD}))(?!\\?["']?(?:[<\[{{(]|[\d.]{{1,9}}(?!\w)))"""
    rf"{_VALUE}",
    re.IGNORECASE | re.MULTILINE,
)
_SECRETS: Final = ("pass", "pwd", "secret", "key", "token", "authorization", "bearer", "wandb")

# All control characters except line end and tab, and the characters that change the direction of writing or end a line
# for some readers.
_CONTROLS: Final = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]|\r(?!\n)"
)
# What a CI system obeys in a log: GitHub a line that begins with "::", and "##[" anywhere; Azure "##vso[", TeamCity
# "##teamcity[".
_COMMANDS: Final = re.compile(r"^(?P<indent>[^\S\n]*):(?=:)|#(?=#(?:vso|teamcity)?\[)", re.MULTILINE | re.IGNORECASE)
_LINE_ENDS: Final = re.compile(r"[\r\n]")
_BREAKS: Final = re.compile(r"[\t\r\n]")


def without_passwords(text: str) -> str:
    """Return the text with passwords, tokens and secret URLs as `***`; users, hosts and ports stay.

    >>> without_passwords("no such file: postgresql://ann:secret@db:5432/d?sslmode=require")
    'no such file: postgresql://ann:***@db:5432/d?sslmode=require'
    """
    if ":/" in text:
        text = _LOGIN.sub(_without_password, text)
    if "@" in text or "%40" in text:
        text = _BARE_LOGIN.sub(rf"\1{_HIDDEN}@", text)
    for pattern in (_TOKEN, _SECRET_URL):
        text = pattern.sub(_without_value, text)
    words = text.lower()
    if any(word in words for word in _SECRETS):
        text = _CALLED_TOKEN.sub(_without_value, _PARAMETER.sub(_without_value, text))
    return text


def printable(text: str) -> str:
    r"""Return the text for a terminal or a CI system's log: without passwords, and without what these would obey.

    Control characters become `\x1b`; line ends and tabs stay. A command to a CI system loses its first character:
    `\u003a:error::`. JSON stays JSON.
    """
    return _COMMANDS.sub(_disarmed, without_passwords(_CONTROLS.sub(_escaped, text)))


def one_line(text: str) -> str:
    r"""Return `printable` text for a table's cell, with line ends and tabs as `\n` and `\t`."""
    return printable(_BREAKS.sub(_escaped, text))


def shortened(value: object, most: int = _MOST) -> str:
    """Return a value for a message, without passwords, and without its middle where it is longer than `most`."""
    text = without_passwords(str(value))
    if len(text) <= most:
        return text
    head = (most - len(_GAP)) * 2 // 3
    return f"{text[:head]}{_GAP}{text[head + len(_GAP) - most :]}"


def short_lines(text: str) -> str:
    """Return an error's text with the middle of each long line left out; the next step at a line's end stays."""
    return "\n".join(shortened(line, _MOST_OF_A_LINE) for line in text.split("\n"))


def code_block(text: str) -> str:
    """Return `printable` text as a block of code in Markdown, which makes no link or mention and which nothing ends."""
    # A fence must have more backticks than any run of them in the text.
    fence = "`" * max(3, 1 + max(map(len, re.findall(r"`+", text)), default=0))
    return f"{fence}text\n{printable(text)}\n{fence}"


def _escaped(match: re.Match[str]) -> str:
    return repr(match[0])[1:-1]


def _disarmed(match: re.Match[str]) -> str:
    indent = match["indent"]
    return r"\u0023" if indent is None else rf"{indent}\u003a"


def _without_password(match: re.Match[str]) -> str:
    before, word, more = match["before"], match["word"], match["more"] or ""
    _, at, host = word.rpartition("@")
    if at:
        return f"{before}{_HIDDEN}@{host}{without_passwords(more)}"
    is_url = match["slash"] or match.string.endswith(("postgres", "postgresql"), 0, match.start())
    if not is_url or _PORT.match(word):  # no URL, but a path after a name, as in "data:/data:ro"
        return f"{before}{word}{without_passwords(more)}"
    # Without "@" the URL was cut off within its password.
    return f"{before}{_HIDDEN}{more[more.rfind('@') :]}" if more else f"{before}{_HIDDEN}"


def _without_value(match: re.Match[str]) -> str:
    groups = match.groupdict("")
    if groups.get("about"):
        return match[0]
    before, quote = groups.get("before") or groups.get("option", ""), groups.get("quote", "")
    if groups.get("key") and not quote and not groups["scheme"]:  # JSON's number, list or object
        value = match[0][len(before) :]
        quote = "" if value[0] in "[{" else groups["key"]
        return match[0] if not quote else f"{before}{quote}{_HIDDEN}{quote}"
    return f"{before}{quote}{_HIDDEN}{quote}"


_T = TypeVar("_T")

_BEGIN_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n")


def csv_cell(value: _T) -> _T | str:
    """Return a value for a CSV cell, in one line; what a spreadsheet would run as a formula gets a quote before it.

    >>> csv_cell("=cmd|'/c calc'!A1"), csv_cell("-1.5"), csv_cell(-1.5)
    ("'=cmd|'/c calc'!A1", '-1.5', -1.5)
    """
    if not isinstance(value, str):
        return value
    text = one_line(value)
    return f"'{text}" if value.startswith(_BEGIN_FORMULA) and not _is_number(value) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text.strip() == text


_TEXT_COLUMN: Final = 14  # where the texts behind labels begin
_HANGING: Final = 4
_LEAST: Final = 40  # a narrower terminal breaks the lines itself
_UNBROKEN: Final = "\u00a0"


class LineKind(Enum):
    """The kinds of lines, which are shown differently."""

    TEXT = auto()
    COMMAND = auto()  # never wrapped, so that it can be copied
    LOG = auto()  # of a log or a program's output: after a bar, never wrapped
    CI_COMMAND = auto()  # to a CI system, which obeys it; escaped by who made it, and never wrapped


@dataclass(frozen=True, slots=True)
class Line:
    r"""A line of a report or an error.

    It is one line whatever names from elsewhere it repeats: their line ends become `\n`.
    """

    text: str  # spaces at its beginning are its indent
    label: str | None = None  # its subject, in a column before the text; None for a line without this column
    kind: LineKind = LineKind.TEXT
    note: str = ""  # a remark in brackets behind a command

    def __post_init__(self) -> None:
        for name in ("text", "note"):
            object.__setattr__(self, name, _LINE_ENDS.sub(_escaped, getattr(self, name)))

    def __str__(self) -> str:
        note = f"    ({self.note})" if self.note else ""
        if self.kind is LineKind.LOG:
            return f"  | {self.text}"
        return f"{'' if self.label is None else f'  {self.label:<{_TEXT_COLUMN - 3}} '}{self.text}{note}"


def command(label: str, text: str, note: str = "") -> Line:
    """Make a line with a command to copy."""
    return Line(text, label, LineKind.COMMAND, note)


def lines_of(*texts: Line | str) -> Iterator[Line]:
    """Yield a line for each text."""
    for text in texts:
        yield text if isinstance(text, Line) else Line(text)


def plain(lines: Iterable[Line]) -> str:
    """Join the lines to a text without wrapping them."""
    return "\n".join(map(str, lines))


def rendered(lines: Iterable[Line | str], width: int | None, *, before: int = 0) -> list[str]:
    """Return the lines for a terminal, each of at most `width` characters; None for no limit.

    Wrapped texts stay in the column behind their labels. Commands and lines of a log are not wrapped, so that they can
    be copied. `before` is the length of the text that already stands before the first line.
    """
    safe = [_safe(line) for line in lines_of(*lines)]
    if width is None or width < _LEAST:
        return [str(line) for line in safe]
    return [part for number, line in enumerate(safe) for part in _wrapped(line, width, 0 if number else before)]


def _safe(line: Line) -> Line:
    if line.kind is LineKind.CI_COMMAND:
        return replace(line, text=_CONTROLS.sub(_escaped, without_passwords(line.text)))
    return replace(line, text=printable(line.text), note=printable(line.note))


def _wrapped(line: Line, width: int, before: int) -> list[str]:
    whole = str(line)
    if before + len(whole) <= width or line.kind in (LineKind.LOG, LineKind.CI_COMMAND):
        return [whole]
    if line.kind is LineKind.COMMAND:
        return [str(replace(line, note="")), *([f"{' ' * _TEXT_COLUMN}({line.note})"] if line.note else [])]
    first, *others = wrap(
        re.sub(r"(?<=\d) (?=%)", _UNBROKEN, whole),  # "5 %" is one word
        width,
        initial_indent="." * before,
        subsequent_indent=" " * (_TEXT_COLUMN if line.label else len(whole) - len(whole.lstrip()) + _HANGING),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [part.replace(_UNBROKEN, " ") for part in (first[before:], *others)]
