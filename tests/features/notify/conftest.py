"""A server that is notified, and variables that hold secrets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.helpers.notified_server import Server, serving

SECRET = "T0KENS3CRET"  # of a token, and in a webhook's path


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as made:
        yield made


@pytest.fixture
def secrets(server: Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """The variables of a CI job that may notify; returns what none of them may show."""
    monkeypatch.delenv("TFPERF_GITHUB_TOKEN", raising=False)
    variables = {
        "HOOK_URL": f"{server.url}/services/{SECRET}?key={SECRET}",
        "GITHUB_TOKEN": SECRET,
        "GITHUB_API_URL": server.url,
        "GITLAB_TOKEN": SECRET,
        "CI_API_V4_URL": server.url,
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return SECRET
