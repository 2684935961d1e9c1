"""Rows of a machine whose name had no CPU generation in it yet."""

from __future__ import annotations

import pytest

from pytest_tfperf.core.baseline import Key
from pytest_tfperf.core.topology import host_part
from pytest_tfperf.hardware import host
from tests.helpers.inner import ANY_THROUGHPUT, Project
from tests.helpers.measurements import baseline

TESTS = """
    def test_even(throughput, on):
        throughput.check(tiny(4, "nets:even"), on=on)
"""
OLD, NOW = "AMD EPYC", "AMD EPYC family 25 model 17"


def test_a_file_of_the_earlier_name_is_named_with_the_next_step_and_counts_once_it_is_renamed(
    played_project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "cpu_model", lambda _: NOW)
    old, now = (host_part(model, host.usable_cores()) for model in (OLD, NOW))
    ini = played_project.folder / "pytest.ini"
    ini.write_text(ini.read_text().replace("tfperf_machine = box\n", ""))
    played_project.tests(TESTS)
    played_project.write("even", "20.0")
    played_project.run("-m", "cpu")
    (measured,) = played_project.history.measurements()
    assert measured.machine == now
    row = baseline(**ANY_THROUGHPUT, machine=old, key=Key(measured.workload.id, measured.topology))
    played_project.baselines.update(old, {row.key: row})
    folder, said = played_project.baselines.folder, f"{old}.csv does not count: this machine's name is now {now}"
    text = played_project.run("-m", "cpu", "--tfperf-require-baseline").text
    assert text.count(said) == 2, text  # before the first test, and in the summary
    assert f"rename the file to {now}.csv" in text
    (folder / f"{old}.csv").rename(folder / f"{now}.csv")
    renamed = played_project.run("-m", "cpu", "--tfperf-require-baseline")
    assert (renamed.status, "does not count" in renamed.text) == (0, False), renamed.text
