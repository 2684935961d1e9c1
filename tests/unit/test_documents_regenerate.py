"""The importers' errors, and the command that writes the published baselines again."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_tfperf.core.baseline import Baseline, Key, Provenance
from pytest_tfperf.errors import BaselineError, DocumentError
from pytest_tfperf.stores.baselines import BaselineStore
from pytest_tfperf.stores.documents import DOCUMENTS, azure, lambda_cpu, regenerate, tensorpack

FOLDER = Path(__file__).parents[1] / "data" / "documents"
TEXT = {name: (FOLDER / name).read_bytes().decode() for name in DOCUMENTS}


# The command


def copied(folder: Path) -> Path:
    return Path(shutil.copytree(FOLDER, folder, copy_function=shutil.copyfile))


def test_the_report_counts_what_was_read(tmp_path: Path) -> None:
    shown = str(regenerate(FOLDER, tmp_path))
    assert f"{lambda_cpu.NAME}: 252 baselines, 63 not measured" in shown
    assert "291 of 291 rows are new or changed" in shown


def test_a_second_time_nothing_changes(tmp_path: Path) -> None:
    regenerate(FOLDER, tmp_path)
    assert "0 of 291 rows are new or changed" in str(regenerate(FOLDER, tmp_path))


def test_measured_rows_of_a_documents_machine_stay(tmp_path: Path) -> None:
    measured = [
        Baseline(machine="dgx1-p100", key=Key("resnet50-b64-replicated-device", topology), reference=1.5)
        for topology in ("1x8", "1x3")
    ]
    store = BaselineStore(tmp_path, published=None)
    store.update("dgx1-p100", {row.key: row for row in measured})
    regenerate(FOLDER, tmp_path)
    rows = store.load("dgx1-p100")
    assert [rows[row.key] for row in measured] == measured
    assert len(rows) == 33


def test_a_published_row_that_no_document_has_any_more_goes(tmp_path: Path) -> None:
    old = Key("resnet50-b64-replicated-device", "1x16")
    store = BaselineStore(tmp_path, published=None)
    row = Baseline(machine="dgx1-p100", key=old, reference=1.5, provenance=Provenance.PUBLISHED)
    store.update("dgx1-p100", {old: row})
    regenerate(FOLDER, tmp_path)
    assert old not in store.load("dgx1-p100")


def test_files_of_other_machines_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("not even a baselines file\n")
    regenerate(FOLDER, tmp_path)
    assert (tmp_path / "mine.csv").read_text() == "not even a baselines file\n"


def test_one_broken_document_leaves_all_files_as_they_are(tmp_path: Path) -> None:
    documents = copied(tmp_path / "documents")
    (documents / lambda_cpu.NAME).write_text("nothing\n")
    with pytest.raises(DocumentError):
        regenerate(documents, tmp_path / "baselines")
    assert not (tmp_path / "baselines").exists()


def test_a_missing_document_is_named(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match=rf"{azure.NAME} can't be read: No such file"):
        regenerate(tmp_path, tmp_path)


def test_an_unwritable_folder_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BaselineError, match="can't be written"):
        regenerate(FOLDER, tmp_path / "file")


# Documents that are not in their form


@pytest.mark.parametrize(
    ("name", "old", "new", "fact"),
    [
        (azure.NAME, "| 209.87 ", "| 209.xx ", "line 14: '209.xx' is not a figure"),
        (azure.NAME, "| 209.87 ", "| 219.87 ", "line 14: 219.87 images/sec over 2 x 2 GPUs is 54.97 for each"),
        (azure.NAME, "56.57      | 56.57", "56.67      | 56.67", "line 11: 56.67 is none of the totals of its log"),
        (azure.NAME, "### test 4:", "### trial 4:", "line 14: test 4 has no section"),
        (azure.NAME, "2    | 1    | 2   | 109.34     | 54.67          | DSVM (python3) + local\n", "", "no row in the"),
        (azure.NAME, "total images/sec: 56.57", "total images/sec: 0", "line 37: total images/sec"),
        (azure.NAME, "images/sec/gpu", "each", "no summary with the columns"),
        (azure.NAME, "/dedicated", "/spot", "line 17: 'BatchAI"),
        (tensorpack.NAME, "802/785/787", "802/785", "line 41: '802/785' is not three figures"),
        (tensorpack.NAME, "802/785/787", "802/785/fast", "line 41: 'fast' is not a figure"),
        (tensorpack.NAME, "v1.3.0", "1.3.0", "TF Version"),
        (
            tensorpack.NAME,
            "variable_update=parameter_server:",
            "ps:",
            "no table under 'variable_update=parameter_server",
        ),
        (lambda_cpu.NAME, "726.86", "7x", "line 40: '7x' is not a figure"),
        (lambda_cpu.NAME, "resnet50 |726.86 |", "resnet50 |", "line 40: 5 cells under 6 columns"),
        (lambda_cpu.NAME, "resnet50 |726.86", "resnet5O |726.86", "line 40: unknown model 'resnet5O'"),
        (
            lambda_cpu.NAME,
            "resnet50 |726.86 |734.73 |757.49 |0 |732.31 |\n",
            "",
            "line 38: the table has no row for resnet50",
        ),
        (lambda_cpu.NAME, "**real-replicated-4gpus**", "**real**", "8 tables under headings"),
    ],
)
def test_a_document_that_is_not_in_its_form_is_refused_with_its_line(name: str, old: str, new: str, fact: str) -> None:
    assert old in TEXT[name]
    with pytest.raises(DocumentError) as error:
        DOCUMENTS[name](TEXT[name].replace(old, new, 1))
    assert str(error.value).startswith(name)
    assert fact in str(error.value)


def test_a_figure_of_0_in_any_document_is_not_measured() -> None:
    imported = DOCUMENTS[tensorpack.NAME](TEXT[tensorpack.NAME].replace("1612/", "0/"))
    assert imported.not_measured == (f"{tensorpack.NAME}, replicated, 8 GPUs, tensorpack gpu",)
    assert len(imported.baselines) == 31


@settings(deadline=None)
@given(st.sampled_from(sorted(DOCUMENTS)), st.text())
def test_no_text_makes_an_importer_crash(name: str, text: str) -> None:
    with pytest.raises(DocumentError):
        DOCUMENTS[name](text)


_pieces = st.sampled_from(
    ["|", "\n", "0", "-1", "nan", "/", "```\n", "**", "| --- | --- |\n", "### test 1:"]
) | st.text(max_size=5)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(sorted(DOCUMENTS)), st.data())
def test_no_mutation_of_a_document_makes_its_importer_crash(name: str, data: st.DataObject) -> None:
    text = TEXT[name]
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        text = text[:at] + data.draw(_pieces) + text[at + data.draw(st.integers(0, 60)) :]
    with suppress(DocumentError):
        assert len(DOCUMENTS[name](text).baselines) <= 315
