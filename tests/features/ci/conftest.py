"""A CI system whose jobs are of pull request 7."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.session_verdicts import SessionResult
from pytest_tfperf.features.ci.outputs import markdown
from tests.helpers.comment_server import Server


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as made:
        Thread(target=made.serve_forever, args=(0.01,), daemon=True).start()
        yield made
        made.shutdown()


@pytest.fixture(params=["github", "gitlab"])
def job(request: pytest.FixtureRequest, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The variables of a job of pull request 7."""
    for name in ("GITHUB_REPOSITORY", "GITHUB_TOKEN", "CI_PROJECT_ID", "CI_MERGE_REQUEST_IID", "GITLAB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    event = tmp_path / "event.json"
    event.write_text('{"pull_request": {"number": 7}}')
    variables = {
        "github": {
            "GITHUB_REPOSITORY": "ada/nets",
            "GITHUB_API_URL": server.url,
            "GITHUB_EVENT_PATH": str(event),
            "GITHUB_TOKEN": "secret",
        },
        "gitlab": {
            "CI_API_V4_URL": server.url,
            "CI_PROJECT_ID": "42",
            "CI_MERGE_REQUEST_IID": "7",
            "GITLAB_TOKEN": "secret",
        },
    }
    for name, value in variables[request.param].items():
        monkeypatch.setenv(name, value)
    return str(request.param)


def summary(results: Sequence[Measurement] = (), **more: Any) -> str:
    """The Markdown summary of a session with these results."""
    return markdown(SessionResult(results=results, **more))
