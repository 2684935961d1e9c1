"""Sessions that pull when they begin and push when they end, and what becomes of them where that fails."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from pytest_tfperf.core.history_url import HistoryUrl
from pytest_tfperf.features.sharing import sync
from pytest_tfperf.features.sharing.plugin import pushes
from tests.helpers.inner import ANY_THROUGHPUT, Project
from tests.helpers.patience import PATIENCE_SECONDS, wait_for

# What a program prints is the same on any machine, however busy, and each night prints its own.
PROGRAM = """
    import os, random

    night = int(os.environ["NIGHT"])
    chance = random.Random(f"{night} {os.environ['OF']}")
    level = 1000 * chance.gauss(1, 0.004) * (0.93 if night > 7 else 1)
    for step in range(30):
        print(f"{level + step % 2 / 10:.3f} examples/s")
"""
TESTS = """
    import os, sys

    @pytest.mark.parametrize("of", ["judged", "provisional"])
    def test_of(throughput, on, of):
        env = {"OF": of, "NIGHT": os.environ["NIGHT"]}
        program = Command([sys.executable, "program.py"], name=of, reads=RATES_TO_THE_END, env=env)
        throughput.check(program, on=on)
"""


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    with project_in(tmp_path / "project") as made:
        yield made


def project_in(folder: Path) -> Project:
    made = Project(folder, trains=False)
    made.tests(TESTS)
    made.write("program.py", PROGRAM)
    made.baseline("judged", unit="examples", **{**ANY_THROUGHPUT, "lower": -0.02, "upper": 0.02})
    return made


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions wait for their pull and push as long as the machine needs, and run on no CI."""
    monkeypatch.setattr(sync, "SESSION_SECONDS", PATIENCE_SECONDS)
    for name in ("CI", "BUILD_BUILDID", "JENKINS_URL", "TEAMCITY_VERSION"):
        monkeypatch.delenv(name, raising=False)


def sessions_in(folder: Path) -> list[str]:
    return [path.name for path in sorted(folder.rglob("*.json.gz"))]


def test_a_session_on_ci_sends_itself_and_the_next_fresh_runner_knows_it(project: Project, tmp_path: Path) -> None:
    place = str(tmp_path / "place")
    finished = project.run(TFPERF_HISTORY_URL=place, CI="true", NIGHT="1")
    assert finished.status == 0, finished.text
    (sent,) = sessions_in(tmp_path / "place")
    shutil.rmtree(project.folder / ".tfperf")
    project.run(TFPERF_HISTORY_URL=place, NIGHT="2")
    assert f"{[*project.history.newest_sessions()][-1][0]}.json.gz" == sent


@pytest.mark.parametrize(
    ("asked", "variables", "expected"),
    [
        (None, {}, False),
        (None, {"CI": "true"}, True),
        (None, {"CI": "1"}, True),
        (None, {"CI": "false"}, False),
        (None, {"JENKINS_URL": "http://ci"}, True),
        (True, {}, True),
        (False, {"CI": "true"}, False),
    ],
)
def test_only_ci_sends_by_itself(
    asked: bool | None, variables: dict[str, str], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert pushes(asked) == expected


def test_a_laptops_session_sends_nothing(project: Project, tmp_path: Path) -> None:
    project.run(TFPERF_HISTORY_URL=str(tmp_path / "place"), NIGHT="1")
    assert sessions_in(tmp_path) == []


def test_a_place_that_can_not_be_used_fails_no_session(project: Project, tmp_path: Path) -> None:
    (tmp_path / "place").write_text("a file")
    finished = project.run(TFPERF_HISTORY_URL=str(tmp_path / "place"), CI="true", NIGHT="1")
    lines = [line for line in finished.text.splitlines() if "history not " in line]
    assert (finished.status, [line.split(":")[0] for line in lines]) == (
        0,
        ["tfperf", "history not pulled", "history not sent"],
    ), finished.text


def test_what_was_not_sent_goes_with_the_next(project: Project, tmp_path: Path) -> None:
    bad, good = tmp_path / "file", tmp_path / "place"
    bad.write_text("")
    project.run(TFPERF_HISTORY_URL=str(bad), CI="true", NIGHT="1")
    project.run(TFPERF_HISTORY_URL=str(good), CI="true", NIGHT="2")
    assert len(sessions_in(good)) == 2


def test_a_pull_that_takes_too_long_is_said_and_the_session_goes_on(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync, "SESSION_SECONDS", 1.5)
    pipe = tmp_path / "place" / "v1" / "box" / "2026-01" / "s.json.gz"
    git = tmp_path / "bin" / "git"
    git.parent.mkdir()
    git.write_text(f'#!/bin/sh\ncase "$*" in *fetch*) exec sleep 607;; esac\nexec {shutil.which("git")} "$@"\n')
    git.chmod(git.stat().st_mode | stat.S_IXUSR)
    place = f"git+file://{pipe}"
    finished = project.run(
        "--tfperf-json=result.json",
        TFPERF_HISTORY_URL=place,
        NIGHT="1",
        PATH=f"{git.parent}{os.pathsep}{os.environ['PATH']}",
    )
    said = f"history not pulled whole: {HistoryUrl(place)} took more than 1.5 s. The next pull brings the rest"
    assert (finished.status, said in finished.text) == (0, True), finished.text
    assert said in json.loads((project.folder / "result.json").read_text())["remarks"]
    assert wait_for(
        lambda: not any("607" in (process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"]))
    )


def test_a_smoke_run_pulls_and_sends_nothing(project: Project, tmp_path: Path) -> None:
    (tmp_path / "place").write_text("a file")
    finished = project.run("--tfperf-smoke", TFPERF_HISTORY_URL=str(tmp_path / "place"), CI="true", NIGHT="1")
    assert (finished.status, "history not" in finished.text) == (0, False), finished.text


def test_a_session_says_so_where_the_secret_is_empty(project: Project) -> None:
    finished = project.run(TFPERF_HISTORY_URL="", NIGHT="1")
    assert (finished.status, "history not sent: TFPERF_HISTORY_URL is empty" in finished.text) == (0, True)


def _verdicts(project: Project) -> list[list[Any]]:
    """Outcome and numbers of each test, which depend on what earlier sessions measured."""
    facts = json.loads((project.folder / "result.json").read_text())
    kept = ("name", "outcome", "rate", "baseline", "threshold", "change_low", "change_high", "detectable")
    return [[test[name] or 0.0 for name in kept] for test in sorted(facts["tests"], key=lambda test: str(test["name"]))]


@pytest.mark.slow
def test_ten_fresh_runners_judge_as_one_that_stays(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", "--bare", str(tmp_path / "origin.git")], check=True)
    found = {}
    for kind in ("stays", "fresh"):
        with project_in(tmp_path / kind) as project:
            for night in range(1, 11):
                if kind == "fresh":
                    shutil.rmtree(project.folder / ".tfperf", ignore_errors=True)
                shared = {"TFPERF_HISTORY_URL": f"git+file://{tmp_path}/origin.git", "CI": "true"}
                project.run("--tfperf-json=result.json", NIGHT=str(night), **(shared if kind == "fresh" else {}))
                found[kind, night] = _verdicts(project)
    assert {len(found["stays", night]) for night in range(1, 11)} == {2}
    assert {outcome for night in range(2, 11) for _, outcome, *_ in found["stays", night]} >= {"PASS", "REGRESSED"}
    for night in range(1, 11):
        for fresh, stays in zip(found["fresh", night], found["stays", night], strict=True):
            assert fresh[:2] == stays[:2]
            # Which lines belong to the warm-up depends on when they arrive.
            assert fresh[2:] == pytest.approx(stays[2:], rel=1e-3, abs=1e-3)
