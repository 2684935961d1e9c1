"""The comments of the pull request that a CI job belongs to, on GitHub or GitLab."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import quote

from pytest_tfperf.core import bounded_decoding
from pytest_tfperf.features.ci.api import Api, NotPosted, Unavailable

_PER_PAGE: Final = 100
_MOST_PAGES: Final = 50
_PAUSES: Final = (2.0, 10.0)
"""Seconds before the second and the third try."""

_LONGEST_PAUSE: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequest:
    """The comments of a pull request.

    Args:
        api: sends requests.
        user: the URL of the token's user.
        comments: the URL that lists comments and takes new ones.
        comment: the URL of a comment, with {id}.
        edit_method: the HTTP method that replaces a comment's text.
        author: the path of fields to the author's name in a comment.
    """

    api: Api
    user: str
    comments: str
    comment: str
    edit_method: str
    author: tuple[str, str]

    @classmethod
    def of(cls, variables: Mapping[str, str]) -> Self:
        """Return the pull request of a CI job, by the job's environment variables.

        Raises:
            NotPosted: the job is not of a pull request, or has no token.
        """
        return cls(**(_github(variables) if variables.get("GITHUB_REPOSITORY") else _gitlab(variables)))

    def post(self, text: str, name: str, wait: Callable[[float], None] = time.sleep) -> str:
        """Write the comment, or edit the comment of this name. Return "wrote" or "edited".

        Raises:
            NotPosted: the token may not write comments, as in jobs of forks, or the server does not take this one.
        """
        for pause in _PAUSES:
            try:
                # The comment may have been written although no answer came, so each try looks for it again.
                return self._post(text, name)
            except Unavailable as error:
                seconds = pause if error.seconds is None else error.seconds
                if seconds > _LONGEST_PAUSE:
                    raise
                wait(seconds)
        return self._post(text, name)

    def _post(self, text: str, name: str) -> str:
        mark = f"<!-- tfperf: {name} -->"
        body = {"body": f"{mark}\n{text}"}
        if (id := self._own_comment(mark)) is not None:
            self._write(self.edit_method, self.comment.format(id=id), body)
            return "edited"
        self._write("POST", self.comments, body)
        return "wrote"

    def _own_comment(self, mark: str) -> int | None:
        """Return the id of the comment that this job's token wrote earlier; None if there is none."""
        marked = [comment for comment in self._all_comments() if str(comment.get("body", "")).startswith(mark)]
        if not marked:
            return None
        me = self._user_name()
        return next((comment["id"] for comment in marked if self._is_by(comment, me)), None)

    def _all_comments(self) -> Iterator[dict[str, Any]]:
        for page in range(1, _MOST_PAGES + 1):
            comments = self.api.ask("GET", f"{self.comments}?per_page={_PER_PAGE}&page={page}")
            if not isinstance(comments, list):
                raise NotPosted("the server's answer is no list of comments")
            for comment in comments:
                if isinstance(comment, dict) and isinstance(comment.get("id"), int):
                    yield comment
            if len(comments) < _PER_PAGE:
                return

    def _user_name(self) -> str | None:
        """Return the name of the token's user; None for a GitHub app's token, as jobs have: it may not ask."""
        try:
            user = self.api.ask("GET", self.user)
        except Unavailable:
            raise
        except NotPosted:
            return None
        return user.get(self.author[1]) if isinstance(user, dict) else None

    def _is_by(self, comment: Mapping[str, Any], me: str | None) -> bool:
        """Return whether the token's user wrote a comment; if that user is unknown, whether a bot did."""
        author = comment.get(self.author[0])
        if not isinstance(author, dict):
            return False
        return author.get(self.author[1]) == me if me is not None else author.get("type", "Bot") == "Bot"

    def _write(self, method: str, url: str, body: Mapping[str, str]) -> None:
        written = self.api.ask(method, url, body)
        if not (isinstance(written, dict) and "id" in written):
            raise NotPosted("the server's answer does not show the comment that was sent")


def _github(variables: Mapping[str, str]) -> dict[str, Any]:
    event = variables.get("GITHUB_EVENT_PATH") or os.devnull
    try:
        content = bounded_decoding.from_json(Path(event).read_text("utf-8") or "{}")
        number = (content.get("pull_request") or {}).get("number")
    except (OSError, ValueError, AttributeError) as error:
        why = getattr(error, "strerror", None) or "it is no event in JSON"
        raise NotPosted(f"{event}, which GITHUB_EVENT_PATH names, can't be read: {why}") from None
    if not isinstance(number, int):
        raise NotPosted("this job is not of a pull request")
    root = variables.get("GITHUB_API_URL") or "https://api.github.com"
    issues = f"{root}/repos/{quote(variables['GITHUB_REPOSITORY'])}/issues"
    return {
        "api": Api(
            variable="GITHUB_TOKEN",
            secret=variables.get("GITHUB_TOKEN", ""),
            headers={"Authorization": "Bearer {token}", "Accept": "application/vnd.github+json"},
        ),
        "user": f"{root}/user",
        "comments": f"{issues}/{number}/comments",
        "comment": f"{issues}/comments/{{id}}",
        "edit_method": "PATCH",
        "author": ("user", "login"),
    }


def _gitlab(variables: Mapping[str, str]) -> dict[str, Any]:
    project, number = (variables.get(f"CI_{name}") for name in ("PROJECT_ID", "MERGE_REQUEST_IID"))
    if not (project and number):
        raise NotPosted("this job is not of a pull request or merge request")
    root = variables.get("CI_API_V4_URL") or "https://gitlab.com/api/v4"
    notes = f"{root}/projects/{quote(project, safe='')}/merge_requests/{quote(number, safe='')}/notes"
    return {
        "api": Api(
            variable="GITLAB_TOKEN",
            secret=variables.get("GITLAB_TOKEN", ""),
            headers={"PRIVATE-TOKEN": "{token}"},
        ),
        "user": f"{root}/user",
        "comments": notes,
        "comment": f"{notes}/{{id}}",
        "edit_method": "PUT",
        "author": ("author", "username"),
    }
