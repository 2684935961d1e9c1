"""The comments of the pull request that a CI job belongs to, on GitHub or GitLab."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import quote

from pytest_tfperf.core import plain_json
from pytest_tfperf.web.api import NotPosted, Unavailable
from pytest_tfperf.web.code_host import CodeHost

_PAUSES: Final = (2.0, 10.0)
"""Seconds before the second and the third try."""

_LONGEST_PAUSE: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequest:
    """The comments of a pull request.

    Args:
        code_host: GitHub or GitLab.
        comments: the URL that lists comments and takes new ones.
        comment: the URL of a comment, with {id}.
    """

    code_host: CodeHost
    comments: str
    comment: str

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
        if own := self.code_host.own(self.comments, mark):
            self.code_host.edit(self.comment.format(id=own[0]["id"]), body)
            return "edited"
        self.code_host.write(self.comments, body)
        return "wrote"


def _github(variables: Mapping[str, str]) -> dict[str, Any]:
    event = variables.get("GITHUB_EVENT_PATH") or os.devnull
    try:
        content = plain_json.from_json(Path(event).read_text("utf-8") or "{}")
        number = (content.get("pull_request") or {}).get("number")
    except (OSError, ValueError, AttributeError) as error:
        why = getattr(error, "strerror", None) or "it is no event in JSON"
        raise NotPosted(f"{event}, which GITHUB_EVENT_PATH names, can't be read: {why}") from None
    if not isinstance(number, int):
        raise NotPosted("this job is not of a pull request")
    code_host = CodeHost.github(variables)
    issues = f"{code_host.root}/repos/{quote(variables['GITHUB_REPOSITORY'])}/issues"
    return {
        "code_host": code_host,
        "comments": f"{issues}/{number}/comments",
        "comment": f"{issues}/comments/{{id}}",
    }


def _gitlab(variables: Mapping[str, str]) -> dict[str, Any]:
    project, number = (variables.get(f"CI_{name}") for name in ("PROJECT_ID", "MERGE_REQUEST_IID"))
    if not (project and number):
        raise NotPosted("this job is not of a pull request or merge request")
    code_host = CodeHost.gitlab(variables)
    notes = f"{code_host.root}/projects/{quote(project, safe='')}/merge_requests/{quote(number, safe='')}/notes"
    return {"code_host": code_host, "comments": notes, "comment": f"{notes}/{{id}}"}
