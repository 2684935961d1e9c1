"""One issue for each test on GitHub or GitLab: opened, edited in place, commented on, and closed on recovery."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, Self
from urllib.parse import quote

from pytest_tfperf.features.notify.channels import Channel
from pytest_tfperf.features.notify.news import Event, EventKind, Notification, event_lines, subject
from pytest_tfperf.lines import code_block
from pytest_tfperf.web.api import NotPosted
from pytest_tfperf.web.code_host import GITHUB_TOKEN, GITLAB_TOKEN, CodeHost

LABEL: Final = "tfperf"
_MARK: Final = "<!-- tfperf: "
_MOST_OF_A_TITLE: Final = 250
_SHOWN_BY_THE_TEXT: Final = (EventKind.NEW, EventKind.MISSING, EventKind.SILENT)
_FOOTER: Final = "pytest-tfperf edits this text, and closes the issue when nothing of it is left."


@dataclass(frozen=True, slots=True, kw_only=True)
class Issues:
    """The issues of a project, listed at a URL.

    An issue's URL ends with its field `number`, and with `comments` where comments are posted. `text` is the field of
    its text, `labels` the label in the form in which a new issue takes it, and `closed` and `opened` are the fields
    that close it, and open it again.
    """

    code_host: CodeHost
    url: str
    number: str
    text: str
    comments: str
    labels: object
    closed: Mapping[str, str]
    opened: Mapping[str, str]

    @classmethod
    def of(cls, channel: Channel, variables: Mapping[str, str]) -> Self:
        """Return the issues of the project that a channel names.

        Raises:
            NotPosted: there is no token.
        """
        if channel.kind == "github":
            own = "TFPERF_GITHUB_TOKEN"
            host = CodeHost.of(variables, own if variables.get(own) else GITHUB_TOKEN, what="issue")
            return cls(
                code_host=host,
                url=f"{host.root}/repos/{quote(channel.target)}/issues",
                number="number",
                text="body",
                comments="comments",
                labels=[LABEL],
                closed={"state": "closed"},
                opened={"state": "open"},
            )
        host = CodeHost.of(variables, GITLAB_TOKEN, what="issue")
        return cls(
            code_host=host,
            url=f"{host.root}/projects/{quote(channel.target, safe='')}/issues",
            number="iid",
            text="description",
            comments="notes",
            labels=LABEL,
            closed={"state_event": "close"},
            opened={"state_event": "reopen"},
        )

    def tell(self, notification: Notification, taken: Callable[[Sequence[Event]], object]) -> None:
        """Write what happened to each test into its issue.

        Raises:
            NotPosted: the token may not write issues, or the server does not take one; earlier ones stay.
        """
        listed = self.code_host.own(f"{self.url}?labels={LABEL}&state=all", _MARK, self.text)
        known = {str(issue[self.text]).partition("\n")[0].strip(): issue for issue in reversed(listed)}
        is_labelled = True
        for test, group in groupby(sorted(notification.events, key=_test), key=_test):
            events = list(group)
            still = [event for event in notification.open if _test(event) == test]
            mark = f"{_MARK}{hashlib.sha256(repr(test).encode()).hexdigest()[:16]} -->"
            body = f"{mark}\n{_text(still or events)}\n\n{_FOOTER}"
            if (issue := known.get(mark)) is not None:
                # A session that lost its file tells what an open issue shows already, and nothing beside it.
                is_shown = len(still) == len(events) and all(event.kind in _SHOWN_BY_THE_TEXT for event in events)
                self._edit(issue, body, _text(events), is_shown=is_shown, is_over=not still)
            elif still:
                new = {"title": subject(events[0])[:_MOST_OF_A_TITLE], self.text: body, "labels": self.labels}
                is_labelled &= LABEL in str(self.code_host.write(self.url, new).get("labels"))
            taken(events)
        if not is_labelled:
            raise NotPosted(f"the token may not set the label {LABEL}, by which an issue is found again")

    def _edit(self, issue: Mapping[str, Any], body: str, news: str, *, is_shown: bool, is_over: bool) -> None:
        """Edit an issue, close it or open it again, and comment on what its text did not show before."""
        url, is_closed = f"{self.url}/{issue.get(self.number)}", issue.get("state") == "closed"
        state = {} if is_closed == is_over else self.closed if is_over else self.opened
        self.code_host.edit(url, {self.text: body, **state})
        if is_closed or not is_shown:
            self.code_host.write(f"{url}/{self.comments}", {"body": news})


def _test(event: Event) -> tuple[str, str]:
    return event.machine, event.test


def _text(events: Sequence[Event]) -> str:
    return code_block("\n\n".join("\n".join(event_lines(event)) for event in events))
