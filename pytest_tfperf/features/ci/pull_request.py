"""The comments of the pull request that a CI job belongs to, on GitHub or GitLab."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote

from pytest_tfperf.core import plain_json
from pytest_tfperf.web.api import NotPosted, Unavailable
from pytest_tfperf.web.code_host import GITHUB_TOKEN, GITLAB_TOKEN, CodeHost

_PAUSES: Final = (2.0, 10.0)  # seconds before the second and the third try
_LONGEST_PAUSE: Final = 60.0


def post(text: str, name: str, variables: Mapping[str, str], wait: Callable[[float], None] = time.sleep) -> str:
    """Write the comment of a CI job's pull request, or edit the one of this name. Return "wrote" or "edited".

    Raises:
        NotPosted: the job is not of a pull request, or has no token; the token may not write comments, as in jobs of
            forks, or the server does not take this one.
    """
    find = _github if variables.get("GITHUB_REPOSITORY") else _gitlab
    code_host, comments, comment = find(variables)
    for pause in _PAUSES:
        try:
            # The comment may have been written although no answer came, so each try looks for it again.
            return _post(code_host, comments, comment, text, name)
        except Unavailable as error:
            seconds = pause if error.seconds is None else error.seconds
            if seconds > _LONGEST_PAUSE:
                raise
            wait(seconds)
    return _post(code_host, comments, comment, text, name)


def _post(code_host: CodeHost, comments: str, comment: str, text: str, name: str) -> str:
    mark = f"<!-- tfperf: {name} -->"
    body = {"body": f"{mark}\n{text}"}
    if own := code_host.own(comments, mark):
        code_host.edit(comment.format(id=own[0]["id"]), body)
        return "edited"
    code_host.write(comments, body)
    return "wrote"


def _github(variables: Mapping[str, str]) -> tuple[CodeHost, str, str]:
    """Return the host, the URL that lists comments and takes new ones, and that of a comment with {id}."""
    event = variables.get("GITHUB_EVENT_PATH") or os.devnull
    try:
        content = plain_json.from_json(Path(event).read_text("utf-8") or "{}")
        number = (content.get("pull_request") or {}).get("number")
    except (OSError, ValueError, AttributeError) as error:
        why = getattr(error, "strerror", None) or "it is no event in JSON"
        raise NotPosted(f"{event}, which GITHUB_EVENT_PATH names, can't be read: {why}") from None
    if not isinstance(number, int):
        raise NotPosted("this job is not of a pull request")
    code_host = CodeHost.of(variables, GITHUB_TOKEN)
    issues = f"{code_host.root}/repos/{quote(variables['GITHUB_REPOSITORY'])}/issues"
    return code_host, f"{issues}/{number}/comments", f"{issues}/comments/{{id}}"


def _gitlab(variables: Mapping[str, str]) -> tuple[CodeHost, str, str]:
    project, number = (variables.get(f"CI_{name}") for name in ("PROJECT_ID", "MERGE_REQUEST_IID"))
    if not (project and number):
        raise NotPosted("this job is not of a pull request or merge request")
    code_host = CodeHost.of(variables, GITLAB_TOKEN)
    notes = f"{code_host.root}/projects/{quote(project, safe='')}/merge_requests/{quote(number, safe='')}/notes"
    return code_host, notes, f"{notes}/{{id}}"
