"""`tfperf baselines merge`: files that two branches of a real repository recorded."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from pytest_tfperf import cli
from pytest_tfperf.core.baseline import Key
from pytest_tfperf.errors import BaselineError
from pytest_tfperf.stores.baseline_file import BaselineStore
from tests.helpers.measurements import baseline
from tests.helpers.repositories import git as run

GREEN, USAGE = 0, 4
WHO = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "commit.gpgsign=false")
OLD_LOCK, NEW_LOCK = "box-11111111.lock.txt", "box-22222222.lock.txt"


class Branches:
    """A repository with eight recorded rows of one machine on `main`, which is checked out, and on `other`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = BaselineStore(folder / "baselines", published=None)
        self.git("init", "--quiet", "--initial-branch=main")
        self.record(dict.fromkeys("abcdefgh", 1000.0), "2026-01-01")
        self.commit()
        self.git("branch", "other")

    def git(self, *arguments: str) -> str:
        return run(self.folder, *WHO, *arguments)

    def commit(self) -> None:
        self.git("add", ".")
        self.git("commit", "--quiet", "--message=more")

    def record(self, values: Mapping[str, float], date: str, lock: str = OLD_LOCK) -> None:
        keys = {name: Key(name, "1x1") for name in values}
        rows = {key: baseline(values[name], key=key, date=date, lock=lock) for name, key in keys.items()}
        self.store.update("box", rows)
        (self.folder / "baselines" / lock).write_text("# python: 3.11.7\n")

    def on_other(self, values: Mapping[str, float], date: str) -> None:
        self.git("checkout", "--quiet", "other")
        self.record(values, date)
        self.commit()
        self.git("checkout", "--quiet", "main")

    def conflict(self, *command: str) -> None:
        with pytest.raises(Exception, match="returned non-zero exit status 1"):
            self.git(*(command or ("merge", "--quiet", "other")))

    @property
    def rows(self) -> dict[str, float]:
        return {key.workload: row.value for key, row in self.store.load("box").items()}


@pytest.fixture
def branches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Branches:
    monkeypatch.chdir(tmp_path)
    return Branches(tmp_path)


def merge(*arguments: str) -> int:
    return cli.main(["baselines", "merge", *arguments])


def test_rows_that_both_branches_recorded_are_merged_and_the_merge_can_be_committed(
    branches: Branches, capsys: pytest.CaptureFixture[str]
) -> None:
    branches.on_other({"b": 1100.0, "b2": 5.0}, "2026-02-01")
    branches.record({"b": 1200.0, "b1": 7.0}, "2026-02-02")
    branches.commit()
    branches.conflict()
    assert merge() == GREEN
    said = "b 1x1: kept 1,200 images/s of 2026-02-02 (ours), not 1,100 images/s of 2026-02-01 (theirs)\n"
    assert said in capsys.readouterr().out
    branches.git("commit", "--quiet", "--no-edit")
    assert branches.rows == dict.fromkeys("acdefgh", 1000.0) | {"b": 1200.0, "b1": 7.0, "b2": 5.0}


def test_a_rebase_goes_on_after_it(branches: Branches) -> None:
    branches.on_other({"b": 1100.0, "b2": 5.0}, "2026-02-01")
    branches.record({"b": 1200.0}, "2026-02-02")
    branches.commit()
    branches.conflict("rebase", "--quiet", "main", "other")
    assert merge() == GREEN
    branches.git("-c", "core.editor=true", "rebase", "--continue")
    assert (branches.rows["b"], branches.rows["b2"]) == (1200.0, 5.0)


def test_a_file_that_one_branch_deleted_keeps_only_the_rows_that_the_other_recorded(
    branches: Branches, capsys: pytest.CaptureFixture[str]
) -> None:
    branches.on_other({"b": 1100.0}, "2026-02-01")
    branches.git("rm", "--quiet", "baselines/box.csv")
    branches.git("commit", "--quiet", "--message=the machine is gone")
    branches.conflict()
    assert merge() == GREEN
    assert branches.rows == {"b": 1100.0}
    assert "b 1x1: kept 1,100 images/s of 2026-02-01 (theirs), which ours deleted" in capsys.readouterr().out


def test_a_lock_that_one_branch_no_longer_needed_comes_back_for_the_others_rows(
    branches: Branches, capsys: pytest.CaptureFixture[str]
) -> None:
    branches.on_other({"b2": 5.0}, "2026-02-01")
    branches.record(dict.fromkeys("abcdefgh", 1100.0), "2026-02-02", NEW_LOCK)
    (branches.folder / "baselines" / OLD_LOCK).unlink()
    branches.commit()
    branches.conflict()
    assert merge() == GREEN
    assert f"{OLD_LOCK}: restored, because rows name it" in capsys.readouterr().out
    branches.git("commit", "--quiet", "--no-edit")
    assert branches.git("ls-files", "baselines").splitlines() == [
        f"baselines/{OLD_LOCK}",
        f"baselines/{NEW_LOCK}",
        "baselines/box.csv",
    ]


def in_conflict(branches: Branches) -> None:
    branches.on_other({"b": 1100.0}, "2026-02-01")
    branches.record({"b": 1200.0}, "2026-02-02")
    branches.commit()
    branches.conflict()


def test_who_reads_an_unfinished_file_is_told_of_the_command(branches: Branches) -> None:
    in_conflict(branches)
    with pytest.raises(BaselineError, match=r"box\.csv, line 3: .* unfinished\. `tfperf baselines merge` finishes it"):
        BaselineStore(branches.folder / "baselines", published=None).load("box")


def test_what_was_merged_by_hand_is_left_alone(branches: Branches, capsys: pytest.CaptureFixture[str]) -> None:
    in_conflict(branches)
    branches.git("checkout", "--quiet", "--theirs", "baselines/box.csv")
    assert merge() == USAGE
    assert branches.rows["b"] == 1100.0
    assert "it was merged by hand. Finish with git add baselines/box.csv, or begin again" in capsys.readouterr().err


def test_a_side_that_cannot_be_read_is_named_and_nothing_is_written(
    branches: Branches, capsys: pytest.CaptureFixture[str]
) -> None:
    branches.on_other({"b": 1100.0}, "2026-02-01")
    path = branches.folder / "baselines" / "box.csv"
    path.write_text(path.read_text().replace("b,1x1,1000", "b,1x1,fast"))
    branches.commit()
    branches.conflict()
    before = path.read_text()
    assert merge() == USAGE
    assert "box.csv (ours), line 3: value 'fast' is not a number" in capsys.readouterr().err
    assert path.read_text() == before


def test_without_a_conflict_there_is_nothing_to_merge(branches: Branches, capsys: pytest.CaptureFixture[str]) -> None:
    assert merge() == USAGE
    assert "baselines: git has no unfinished merge of a file there" in capsys.readouterr().err
