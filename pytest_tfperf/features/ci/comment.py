"""The comment on a pull request: its text, and the requests to GitHub and GitLab that edit it in place."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from pytest_tfperf.core.comparison import Comparison
from pytest_tfperf.core.consequence import outcome_of
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.rerun_command import RerunCommand
from pytest_tfperf.core.session_verdicts import SessionRecord
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features.ci.markdown import as_text, counted_outcomes
from pytest_tfperf.reports.figures import bad_figures, figure_fact
from pytest_tfperf.reports.measurement_table import ACT_FIRST
from pytest_tfperf.reports.numbers import change, counted

_MOVED: Final = (Outcome.REGRESSED, Outcome.IMPROVED, Outcome.INCONCLUSIVE)
_MOST_ROWS: Final = 15
_MOST_CHARACTERS: Final = 200  # of a test's id and of a remark

Result = Measurement | Comparison


def comment(record: SessionRecord, rerun: RerunCommand) -> str:
    """The comment's Markdown; a few lines where nothing moved."""
    moved = sorted(
        (
            one
            for one in record.results
            if one.is_decided and outcome_of(one) in _MOVED and (_change(one) is not None or bad_figures(one))
        ),
        key=lambda one: (ACT_FIRST.index(outcome_of(one)), _change(one) or 0.0),
    )
    blocks = [f"**{as_text(counted_outcomes(record.results, record.not_measured))}**"]
    if moved:
        rows = "\n".join(f"| {' | '.join(row)} |" for one in moved[:_MOST_ROWS] for row in _rows(one))
        blocks.append(f"| outcome | test | change | 95 % CI | by |\n| --- | --- | --- | --- | --- |\n{rows}")
    if len(moved) > _MOST_ROWS:
        blocks.append(f"and {len(moved) - _MOST_ROWS} more: the job's summary has all of them.")
    blocks += [as_text(_short(remark)) for remark in record.remarks]
    blocks += [f"could not be measured: {as_text(_short(test))}" for test in list(record.not_measured)[:_MOST_ROWS]]
    if moved:
        command = rerun.of(moved[0].test).replace("`", "'")
        blocks.append(f"Again: `{command}`")
    return "\n\n".join(blocks) + "\n"


def _rows(one: Result) -> Iterator[Iterable[str]]:
    """One of the throughput, and one of each figure that is worse."""
    if (of_rate := _of_rate(one)) in _MOVED and _change(one) is not None:
        yield _row(one, of_rate)
    for figure in bad_figures(one):
        pairs = counted(len(one.pairs), "pair") if isinstance(one, Comparison) else counted(len(one.runs), "run")
        yield f"{figure.outcome}", as_text(_short(one.test)), as_text(figure_fact(figure)), "", pairs


def _of_rate(one: Result) -> Outcome | None:
    """The outcome of the throughput alone."""
    if isinstance(one, Comparison):
        return one.of_ratio
    return None if one.verdict is None else one.verdict.outcome


def _row(one: Result, of_rate: Outcome | None) -> Iterator[str]:
    yield f"{of_rate}"
    yield as_text(_short(one.test))
    yield change(_change(one) or 0.0)
    if isinstance(one, Comparison):
        yield f"{change(one.low - 1)} to {change(one.high - 1)}"
        yield counted(len(one.pairs), "pair")
    else:
        yield ""
        yield counted(len(one.runs), "run")


def _change(one: Result) -> float | None:
    """As a fraction; None where there was nothing to compare with."""
    if isinstance(one, Comparison):
        return one.ratio - 1
    verdict = one.verdict
    return (
        None if verdict is None else (verdict.change if verdict.confirmed_change is None else verdict.confirmed_change)
    )


def _short(text: str) -> str:
    return text if len(text) <= _MOST_CHARACTERS else f"{text[: _MOST_CHARACTERS - 2]}.."


def paragraphs(text: str, most: int) -> Sequence[str]:
    """The first blocks of Markdown that fit into so many characters."""
    kept: list[str] = []
    for block in text.split("\n\n"):
        most -= len(block) + 2
        if most < 0:
            break
        kept.append(block)
    return kept


_PER_PAGE: Final = 100
_MOST_PAGES: Final = 50
_SECONDS: Final = 30


class NotPosted(TfperfError):
    """The comment can't be written from here; the job's summary has the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the comments of one pull request are.

    Args:
        comments: the URL that lists them and takes new ones.
        one: the URL of a comment, with {id}.
        edits_by: the method that replaces a comment's text.
        headers: of each request, the token among them.
    """

    comments: str
    one: str
    edits_by: str
    headers: Mapping[str, str]

    @classmethod
    def of(cls, variables: Mapping[str, str]) -> Self:
        """As the variables of a CI job say it.

        Raises:
            NotPosted: it is no job of a pull request, or has no token.
        """
        return cls(**(_github(variables) if "GITHUB_REPOSITORY" in variables else _gitlab(variables)))

    def post(self, text: str, name: str) -> str:
        """Write the comment, or edit the one with this name; says which.

        Raises:
            NotPosted: the token may not write comments, as in jobs of forks.
            TfperfError: the server does not answer, or with an error.
        """
        mark = f"<!-- tfperf: {name} -->"
        body = {"body": f"{mark}\n{text}"}
        for page in range(1, _MOST_PAGES + 1):
            found = self._ask("GET", f"{self.comments}?per_page={_PER_PAGE}&page={page}", None)
            for comment in found:
                if str(comment.get("body", "")).startswith(mark):
                    self._ask(self.edits_by, self.one.format(id=comment["id"]), body)
                    return "edited"
            if len(found) < _PER_PAGE:
                break
        self._ask("POST", self.comments, body)
        return "wrote"

    def _ask(self, method: str, url: str, body: Mapping[str, str] | None) -> Any:
        request = urllib.request.Request(
            url,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json", "User-Agent": "pytest-tfperf", **self.headers},
        )
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            if error.code in (401, 403, 404):
                raise NotPosted(f"the token may not write comments here ({error.code} {error.reason})") from None
            raise TfperfError(f"{method} {url}: {error.code} {error.reason}", next_step="Run the job again") from None
        except (OSError, ValueError) as error:
            raise TfperfError(f"{method} {url}: {error}", next_step="Run the job again") from None


def _github(variables: Mapping[str, str]) -> dict[str, Any]:
    event = variables.get("GITHUB_EVENT_PATH", os.devnull)
    try:
        number = json.loads(Path(event).read_text("utf-8") or "{}").get("pull_request", {}).get("number")
    except (OSError, ValueError) as error:
        raise TfperfError(f"{event} can't be read: {error}") from None
    if number is None:
        raise NotPosted("this job is not of a pull request")
    if not (token := variables.get("GITHUB_TOKEN")):
        raise NotPosted("the variable GITHUB_TOKEN is not set")
    api = variables.get("GITHUB_API_URL", "https://api.github.com")
    issues = f"{api}/repos/{variables['GITHUB_REPOSITORY']}/issues"
    return {
        "comments": f"{issues}/{number}/comments",
        "one": f"{issues}/comments/{{id}}",
        "edits_by": "PATCH",
        "headers": {"Authorization": f"Bearer {token}", "Accept": "application/vnd.github+json"},
    }


def _gitlab(variables: Mapping[str, str]) -> dict[str, Any]:
    project, number = (variables.get(f"CI_{name}") for name in ("PROJECT_ID", "MERGE_REQUEST_IID"))
    if not (project and number):
        raise NotPosted("this job is not of a pull request or merge request")
    if not (token := variables.get("GITLAB_TOKEN")):
        raise NotPosted("the variable GITLAB_TOKEN is not set; it holds a project access token with the scope api")
    api = variables.get("CI_API_V4_URL", "https://gitlab.com/api/v4")
    notes = f"{api}/projects/{project}/merge_requests/{number}/notes"
    return {
        "comments": notes,
        "one": f"{notes}/{{id}}",
        "edits_by": "PUT",
        "headers": {"PRIVATE-TOKEN": token},
    }
