"""The lines of `tfperf_notify`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features.notify.channels import Channel, channels

SECRET = "T0KENS3CRET"
URL = f"https://hooks.example.com:8443/services/{SECRET}?key={SECRET}"


def test_each_line_is_a_channel() -> None:
    text = f"""
        webhook $TFPERF_WEBHOOK
        slack {URL}

        owner=@org/vision   teams $TEAMS
        github ada/nets
        gitlab 42
        command ./tell.sh 'two words'
    """
    assert list(map(str, channels(text))) == [
        "webhook $TFPERF_WEBHOOK",
        "slack hooks.example.com:8443",
        "owner=@org/vision teams $TEAMS",
        "github ada/nets",
        "gitlab 42",
        "command ./tell.sh",
    ]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("slak $X", "line 1: unknown channel 'slak'. Did you mean 'slack'?"),
        (URL, "line 1: unknown channel '***'"),
        ("owner=team", "line 1: unknown channel '***'"),
        (f"slack https:/{SECRET}", "line 1: slack must be followed by a variable that holds its URL"),
        (f"webhook ftp://x/{SECRET}", "line 1: webhook must be followed by a variable"),
        (f"webhook https://x:port/{SECRET}", "line 1: webhook must be followed by a variable"),
        (f"webhook https://x/ {SECRET}", "line 1: webhook must be followed by a variable"),
        (
            f"webhook https://ann:{SECRET}@x/a",
            "line 1: webhook is followed by a URL with a user or a password, which no",
        ),
        (
            f"slack https://{SECRET}@x/a",
            "line 1: slack is followed by a URL with a user or a password, which no request",
        ),
        ("webhook", "line 1: webhook must be followed by a variable"),
        ("webhook $", "line 1: webhook must be followed by a variable"),
        ("github nets", "line 1: github must be followed by OWNER/REPO"),
        ("github ada/nets/..", "line 1: github must be followed by OWNER/REPO"),
        ("github https://github.com/ada/nets", "line 1: github must be followed by OWNER/REPO"),
        ("gitlab nets", "line 1: gitlab must be followed by GROUP/PROJECT"),
        ("command", "line 1: command must be followed by PROGRAM"),
        (f"command 'tell {SECRET}", "line 1: command must be followed by PROGRAM"),
        ("slack $X\nslack  $X", "line 2 names slack $X again. Delete it"),
    ],
)
def test_a_line_that_names_no_channel_is_refused_without_what_may_be_secret(line: str, says: str) -> None:
    with pytest.raises(TfperfError) as refused:
        channels(line)
    assert str(refused.value).startswith(says)
    assert SECRET not in str(refused.value)


@given(st.text(max_size=80))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        channels(text)
    except TfperfError:
        return


@pytest.mark.parametrize("target", [URL, "$TFPERF_WEBHOOK"])
def test_nothing_shows_a_url(target: str) -> None:
    channel = Channel("webhook", target, "vision")
    assert SECRET not in f"{channel} {channel!r} {channel.key}"


def test_channels_of_several_urls_and_owners_have_keys_of_their_own() -> None:
    named = [Channel("slack", URL), Channel("slack", f"{URL}2"), Channel("teams", URL), Channel("slack", URL, "vision")]
    assert len({channel.key for channel in named}) == 4
