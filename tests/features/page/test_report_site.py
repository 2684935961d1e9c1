"""`tfperf report --site`: its files together are the facts, no text leaves its place, and a folder is never half."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.cli import main
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features.page import site as folder_of
from pytest_tfperf.features.page.render import site
from pytest_tfperf.stores import files
from pytest_tfperf.stores.history import History
from tests.features.page.documents import facts_of
from tests.features.page.test_report_page import Tags
from tests.helpers.measurements import interleaved, measurement, session_verdict, verdict

HOSTILE = st.text(st.sampled_from("<>&'\"/!-\u2028\u2029\\ scriptSCRIPT\udcfc"), max_size=40)


class Site:
    """The files of a site, as its page reads them."""

    def __init__(self, facts: dict[str, Any]) -> None:
        self.files = dict(site(facts))
        self.index = Tags(self.files["index.html"].decode())
        self.facts: dict[str, Any] = json.loads(self.index.facts)
        columns = self.facts["columns"]
        self.rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]

    def called(self, name: str) -> Any:
        """What the script of this name calls the page with."""
        text = self.files[f"tfperf/{name}.js"].decode("ascii")
        found = re.fullmatch(r'tfperf\("([0-9a-f]{16})",(.*)\)\n', text)
        assert found is not None
        assert found[1] == name
        return json.loads(found[2])


def facts_with(text: str) -> dict[str, Any]:
    one = measurement(test=f"a.py::{text}", name=text, commit=text, environment={text: text}, verdict=verdict())
    verdicts = [session_verdict(machine=text)]
    return facts_of(one, verdicts=verdicts, not_measured={text: TfperfError(text)}, scope=text)


@given(HOSTILE)
def test_a_row_and_its_file_together_are_the_facts_of_the_test(text: str) -> None:
    facts = facts_with(text)
    found = Site(facts)
    ((row,), (test,)) = found.rows, facts["tests"]
    whole = row | found.called(row["file"])
    assert {name: whole[name] for name in whole if name not in ("recent", "file")} == test
    assert found.called(found.facts["sessions_file"]) == facts["sessions"]


@given(HOSTILE)
def test_no_text_adds_an_element_to_the_index(text: str) -> None:
    assert Site(facts_with("x" + text)).index.tags == Site(facts_with("plain")).index.tags


def test_the_index_comes_last_and_names_each_file() -> None:
    found = Site(facts_with("plain"))
    assert list(found.files)[-1] == "index.html"
    text = found.files["index.html"].decode()
    names = [Path(name).stem for name in found.files if name != "index.html"]
    assert [name for name in names if name not in text] == []
    assert len(names) == 3  # of a test, of the sessions, and of the scripts


def test_the_index_runs_no_script_but_its_own_file() -> None:
    text = Site(facts_with("plain")).files["index.html"].decode()
    assert "script-src 'self';" in text
    assert re.findall(r"<script(?! type=\"application/json\")[^>]*>", text) == [
        re.search(r'<script src="tfperf/[0-9a-f]{16}\.js">', text)[0]  # type: ignore[index]
    ]


def test_only_the_file_of_a_test_has_its_message() -> None:
    facts = facts_with("plain")
    (row,) = Site(facts).rows
    assert "message" not in row
    assert facts["tests"][0]["message"] not in Site(facts).files["index.html"].decode()


def test_other_facts_have_another_file() -> None:
    one, other = (facts_of(measurement(session=session, seconds=seconds)) for session, seconds in (("a", 1), ("b", 2)))
    assert Site(one).rows[0]["file"] != Site(other).rows[0]["file"]


# Its folder


def pages(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


FIRST, SECOND = dict(site(facts_with("first"))), dict(site(facts_with("second")))


def test_a_site_replaces_the_one_before_and_keeps_what_is_not_its_own(tmp_path: Path) -> None:
    folder_of.write(tmp_path / "site", FIRST.items())
    theirs = {"CNAME": b"perf.example.com", "tfperf/jquery.js": b"", "tfperf/0123456789abcdef.css": b""}
    for name, content in theirs.items():
        (tmp_path / "site" / name).write_bytes(content)
    folder_of.require_own(tmp_path / "site")
    folder_of.write(tmp_path / "site", SECOND.items())
    assert pages(tmp_path / "site") == SECOND | theirs


@pytest.mark.parametrize("written", range(len(SECOND)))
def test_a_run_that_fails_leaves_the_site_before_whole(
    written: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder_of.write(tmp_path, FIRST.items())
    replace, done = files.replace, []

    def fails(path: Path, data: bytes) -> None:
        if len(done) == written:
            raise OSError(28, "No space left on device")
        done.append(path)
        replace(path, data)

    monkeypatch.setattr(files, "replace", fails)
    with pytest.raises(TfperfError, match=r"can't be written: No space left on device\. Free some space"):
        folder_of.write(tmp_path, SECOND.items())
    assert FIRST.items() <= pages(tmp_path).items()
    monkeypatch.undo()
    folder_of.write(tmp_path, SECOND.items())
    assert pages(tmp_path) == SECOND


def test_what_a_killed_run_left_is_no_foreign_folder_and_is_removed(tmp_path: Path) -> None:
    (tmp_path / "tfperf").mkdir()
    (tmp_path / "tfperf" / ".tfperf-0123456789abcdef").write_text("half")
    folder_of.require_own(tmp_path)
    folder_of.write(tmp_path, FIRST.items())
    assert pages(tmp_path) == FIRST


# Its command


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> History:
    """Of two machines, whose last sessions are two."""
    monkeypatch.chdir(tmp_path)
    history = History(tmp_path / "history.sqlite")
    for day, machine in ((1, "old"), (2, "old"), (3, "new")):
        when = {"session": f"s{day}", "time": f"2026-01-0{day}T03:00:00+00:00", "machine": machine}
        history.append(measurement(**when))
        history.append(interleaved(test=f"t.py::test_{day}", **when))
    return history


def said(capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, str]:
    status = main(["report", "--dir", ".", *options])
    return status, "".join(capsys.readouterr())


def machines_in(index: Path) -> set[str]:
    return set(json.loads(Tags(index.read_text()).facts)["columns"]["machine"])


@pytest.mark.usefixtures("history")
def test_a_site_has_the_last_session_of_each_machine(capsys: pytest.CaptureFixture[str]) -> None:
    status, text = said(capsys, "--site", "site")
    assert (status, text.endswith(": site/index.html\n")) == (0, True)
    index = Path("site/index.html").read_text()
    assert "2 sessions" in index
    assert ["t.py::test_1" in index, "t.py::test_2" in index, "t.py::test_3" in index] == [False, True, True]


@pytest.mark.usefixtures("history")
@pytest.mark.parametrize(
    ("options", "machines"),
    [
        ([], {"old", "new"}),
        (["--machine", "old"], {"old"}),
        (["--session", "s3"], {"new"}),
        (["--since", "2026-01-03"], {"new"}),
    ],
)
def test_filters_narrow_a_site_as_they_narrow_a_page(
    options: list[str], machines: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert said(capsys, "--site", "site", *options)[0] == 0
    assert machines_in(Path("site/index.html")) == machines


@pytest.mark.usefixtures("history")
@pytest.mark.parametrize(
    ("options", "fact"),
    [
        (
            ["--site", "theirs"],
            "--site=theirs: that folder has files, and no site of `tfperf report --site`. Name",
        ),
        (["--site", "history.sqlite"], "--site=history.sqlite: that is a file. Name a folder"),
        (["--site", "site", "--format", "json"], "a site is HTML. Leave out --site, or --format json"),
        (["--site", "site", "-o", "page.html"], "not allowed with argument"),
    ],
)
def test_what_can_be_no_site_is_refused(
    options: list[str], fact: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "theirs" / "deep").mkdir(parents=True)
    (tmp_path / "theirs" / "deep" / "index.html").write_text("theirs")
    before = pages(tmp_path)
    status, text = said(capsys, *options)
    assert (status, fact in text) == (4, True)
    assert pages(tmp_path) == before
