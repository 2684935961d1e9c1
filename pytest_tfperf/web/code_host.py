"""GitHub and GitLab: texts that a token writes there, and finds again by a hidden mark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from pytest_tfperf.web.api import Api, NotPosted, Unavailable

GITHUB_TOKEN: Final = "GITHUB_TOKEN"
GITLAB_TOKEN: Final = "GITLAB_TOKEN"
_PER_PAGE: Final = 100
_MOST_PAGES: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeHost:
    """GitHub or GitLab, whose API begins at `root`, as the user of a token, who writes each "comment" or "issue".

    `author` is the path of fields to the name of its author.
    """

    api: Api
    root: str
    edit_method: str
    author: tuple[str, str]
    what: str = "comment"

    @classmethod
    def of(cls, variables: Mapping[str, str], token: str, *, what: str = "comment") -> Self:
        """Return GitHub or GitLab, or the server of a CI job; `token` is the variable that holds the token.

        Raises:
            NotPosted: there is no token.
        """
        if token == GITLAB_TOKEN:
            root = variables.get("CI_API_V4_URL") or "https://gitlab.com/api/v4"
            headers, edit_method, author = {"PRIVATE-TOKEN": "{token}"}, "PUT", ("author", "username")
        else:
            root = variables.get("GITHUB_API_URL") or "https://api.github.com"
            headers = {"Authorization": "Bearer {token}", "Accept": "application/vnd.github+json"}
            edit_method, author = "PATCH", ("user", "login")
        api = Api(variable=token, secret=variables.get(token, ""), headers=headers, wish=f"write {what}s")
        return cls(api=api, root=root, edit_method=edit_method, author=author, what=what)

    def own(self, url: str, mark: str, field: str = "body") -> list[dict[str, Any]]:
        """Return what the token's user wrote of all that a URL lists, and whose text begins with a mark.

        Raises:
            NotPosted: the server does not list it.
        """
        marked = [item for item in self._listed(url) if str(item.get(field, "")).startswith(mark)]
        if not marked:
            return []
        me = self._user_name()
        return [item for item in marked if self._is_by(item, me)]

    def write(self, url: str, body: Mapping[str, object]) -> dict[str, Any]:
        """Write something new, and return it as the server has it.

        Raises:
            NotPosted: the server does not take it.
        """
        return self._sent("POST", url, body)

    def edit(self, url: str, body: Mapping[str, object]) -> dict[str, Any]:
        """Edit what is at a URL, as `write`."""
        return self._sent(self.edit_method, url, body)

    def _sent(self, method: str, url: str, body: Mapping[str, object]) -> dict[str, Any]:
        written = self.api.ask(method, url, body)
        if not (isinstance(written, dict) and "id" in written):
            raise NotPosted(f"the server's answer does not show the {self.what} that was sent")
        return written

    def _listed(self, url: str) -> Iterator[dict[str, Any]]:
        for page in range(1, _MOST_PAGES + 1):
            items = self.api.ask("GET", f"{url}{'&' if '?' in url else '?'}per_page={_PER_PAGE}&page={page}")
            if not isinstance(items, list):
                raise NotPosted(f"the server's answer is no list of {self.what}s")
            for item in items:
                if isinstance(item, dict) and isinstance(item.get("id"), int):
                    yield item
            if len(items) < _PER_PAGE:
                return

    def _user_name(self) -> str | None:
        """Return the name of the token's user; None for a GitHub app's token, as jobs have: it may not ask."""
        try:
            user = self.api.ask("GET", f"{self.root}/user")
        except Unavailable:
            raise
        except NotPosted:
            return None
        return user.get(self.author[1]) if isinstance(user, dict) else None

    def _is_by(self, item: Mapping[str, Any], me: str | None) -> bool:
        """Return whether the token's user wrote it; if that user is unknown, whether a bot did."""
        author = item.get(self.author[0])
        if not isinstance(author, dict):
            return False
        return author.get(self.author[1]) == me if me is not None else author.get("type", "Bot") == "Bot"
