"""`tfperf comment`: one comment on a pull request, edited in place."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from pytest_tfperf.console.arguments import Commands, add_command
from pytest_tfperf.console.output import show
from pytest_tfperf.core.consequence import EXIT_GREEN
from pytest_tfperf.errors import TfperfError


def add_to(commands: Commands) -> None:
    """Add the command."""
    comment = add_command(
        commands,
        "comment",
        _run,
        "write a session's comment on the pull request of this CI job, or edit the one that is there",
        examples=(
            "TFPERF_COMMENT=comment.md pytest perf_tests --tfperf-base=origin/main",
            "tfperf comment comment.md",
            "tfperf comment comment.md --name=gpu",
        ),
    )
    comment.add_argument(
        "file", type=Path, metavar="FILE", help="what a session wrote for the ini value tfperf_comment"
    )
    comment.add_argument("--name", default="throughput", help="tells comments of several jobs apart")


def _run(arguments: argparse.Namespace) -> int:
    try:
        text = arguments.file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8"
        raise TfperfError(
            f"{arguments.file} can't be read: {why}",
            next_step=f"A session writes it: TFPERF_COMMENT={arguments.file} pytest ...",
        ) from None
    try:
        done = PullRequest.of(os.environ).post("\n\n".join(paragraphs(text, _MOST_CHARACTERS)), arguments.name)
        show(f"{done} the comment")
    except NotPosted as error:
        show(f"no comment, because {error}. The job's summary has the same")
    return EXIT_GREEN


_MOST_CHARACTERS = 60_000  # GitHub takes 65,536


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
class PullRequest:
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
        import urllib.error
        import urllib.request  # imports ssl, which no other command needs

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
        raise TfperfError(
            f"{event} can't be read: {error}", next_step="Leave GITHUB_EVENT_PATH as GitHub's runner sets it"
        ) from None
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
