"""`--tfperf-base` beside a history and a baselines file that were made before there was such an option."""

from __future__ import annotations

import shutil
from pathlib import Path

from pytest_tfperf.stores.history import History
from tests.helpers.inner import Project
from tests.helpers.repositories import ONE_READING, Repository

DATA = Path(__file__).parents[2] / "data"


def test_a_comparison_is_added_to_an_older_history_and_older_baselines_stay(played_project: Project) -> None:
    repository = Repository(played_project)
    (played_project.folder / ".tfperf").mkdir(exist_ok=True)
    history = played_project.folder / ".tfperf" / "history.sqlite"
    shutil.copy(DATA / "histories" / "before-figures.sqlite", history)
    rows = DATA / "measurements" / "baselines" / "recorded.csv"
    played_project.write("baselines/recorded.csv", rows.read_text("utf-8"))
    repository.commit("baselines")
    repository.git("switch", "--quiet", "--create", "changed")
    repository.commit("nothing")
    options = (*ONE_READING, "-o", "tfperf_machine=recorded")
    session = played_project.run("perf_tests", "--tfperf-base=main", *options)
    assert (session.kinds, session.status) == ({"test_loop": "passed"}, 0), session.text
    assert [one.session for one in History(history).measurements()] == ["monday", "tuesday"]
    assert len(list(History(history).comparisons())) == 1
    assert (played_project.folder / "baselines" / "recorded.csv").read_text("utf-8") == rows.read_text("utf-8")
