"""A history's URL never shows its password, whatever the password has in it."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import make_url

from pytest_tfperf.core.history_url import HistoryUrl, place_of
from pytest_tfperf.errors import TfperfError

# A mark that stands in no other part of the URL.
PASSWORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).map(lambda text: f"Pa{text}Wd")


@given(PASSWORDS)
def test_a_quoted_password_is_neither_shown_nor_told(password: str) -> None:
    url = HistoryUrl(f"postgresql://me:{quote(password, safe='')}@db.example.com:5433/speed?sslmode=require")
    assert str(url) == "postgresql://db.example.com:5433/speed"
    assert (repr(url), url.without_secrets(f"no user with {password}")) == ("HistoryUrl()", "no user with ***")


def test_a_password_with_an_at_sign_that_is_not_quoted_is_refused() -> None:
    with pytest.raises(TfperfError, match="@ as %40"):
        HistoryUrl("postgresql://me:half@half@db.example.com/speed")


@given(PASSWORDS)
def test_the_driver_gets_the_password(password: str) -> None:
    url = HistoryUrl(f"postgresql://me:{quote(password, safe='')}@db/speed")
    assert make_url(url.secret).password == password


@given(PASSWORDS)
def test_a_password_that_is_not_quoted_is_refused_or_hidden(password: str) -> None:
    try:
        shown = str(HistoryUrl(f"postgresql://me:{password}@db.example.com/speed"))
    except TfperfError as error:
        shown = str(error)
    assert "Pa" not in shown


@pytest.mark.parametrize("name", ["password", "sslpassword"])
def test_a_password_among_the_parameters_is_hidden(name: str) -> None:
    url = HistoryUrl(f"postgresql://db/speed?{name}=hunter%202")
    assert (str(url), url.without_secrets("hunter 2, hunter%202")) == ("postgresql://db/speed", "***, ***")


@pytest.mark.parametrize(
    "text",
    ["", "postgresql://", "mysql://me:secret@db/speed", "postgresql://me:secret@db", "postgresql://me:sec/ret@db/speed",
     "postgresql://me:sec#ret@db/speed", "postgresql://me:123?secret@db/speed", "postgresql://db:secret/speed"],
)  # fmt: skip
def test_what_is_no_url_is_refused_without_a_word_of_it(text: str) -> None:
    with pytest.raises(TfperfError, match="must look like postgresql://USER@HOST:5432/DATABASE") as raised:
        HistoryUrl(text)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    "text",
    ["host=h password=secret", "password = 'secret'", "me:secret@db/speed", "postgresql:me:secret@db/speed",
     "me:my secret@db", "db:5432:speed:me:secret", '{"password": "secret"}', "postgresql%3A%2F%2Fme%3Asecret%40db"],
)  # fmt: skip
def test_an_address_of_another_form_is_refused_without_a_word_of_it(text: str) -> None:
    with pytest.raises(TfperfError, match=r"neither a folder that exists nor a server's URL") as raised:
        place_of(text)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("name", ["runs/a=b", "job@2", "plain", "c:d"])
def test_a_folder_may_have_any_name(name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir(parents=True)
    assert place_of(tmp_path / name) == tmp_path / name / "history.sqlite"


def test_a_socket_is_an_address_too() -> None:
    assert str(HistoryUrl("postgresql:///speed?host=/run/postgresql")) == "postgresql:///speed"
