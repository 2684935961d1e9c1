"""What the hook reports of each audit event, and what it leaves out."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_tfperf.revisions.source_hook import _archive_of, _moved, _Reporter


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder that is reported, with a file."""
    folder = (tmp_path / "tree").resolve()
    (folder / "nets").mkdir(parents=True)
    (folder / "nets" / "a.py").write_text("A = 1\n")
    return folder


def heard(tree: Path, *events: tuple[str, tuple[Any, ...]]) -> list[list[str]]:
    """The lines of a report of these events."""
    report = tree.parent / "report"
    reporter = _Reporter(str(report), [str(tree)])
    for event, arguments in events:
        reporter.hear(event, arguments)
    return [line.split("\t") for line in report.read_text().splitlines()] if report.exists() else []


def code_of(path: Path) -> Any:
    return compile("", str(path), "exec")


@pytest.mark.parametrize(
    ("event", "before", "behind", "kind"),
    [
        ("open", (), ("r", 0), "file"),
        ("open", (), ("r+", 0), "file"),
        ("open", (), ("w+", 0), "file"),
        ("open", (), (None, os.O_RDONLY), "file"),
        ("open", (), (None, os.O_RDWR), "file"),
        ("import", ("nets.a",), (), "code"),
        ("ctypes.dlopen", (), (), "code"),
        ("cpython.run_file", (), (), "program"),
        ("subprocess.Popen", (), (["a.py"],), "program"),
        ("os.exec", (), (["a.py"], {}), "program"),
        ("os.posix_spawn", (), (["a.py"], {}), "program"),
    ],
)
def test_a_file_of_the_tree_is_reported_as_what_it_is_used_for(
    tree: Path, event: str, before: tuple[Any, ...], behind: tuple[Any, ...], kind: str
) -> None:
    path = str(tree / "nets" / "a.py")
    assert heard(tree, (event, (*before, path, *behind))) == [[kind, path, path]]


@pytest.mark.parametrize(
    ("event", "behind"), [("open", ("w", 0)), ("open", (None, os.O_WRONLY)), ("socket.connect", ())]
)
def test_what_is_only_written_and_other_events_are_not_reported(
    tree: Path, event: str, behind: tuple[Any, ...]
) -> None:
    assert heard(tree, (event, (str(tree / "nets" / "a.py"), *behind))) == []


def test_code_is_reported_by_its_file_and_the_script_itself_as_a_program(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, script = tree / "nets" / "a.py", tree / "train.py"
    script.touch()
    monkeypatch.setattr(sys, "argv", [str(script)])
    found = heard(tree, ("exec", (code_of(path),)), ("exec", (code_of(script),)), ("exec", (code_of(Path("<x>")),)))
    assert [(kind, real) for kind, _, real in found] == [("code", str(path)), ("program", str(script))]


def test_each_file_is_reported_once_for_each_use(tree: Path) -> None:
    path = str(tree / "nets" / "a.py")
    uses = [("open", (path, "r", 0)), ("import", ("nets.a", path))]
    assert [kind for kind, _, _ in heard(tree, *uses, *uses)] == ["file", "code"]


@pytest.mark.parametrize("source", ["A = 1\n", b"A = 1\n"], ids=["text", "bytes"])
def test_a_text_that_is_run_is_the_code_of_the_file_that_it_was_read_from(tree: Path, source: str | bytes) -> None:
    path = str(tree / "nets" / "a.py")
    events = [("open", (path, "r", 0)), ("compile", (source, "<string>"))]
    assert [kind for kind, _, _ in heard(tree, *events)] == ["file", "code"]


@pytest.mark.parametrize(("source", "name"), [("B = 1\n", "<string>"), ("A = 1\n", "b.py"), (None, "<string>")])
def test_another_text_is_no_code_of_a_file(tree: Path, source: str | None, name: str) -> None:
    events = [("open", (str(tree / "nets" / "a.py"), "r", 0)), ("compile", (source, name))]
    assert [kind for kind, _, _ in heard(tree, *events)] == ["file"]


def test_a_link_is_reported_with_the_file_that_it_leads_to(tree: Path) -> None:
    link = tree / "b.py"
    link.symlink_to("nets/a.py")
    assert heard(tree, ("open", (os.fsencode(link), "r", 0))) == [["file", str(link), str(tree / "nets" / "a.py")]]


def test_of_other_folders_programs_alone_are_reported(tree: Path) -> None:
    other = tree.parent / "tree-2" / "run.sh"
    other.parent.mkdir()
    other.touch()
    found = heard(tree, ("open", (str(other), "r", 0)), ("subprocess.Popen", (str(other),)), ("os.exec", ("nowhere",)))
    assert found == [["program", str(other), str(other)]]


@pytest.mark.parametrize("library", ["site-packages", "dist-packages"])
def test_installed_packages_of_the_tree_are_none_of_its_files(tree: Path, library: str) -> None:
    path = tree / library / "a.txt"
    path.parent.mkdir()
    path.touch()
    assert heard(tree, ("open", (str(path), "r", 0))) == []


def test_a_program_in_an_archive_is_reported_as_the_archive(tree: Path) -> None:
    archive = tree / "train.pyz"
    archive.touch()
    assert heard(tree, ("import", ("m", str(archive / "m.py")))) == [["program", str(archive), str(archive)]]
    assert (_archive_of(str(archive / "a" / "b")), _archive_of(str(tree / "no" / "b"))) == (str(archive), "")


@pytest.mark.parametrize(
    ("file", "name", "place"),
    [
        ("alone.py", "alone", "alone"),
        ("alone.cpython-312.so", "alone", "alone"),
        ("__pycache__/alone.cpython-312.pyc", "alone", "alone"),
        ("whole/layers/a.py", "whole", "whole"),
        ("space/part/a.py", "space.part", "space/part"),
    ],
)
def test_a_module_elsewhere_is_reported_as_its_package_on_the_import_path(
    tree: Path, monkeypatch: pytest.MonkeyPatch, file: str, name: str, place: str
) -> None:
    root = tree.parent / "packages"
    for path in ("whole/__init__.py", "whole/layers/__init__.py", "space/part/__init__.py", file):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()
    monkeypatch.setattr(sys, "path", ["", str(tree.parent), str(root)])
    assert heard(tree, ("import", ("m", str(root / file)))) == [["package", name, str(root / place)]]


def test_an_entry_of_the_import_path_moves_with_its_folder(tree: Path) -> None:
    moved = {str(tree): "/base"}
    entries = [str(tree), str(tree / "nets"), f"{tree}-2", "/base/nets", str(tree / "site-packages"), ""]
    assert [_moved(entry, moved) for entry in entries] == ["/base", "/base/nets", *entries[2:]]
