"""Documents in a folder, and in a store of fsspec's that is in memory."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from pytest_tfperf.core.history_url import HistoryUrl
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features.sharing import destination
from pytest_tfperf.features.sharing.destination import Destination, destination_of
from pytest_tfperf.features.sharing.stored_folder import Folder
from tests.features.sharing.contract import CONTRACT, NAME, Opened, name_of


def opened(url: str, root: Path) -> Destination:
    return destination_of(HistoryUrl(url), folder=root / ".tfperf", root=root)


@pytest.fixture
def memory() -> Iterator[str]:
    yield "memory://bucket/folder"
    fsspec.filesystem("memory").store.clear()


@pytest.mark.parametrize("check", CONTRACT, ids=name_of)
def test_a_folder(check: Callable[[Opened], None], tmp_path: Path) -> None:
    check(lambda: opened("history", tmp_path))


@pytest.mark.parametrize("check", CONTRACT, ids=name_of)
def test_a_store(check: Callable[[Opened], None], memory: str, tmp_path: Path) -> None:
    check(lambda: opened(memory, tmp_path))


@pytest.mark.parametrize("check", CONTRACT, ids=name_of)
def test_a_store_whose_files_have_names_before_they_have_content(
    check: Callable[[Opened], None], tmp_path: Path
) -> None:
    check(lambda: opened(f"local://{tmp_path}/history", tmp_path))


# Folders


def test_a_folder_s_path_is_the_tests_own_or_absolute(tmp_path: Path) -> None:
    opened("history", tmp_path).put({NAME: b"x"})
    assert (tmp_path / "history" / NAME).read_bytes() == b"x"
    assert list(opened(f"file://{tmp_path}/history", Path("/")).list()) == [NAME]


def test_what_a_killed_writer_left_is_never_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*paths: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "link", killed)
    monkeypatch.setattr(Path, "unlink", killed)
    with pytest.raises(KeyboardInterrupt):
        Folder(tmp_path).put({NAME: b"x"})
    monkeypatch.undo()
    assert len(list((tmp_path / NAME).parent.iterdir())) == 1
    assert list(Folder(tmp_path).list()) == []


@pytest.mark.parametrize("number", [1, 38, 95])
def test_a_file_system_without_links_renames(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*paths: object) -> None:
        raise OSError(number, "not supported")

    monkeypatch.setattr(os, "link", refused)
    Folder(tmp_path).put({NAME: b"x"})
    assert (list(Folder(tmp_path).get([NAME])), len(list((tmp_path / NAME).parent.iterdir()))) == ([(NAME, b"x")], 1)


def test_links_are_not_followed(tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    (inside / "v1").mkdir(parents=True)
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    (inside / "v1" / "folder").symlink_to(outside)
    (inside / "v1" / "file").symlink_to(outside / "secret")
    place = Folder(inside)
    assert list(place.get(["v1/folder/secret", "v1/file"])) == []
    assert "v1/folder/secret" not in place.list()
    with pytest.raises(TfperfError, match="a link leads out of"):
        place.put({"v1/folder/new/file": b"x"})
    assert list(outside.iterdir()) == [outside / "secret"]


def test_a_folder_may_be_a_link_itself(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    Folder(tmp_path / "link").put({NAME: b"x"})
    assert list(Folder(tmp_path / "link").get([NAME])) == [(NAME, b"x")]


def test_a_pipe_is_no_document(tmp_path: Path) -> None:
    (tmp_path / "v1").mkdir()
    os.mkfifo(tmp_path / "v1" / "pipe")
    assert list(Folder(tmp_path).get(["v1/pipe"])) == []


@pytest.mark.parametrize("kind", ["folder", "memory"])
def test_what_is_too_large_is_not_fetched(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = opened(str(tmp_path) if kind == "folder" else "memory://large", tmp_path)
    place.put({NAME: bytes(9), "v1/large": bytes(10)})
    for module in (destination, sys.modules[Folder.__module__]):
        monkeypatch.setattr(module, "MOST_BYTES", 9)
    assert list(place.get(["v1/large", NAME])) == [(NAME, bytes(9))]
    with pytest.raises(TfperfError, match=r"v1/other: a document of 10 bytes is above 9"):
        place.put({"v1/other": bytes(10)})


@pytest.mark.parametrize(
    "act", [lambda place: place.list(), lambda place: place.put({NAME: b"x"})], ids=["list", "put"]
)
def test_a_file_in_the_place_of_a_folder_is_told(act: Callable[[Destination], object], tmp_path: Path) -> None:
    (tmp_path / "history").write_text("")
    with pytest.raises(TfperfError, match=r"/history can't be (read|written): (Not a directory|a file is in its way)"):
        act(Folder(tmp_path / "history"))


# Stores


def missing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)


def test_a_store_without_fsspec_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing("fsspec", monkeypatch)
    with pytest.raises(TfperfError, match=r"^s3://bucket/x: the package fsspec is not .* 'pytest-tfperf\[sharing\]'$"):
        opened("s3://bucket/x", tmp_path).list()


def test_a_folder_needs_no_fsspec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing("fsspec", monkeypatch)
    opened("history", tmp_path).put({NAME: b"x"})


def test_a_store_whose_package_is_missing_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing("s3fs", monkeypatch)
    with pytest.raises(TfperfError, match=r"^s3://bucket/x: the history can't be read: Install s3fs to access S3"):
        opened("s3://bucket/x", tmp_path).list()


def test_an_unknown_scheme_is_told(tmp_path: Path) -> None:
    with pytest.raises(TfperfError, match=r"^nosuch://x: the history can't be read: Protocol not known: nosuch"):
        opened("nosuch://x", tmp_path).list()


class Failing(fsspec.AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """A store whose driver repeats the password."""

    protocol = "failing"

    def __init__(self, password: str = "", **options: object) -> None:
        super().__init__()
        self.password = password

    @staticmethod
    def _get_kwargs_from_urls(url: str) -> Any:
        return fsspec.utils.infer_storage_options(url)

    def info(self, path: str, **options: object) -> Any:
        raise ConnectionError(f"no user with {self.password}\nat all.")


def test_a_store_s_error_has_no_password(tmp_path: Path) -> None:
    fsspec.register_implementation("failing", Failing, clobber=True)
    place = opened("failing://me:pa%40ss@host/x", tmp_path)
    said = (
        r"^failing://host/x: the history can't be read: no user with \*\*\* at all\. Check the address, the credentials"
    )
    with pytest.raises(TfperfError, match=said):
        place.list()
    with pytest.raises(TfperfError, match=said):
        list(place.get([NAME]))
