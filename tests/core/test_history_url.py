"""A history's URL never shows its password, whatever the password has in it."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg.conninfo import conninfo_to_dict

from pytest_tfperf.core.history_url import HistoryUrl, Kind
from pytest_tfperf.errors import TfperfError

# A mark that stands in no other part of the URL. PostgreSQL has no passwords with a NUL.
PASSWORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1).map(
    lambda text: f"Pa{text}Wd"
)
FORMS = (
    "git+https://{login}@host.example/team/speed#nightly",
    "git+ssh://{login}@host.example:2222/team/speed",
    "sftp://{login}@host.example:22/speed",
    "s3://{login}@bucket/folder",
    "postgresql://{login}@host.example:5433/speed?sslmode=require",
)


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=300)
@given(password=PASSWORDS)
def test_a_quoted_password_is_neither_shown_nor_told(form: str, password: str) -> None:
    url = HistoryUrl(form.format(login=f"me:{quote(password, safe='')}"))
    assert str(url) == form.format(login="").replace("@", "").partition("?")[0]
    assert (repr(url), url.without_secrets(f"no user with {password}")) == ("HistoryUrl()", "no user with ***")


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=300)
@given(password=PASSWORDS)
def test_a_password_that_is_not_quoted_is_refused_or_hidden(form: str, password: str) -> None:
    try:
        shown = str(HistoryUrl(form.format(login=f"me:{password}")))
    except TfperfError as error:
        shown = str(error)
    assert "Pa" not in shown.replace("In a password", "")


def test_a_token_in_place_of_a_user_is_hidden_too() -> None:
    url = HistoryUrl("git+https://abc%2F123@host/team/speed")
    assert (str(url), url.without_secrets("abc/123 abc%2F123")) == ("git+https://host/team/speed", "*** ***")


def test_a_password_with_an_at_sign_that_is_not_quoted_is_refused() -> None:
    with pytest.raises(TfperfError, match="@ as %40"):
        HistoryUrl("postgresql://me:half@half@db.example.com/speed")


@given(PASSWORDS)
def test_postgresql_s_driver_gets_the_password(password: str) -> None:
    url = HistoryUrl(f"postgresql://me:{quote(password, safe='')}@db/speed")
    assert conninfo_to_dict(url.address)["password"] == password


@pytest.mark.parametrize("name", ["password", "sslpassword"])
def test_a_password_among_the_parameters_is_hidden(name: str) -> None:
    url = HistoryUrl(f"postgresql://db/speed?{name}=hunter%202")
    assert (str(url), url.without_secrets("hunter 2, hunter%202")) == ("postgresql://db/speed", "***, ***")


@pytest.mark.parametrize(
    ("text", "kind", "address", "shown"),
    [
        ("git+.", Kind.GIT, ".", "git+."),
        ("git+.#a/b", Kind.GIT, ".", "git+.#a/b"),
        ("git+ssh://git@host/r.git", Kind.GIT, "ssh://git@host/r.git", "git+ssh://host/r.git"),
        ("git+https://host/team/r#b", Kind.GIT, "https://host/team/r", "git+https://host/team/r#b"),
        ("git+file:///srv/r", Kind.GIT, "file:///srv/r", "git+file:///srv/r"),
        ("../history of us", Kind.FOLDER, "../history of us", "../history of us"),
        ("file:///srv/a%20b", Kind.FOLDER, "/srv/a b", "file:///srv/a%20b"),
        ("s3://bucket/folder", Kind.STORE, "s3://bucket/folder", "s3://bucket/folder"),
        ("memory://x", Kind.STORE, "memory://x", "memory://x"),
        ("postgres://me@db/speed", Kind.POSTGRESQL, "postgres://me@db/speed", "postgres://db/speed"),
        (
            "postgresql:///speed?host=/run/postgresql",
            Kind.POSTGRESQL,
            "postgresql:///speed?host=/run/postgresql",
            "postgresql:///speed",
        ),
    ],
)
def test_each_kind_has_its_address_and_its_name(text: str, kind: Kind, address: str, shown: str) -> None:
    url = HistoryUrl(text)
    assert (url.kind, url.address, str(url)) == (kind, address, shown)


def test_a_git_repository_has_a_branch() -> None:
    branches = [HistoryUrl(text).branch for text in ("git+.", "git+.#b", "git+ssh://h/r", "git+https://h/r#a/b")]
    assert branches == ["tfperf-history", "b", "tfperf-history", "a/b"]


@pytest.mark.parametrize(
    "text",
    ["", "postgresql://", "postgresql://me:secret@db", "postgresql://me:sec/ret@db/speed",
     "postgresql://me:sec#ret@db/speed", "postgresql://me:123?secret@db/speed", "postgresql://db:secret/speed",
     "postgresql://me:%secret@db/speed", "sftp://me:sec/ret@host/folder", "git+https://sec#ret@host/r", "s3://",
     "s3://secret\n/b", "s3://b/f?secret=1", "https://me:secret@host/r", "ssh://secret/r", "git@secret:team/r",
     "host=h password=secret", "password = 'secret'", "me:secret@db/speed", "postgresql:me:secret@db/speed",
     "me:my secret@db", "db:5432:speed:me:secret", '{"password": "secret"}', "postgresql%3A%2F%2Fme%3Asecret%40db",
     "file://host/secret", "filecache::s3://secret/b", "S3://secret/b"],
)  # fmt: skip
def test_what_is_no_url_is_refused_without_a_word_of_it(text: str) -> None:
    with pytest.raises(TfperfError, match=r"must look like git\+https://HOST/REPOSITORY") as raised:
        HistoryUrl(text)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    "text",
    ["git+ext::sh -c id", "git+ext::sh%20-c%20id", "git+ext://x/y", "git+http://h/r", "git+git://h/r", "git+/srv/r",
     "git+ssh://-oProxyCommand=id/r", "git+ssh://%2doProxyCommand=id/r", "git+ssh://-oProxyCommand=id@h/r",
     "git+ssh://h/-r", "git+ssh://h", "git+ssh:///r", "git+file://h/r", "git+.#-f", "git+.#a..b", "git+.#a b",
     "git+.#a:b", "git+https://h/r#--force", "git+", "git+-", "-x", "sftp://-oProxyCommand=id/x"],
)  # fmt: skip
def test_what_a_program_could_take_for_an_option_or_a_command_is_refused(text: str) -> None:
    with pytest.raises(TfperfError, match="the URL of a history must look like"):
        HistoryUrl(text)


@pytest.mark.parametrize("name", ["runs/a=b", "job@2", "plain", "c:d"])
def test_a_folder_may_have_any_name(name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir(parents=True)
    assert HistoryUrl(str(tmp_path / name)).address == str(tmp_path / name)
