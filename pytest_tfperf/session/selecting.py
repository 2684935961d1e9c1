"""Which collected tests are throughput tests, whom they belong to, and which of them run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache, cached_property
from pathlib import Path
from shlex import quote
from typing import Any, Final

import pytest

from pytest_tfperf.core.rerun_command import recording_option
from pytest_tfperf.core.selection import SelectedTest
from pytest_tfperf.core.settings import Settings, Update
from pytest_tfperf.errors import TfperfError, known_names
from pytest_tfperf.session.state import SESSION, SessionState, is_xdist_worker
from pytest_tfperf.workers import catalogue


def selected(item: pytest.Item) -> bool:
    """Whether a test asks for our fixture `throughput`, perhaps through one of its project that overrides it.

    A project may use the name for a fixture or a parameter of its own.
    """
    if "throughput" not in getattr(item, "fixturenames", ()):
        return False
    found: Any = getattr(item, "_fixtureinfo", None)  # pytest has no public name
    for definition in reversed(found.name2fixturedefs.get("throughput", ()) if found else ()):
        if definition.func.__module__ == "pytest_tfperf.plugin":
            return True
        if "throughput" not in definition.argnames:
            return False
    return False


def collected_whole(config: pytest.Config, items: Iterable[pytest.Item]) -> frozenset[str]:
    """The node ids of tests in files that were collected whole; none under `--lf`, which leaves out tests silently."""
    if config.getoption("lf", False):
        return frozenset()
    folder = config.invocation_params.dir
    in_part = {(folder / argument.partition("::")[0]).resolve() for argument in config.args if "::" in argument}
    return frozenset(item.nodeid for item in items if not in_part or item.path.resolve() not in in_part)


def selected_tests(items: Iterable[pytest.Item], owners: Owners) -> dict[str, SelectedTest]:
    """The throughput tests among `items`, by node id.

    Raises:
        TfperfError: a mark `owner` names nobody.
    """
    return {
        item.nodeid: SelectedTest(
            id=item.nodeid,
            cpu=item.get_closest_marker("cpu") is not None,
            gpu=item.get_closest_marker("gpu") is not None,
            reads_data=_reads_data(item, owners.settings.input_pipeline),
            file=item.location[0],
            line=(item.location[1] or 0) + 1,
            faults=tuple(faults(_parameters(item))),
            owner=owners.of(item),
        )
        for item in items
        if selected(item)
    }


def keep_failed(config: pytest.Config, items: list[pytest.Item], state: SessionState) -> None:
    """Under --update-baselines=failed, deselect tests that did not fail last time, by pytest's own list behind `--lf`.

    Raises:
        pytest.UsageError: pytest's cache plugin is switched off.
    """
    if state.settings.update_baselines is not Update.FAILED:
        return
    cache = getattr(config, "cache", None)
    if cache is None:
        raise pytest.UsageError(f"{recording_option()}=failed needs pytest's cache plugin, which is switched off")
    failed = cache.get("cache/lastfailed", {})
    kept = [item for item in items if item.nodeid in failed]
    if items and not kept:
        last = f"none of the {len(failed)} that failed last time is selected" if failed else "no test failed last time"
        state.remarks.append(
            f"{recording_option()}=failed: {last}, by pytest's cache (the one behind --lf). "
            f"{recording_option()} records every selected test"
        )
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in failed])
    items[:] = kept


def _parameters(item: pytest.Item) -> Mapping[str, Any]:
    return item.callspec.params if hasattr(item, "callspec") else {}


def _reads_data(item: pytest.Item, default: str) -> bool:
    """Whether a test's parameters, or the default pipeline where it has none, name a pipeline that reads a data set."""
    from pytest_tfperf.core.workload import Workload  # not at the top: each pytest imports this file

    params = _parameters(item)
    names = [value.input_pipeline for value in params.values() if isinstance(value, Workload)]
    if "input_pipeline" in getattr(item, "fixturenames", ()):
        names.append(params.get("input_pipeline", default))
    known = [name for name in names if isinstance(name, str) and not faults({"input_pipeline": name})]
    return any(catalogue.data_set_of(name) for name in known)


_DESELECTING = {"-m": "markexpr", "-k": "keyword", "--deselect": "deselect", "--lf": "lf", "--sw": "stepwise"}
"""pytest's options that deselect tests, and the names of their values."""


def note_deselected(config: pytest.Config, items: Iterable[pytest.Item]) -> None:
    """Remember deselected throughput tests. pytest does not say which of its options deselected them."""
    if is_xdist_worker(config):
        return
    given = {option: config.getoption(name, None) for option, name in _DESELECTING.items()}
    words = [
        f"{option} {quote(value)}" if isinstance(value, str) else option for option, value in given.items() if value
    ]
    state = config.stash[SESSION]
    words += [f"--tfperf-owner={quote(state.settings.owner)}"] if state.settings.owner else []
    words += [f"{recording_option()}=failed"] if state.settings.update_baselines is Update.FAILED else []
    why = f"deselected by {' or '.join(words) or 'a plugin or a conftest.py'}"
    state.unselected |= {item.nodeid: why for item in items if selected(item)}


def note_skipped(report: pytest.TestReport, state: SessionState) -> None:
    """Remember a skipped throughput test. A test that fails as expected counts as skipped for pytest only."""
    if not report.skipped or hasattr(report, "wasxfail") or report.nodeid not in state.selection:
        return
    reason = report.longrepr[2].removeprefix("Skipped: ") if isinstance(report.longrepr, tuple) else ""
    state.unselected[report.nodeid] = f"skipped: {reason}" if reason else "skipped"


_NUMBERS = ("batch_size", "num_packs", "steps", "warmup_steps", "tolerance")
_FLAGS = ("tf32", "xla", "forward_only")  # True and False are valid, and "on" may be a test's own word for a flag
_COMMON = ("unit",)  # a word that a test may well use for something of its own


@cache
def _words() -> frozenset[str]:
    from pytest_tfperf.core.workload import Workload

    return frozenset(field.name for field in fields(Workload)) - {*_NUMBERS, *_FLAGS, *_COMMON}


def faults(parameters: Mapping[str, object]) -> list[TfperfError]:
    """An error for each invalid value, with the valid values.

    Checked are `Workload`s, and parameters that are named as a field of it or as `steps`, `warmup_steps` or
    `tolerance`.
    """
    errors: dict[str, TfperfError] = {}
    for name, value in _checkable(parameters):
        try:
            _check(name, value)
        except TfperfError as error:
            errors.setdefault(str(error), error)
    return list(errors.values())


def _checkable(parameters: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    from pytest_tfperf.core.workload import Workload

    for name, value in parameters.items():
        if isinstance(value, Workload):
            yield from (("model", value.model), ("input_pipeline", value.input_pipeline))
        elif name == "model" and not get_close_matches(str(value), catalogue.names("models")):
            continue
        elif (name in _words() and isinstance(value, str)) or (name in _NUMBERS and isinstance(value, (int, float))):
            yield name, value


def _check(name: str, value: object) -> None:
    from pytest_tfperf.core.run import Plan
    from pytest_tfperf.core.verdict import Tolerance
    from pytest_tfperf.core.workload import checked

    if name == "tolerance":
        Tolerance.of(value)  # type: ignore[arg-type]  # its type is what is checked
    elif name in ("steps", "warmup_steps"):
        Plan(**{name: value})  # type: ignore[arg-type]  # as above
    else:
        checked(name, value)
        if name in ("model", "input_pipeline"):
            catalogue.resolve(name, str(value))


# Whom a test belongs to


@dataclass(frozen=True)
class Owners:
    """Whom tests belong to: by their mark, else by ini `tfperf_owners`, else by the repository's CODEOWNERS."""

    settings: Settings

    def of(self, item: pytest.Item) -> str:
        """The owner of a test; "" for none.

        Raises:
            TfperfError: its mark names none.
        """
        if (mark := item.get_closest_marker("owner")) is not None:
            return _named_by(mark, item)
        for pattern, owner in reversed(self.settings.owners):
            if fnmatchcase(item.nodeid, pattern):
                return owner
        path, (root, rules) = item.path.resolve(), self._code_owners
        return owners_of(path.relative_to(root).as_posix(), rules) if path.is_relative_to(root) else ""

    @cached_property
    def _code_owners(self) -> tuple[Path, Rules]:
        """The repository's root, or pytest's where there is no repository, and its rules; none that can't be read."""
        root = pytest_root = self.settings.root.resolve()
        while not (root / ".git").exists():
            if root == root.parent:
                root = pytest_root
                break
            root = root.parent
        for place in _PLACES:
            with suppress(OSError):
                return root, code_owners((root / place).read_text(encoding="utf-8", errors="replace"))
        return root, ()


def _named_by(mark: pytest.Mark, item: pytest.Item) -> str:
    name = next(iter([*mark.args, *mark.kwargs.values()]), None)
    if not (isinstance(name, str) and name.strip() and name.isprintable()):
        raise TfperfError(
            f"{item.nodeid}: its mark `owner` names no owner", next_step='Write @pytest.mark.owner("NAME")'
        )
    return name.strip()


def keep_owned(config: pytest.Config, items: list[pytest.Item], owners: Owners) -> None:
    """Deselect tests of other owners than that of `--tfperf-owner`.

    Raises:
        TfperfError: no collected test belongs to it; names the nearest.
    """
    name = owners.settings.owner
    names = {item: {(owner := owners.of(item)), *owner.split()} - {""} for item in items}
    kept = [item for item in items if name in names[item]]
    if items and not kept:
        known = set().union(*names.values())
        raise TfperfError(f"--tfperf-owner: no collected test belongs to {name!r}", next_step=known_names(name, known))
    config.hook.pytest_deselected(items=[item for item in items if name not in names[item]])
    items[:] = kept


Rules = Sequence[tuple[re.Pattern[str], str]]
"""The rules of a CODEOWNERS file: patterns of paths, and the owners of each in one text, as in "@ada @org/team"."""

# Where GitHub and GitLab look for the file; the first that can be read counts.
_PLACES: Final = (".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS", ".gitlab/CODEOWNERS")
_SECTION = re.compile(r"\^?\[[^\]]+\](?:\[\d+\])?(.*)")
_WILDCARD = re.compile(r"(/\*\*/|^\*\*/|/\*\*$|\*+|\?)")
_AS_REGEX: Final = {"/**/": "/(?:.*/)?", "**/": "(?:.*/)?", "/**": "/.*", "?": "[^/]"}


def code_owners(text: str) -> Rules:
    """Parse a CODEOWNERS file. The heading of a section of GitLab's may give owners to lines that name none."""
    rules, default = [], ""
    for line in filter(None, map(str.strip, text.splitlines())):
        if section := _SECTION.fullmatch(line):
            default = section[1].strip()
        elif not line.startswith("#"):
            pattern, *owners = re.split(r"(?<!\\)\s+", line.partition(" #")[0].strip())
            rules.append((_regex(pattern.replace("\\ ", " ")), " ".join(owners) or default))
    return rules


def owners_of(path: str, rules: Rules) -> str:
    """Return the owners of a path from the repository's root, by the last rule that matches; "" for none."""
    for pattern, owners in reversed(rules):
        if pattern.fullmatch(path):
            return owners
    return ""


def _regex(pattern: str) -> re.Pattern[str]:
    """Make a regular expression of a pattern, which is one of .gitignore's."""
    inner = pattern.strip("/")
    # A slash at the begin or in the middle ties a pattern to the root.
    anywhere = "" if "/" in pattern.rstrip("/") else "(?:.*/)?"
    parts = (_AS_REGEX.get(part, "[^/]*" if part[:1] == "*" else re.escape(part)) for part in _WILDCARD.split(inner))
    # A folder's files belong to its owner, and `docs/*` names no folder of docs.
    below = "/.*" if pattern.endswith("/") else "" if inner.endswith("/*") else "(?:/.*)?"
    return re.compile(f"{anywhere}{''.join(parts)}{below}")
