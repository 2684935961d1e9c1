"""What an installed plugin does to those who measure nothing: it costs little, and takes no name from a project."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.inner import ANY_THROUGHPUT, Project

ALLOWED = (
    "pytest_tfperf.bench.feature",
    "pytest_tfperf.core.exit_status",
    "pytest_tfperf.core.data_sets",
    "pytest_tfperf.core.history_url",
    "pytest_tfperf.core.rerun_command",
    "pytest_tfperf.core.selection",
    "pytest_tfperf.core.setting",
    "pytest_tfperf.core.settings",
    "pytest_tfperf.errors",
    "pytest_tfperf.lines",
    "pytest_tfperf.plugin",
    "pytest_tfperf.stores.files",
    "pytest_tfperf.workers.catalogue",
)
"""What each session of pytest imports, beside `session/` and the features' settings."""

NOTES_IMPORTS = """
    import sys

    def pytest_unconfigure():
        ours = [module for name, module in sys.modules.items() if name.startswith("pytest_tfperf.")]
        with open("imported", "a") as file:  # pytest-xdist's worker writes its own
            print(*[module.__name__ for module in ours if not hasattr(module, "__path__")], file=file)
        with open("rewritten", "a") as file:
            print(*[each.__name__ for each in ours if "Rewriting" in type(each.__loader__).__name__], file=file)
"""

ORDINARY = """
    import pytest

    @pytest.mark.parametrize("number", [1, 2])
    def test_other(number):
        pass
"""


def noted(project: Project, notes: str, *options: str) -> list[set[str]]:
    """The modules of ours that each process of a session without throughput tests imported, or that pytest rewrote."""
    project.write("pytest.ini", "[pytest]")
    project.write("conftest.py", NOTES_IMPORTS)
    project.write("test_other.py", ORDINARY)
    project.end_of(project.start("test_other.py", "-p", "no:hypothesispytest", *options))
    return [set(line.split()) for line in (project.folder / notes).read_text().splitlines()]


@pytest.mark.parametrize("options", [(), ("--collect-only",), ("--help",), ("-n", "1")], ids=" ".join)
def test_a_session_without_throughput_tests_imports_settings_only(project: Project, options: tuple[str, ...]) -> None:
    processes = noted(project, "imported", *options)
    assert len(processes) == (2 if "-n" in options else 1)
    needed = {
        name
        for name in set.union(*processes)
        if not (name.startswith("pytest_tfperf.session.") or name.endswith(".plugin"))
    }
    assert sorted(needed - set(ALLOWED)) == []


def test_a_session_without_throughput_tests_does_not_import_what_measures_in_session(project: Project) -> None:
    heavy = {f"pytest_tfperf.session.{name}" for name in ("fixture", "outcomes", "summary", "expected_time")}
    (imported,) = noted(project, "imported")
    assert not imported & heavy


def test_a_setting_for_throughput_tests_imports_no_more_than_reads_it(project: Project) -> None:
    noted(project, "imported")
    without, with_it = noted(project, "imported", "-o", "tfperf_also=peak_memory")
    assert with_it - without == {"pytest_tfperf.core.figure"}


def test_pytest_rewrites_none_of_our_modules_but_its_entry(project: Project) -> None:
    # What is rewritten is compiled in each run where its bytecode can't be written.
    (rewritten,) = noted(project, "rewritten")
    assert rewritten <= {"pytest_tfperf.session", "pytest_tfperf.plugin"}


# --- names that a project has for something of its own


STRANGERS = {
    "a parameter": """
        import pytest

        @pytest.mark.parametrize("throughput", [100, 200])
        def test_it(throughput):
            assert throughput in (100, 200)
    """,
    "a fixture": """
        import pytest

        @pytest.fixture
        def throughput():
            return 100

        def test_it(throughput):
            assert throughput == 100
    """,
    "a fixture of a class": """
        import pytest

        class TestLine:
            @pytest.fixture(params=[100])
            def throughput(self, request):
                return request.param

            def test_it(self, throughput):
                assert throughput == 100
    """,
    "a parameter of a fixture that ours is shadowed for": """
        import pytest

        def pytest_generate_tests(metafunc):
            metafunc.parametrize("throughput", [100])

        @pytest.fixture
        def speed(throughput):
            return throughput

        def test_it(speed):
            assert speed == 100
    """,
    "an automatic fixture and a doctest": '''
        import pytest

        @pytest.fixture(autouse=True)
        def throughput():
            return 100

        def test_it():
            """
            >>> 1 + 1
            2
            """
    ''',
}


@pytest.mark.parametrize("test", STRANGERS.values(), ids=list(STRANGERS))
def test_a_projects_own_throughput_makes_no_throughput_test(project: Project, test: str) -> None:
    project.write("test_it.py", test)
    ended = project.end_of(project.start("--doctest-modules", "test_it.py"))
    assert set(ended.kinds.values()) == {"passed"}, ended.text
    assert "tfperf:" not in ended.text
    assert not (project.folder / ".tfperf").exists()


OURS = {
    "by name": "def test_it(throughput, on): throughput.measure(tiny(), on=on)",
    "through an override": """
        @pytest.fixture
        def throughput(throughput):
            return throughput.measure

        def test_it(throughput, on):
            throughput(tiny(), on=on)
    """,
    "through another fixture": """
        @pytest.fixture
        def measured(throughput, on):
            return throughput.measure(tiny(), on=on)

        def test_it(measured):
            pass
    """,
    "through an automatic fixture": """
        @pytest.fixture(autouse=True)
        def measured(throughput, on):
            return throughput.measure(tiny(), on=on)

        def test_it():
            pass
    """,
    "by a mark": """
        @pytest.mark.usefixtures("throughput")
        def test_it(request, on):
            request.getfixturevalue("throughput").measure(tiny(), on=on)
    """,
    "in a unittest": """
        import unittest

        class TestLine(unittest.TestCase):
            @pytest.fixture(autouse=True)
            def keep(self, throughput, on):
                self.measure = lambda: throughput.measure(tiny(), on=on)

            def test_it(self):
                self.measure()
    """,
}


@pytest.mark.parametrize("test", OURS.values(), ids=list(OURS))
def test_our_fixture_makes_a_throughput_test_however_it_is_asked_for(played_project: Project, test: str) -> None:
    played_project.tests(test)
    ended = played_project.run()
    assert ended.kinds == {"test_it": "passed"}, ended.text
    assert "tfperf: box, 1 throughput test" in ended.text


# --- an option that a project has for something of its own


OPTIONS = {
    "a flag": "parser.addoption('--update-baselines', action='store_true')",
    "a flag in a group": "parser.getgroup('regressions').addoption('--update-baselines', action='store_true')",
    "a value": "parser.addoption('--update-baselines', metavar='DIR')",
    "a value with our name of it": "parser.addoption('--update-baselines', dest='tfperf_update', choices=['old'])",
}

RECORDED = """
    def test_it(throughput, on):
        throughput.check(tiny(), on=on)
"""


def with_another(project: Project, option: str, of: str) -> tuple[str, ...]:
    """Write a conftest.py or a plugin that has an option `--update-baselines`; returns the options that load it."""
    name = "conftest" if of == "conftest" else "regressions"
    project.write(f"{name}.py", f"def pytest_addoption(parser):\n    {option}\n")
    project.tests(RECORDED)
    return () if of == "conftest" else ("-p", name)


@pytest.mark.parametrize("of", ["conftest", "plugin"])
@pytest.mark.parametrize("option", OPTIONS.values(), ids=list(OPTIONS))
def test_another_option_of_that_name_wins_and_ours_has_a_longer_name(
    played_project: Project, option: str, of: str
) -> None:
    loaded = with_another(played_project, option, of)
    theirs = ["--update-baselines"] if "store_true" in option else ["--update-baselines", "old"]
    ended = played_project.run(*loaded, *theirs)
    assert ended.kinds == {"test_it": "passed"}, ended.text
    assert not (played_project.folder / "baselines").exists()
    assert "--tfperf-update-baselines    (about" in ended.text
    assert " --update-baselines    (about" not in ended.text
    played_project.run(*loaded, "--tfperf-update-baselines")
    assert len(played_project.baselines.load("box")) == 1


@pytest.mark.parametrize("option", OPTIONS.values(), ids=list(OPTIONS))
def test_a_conftest_that_is_loaded_while_tests_are_collected_may_have_an_option_of_that_name(
    played_project: Project, option: str
) -> None:
    played_project.tests(RECORDED, "speed/nets/test_it.py")
    played_project.write("speed/nets/conftest.py", f"def pytest_addoption(parser):\n    {option}\n")
    ended = played_project.run()
    assert ended.kinds == {"test_it": "passed"}, ended.text


def test_the_longer_name_works_everywhere_and_messages_name_the_shorter(played_project: Project) -> None:
    played_project.tests(RECORDED)
    assert " --update-baselines    (about" in played_project.run().text
    played_project.run("--tfperf-update-baselines")
    assert len(played_project.baselines.load("box")) == 1


@pytest.mark.parametrize("option", ["--update-baselines", "--tfperf-update-baselines"])
def test_a_wrong_value_of_either_name_is_refused(played_project: Project, option: str) -> None:
    ended = played_project.run(f"{option}=faild")
    assert ended.status == pytest.ExitCode.USAGE_ERROR
    assert f"{option}: unknown value 'faild'" in ended.text


def test_only_tests_that_failed_are_recorded_under_either_name(played_project: Project) -> None:
    played_project.tests(
        """
        @pytest.mark.parametrize("batch_size", [1, 2])
        def test_it(throughput, on, batch_size):
            throughput.check(tiny(batch_size), on=on)
        """
    )
    played_project.baseline("nets:tiny-b1-replicated-device", value=1e12)
    played_project.baseline("nets:tiny-b2-replicated-device", **ANY_THROUGHPUT)
    played_project.run()
    ended = played_project.run("--tfperf-update-baselines=failed")
    assert ended.kinds == {"test_it[1]": "passed"}, ended.text


# --- systems that nothing is measured on


WINDOWS = Path(__file__).parents[1] / "data" / "pretended_windows.py"

ON_A_LAPTOP = """
    import pytest
    from pytest_tfperf import Figure, MeasurementError, Reads, ThroughputFixture, Topology, Workload

    @pytest.mark.gpu
    def test_measured(throughput: ThroughputFixture, gpu_topology: Topology) -> None:
        throughput.check(Workload(model="trivial", batch_size=1), on=gpu_topology.take(1))

    def test_topology(gpu_topology: Topology) -> None:
        pass

    def test_other():
        pass
"""


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--update-baselines",),
        ("--tfperf-require-baseline", "--tfperf-json=result.json", "--tfperf-html=report.html"),
        ("--tfperf-base=HEAD",),
    ],
    ids=" ".join,
)
def test_where_unix_modules_are_missing_only_throughput_tests_are_errors(
    project: Project, options: tuple[str, ...]
) -> None:
    project.write("pretended_windows.py", WINDOWS.read_text())
    project.write("test_it.py", ON_A_LAPTOP)
    ended = project.end_of(project.start("-p", "pretended_windows", *options))
    assert ended.kinds == {"test_measured": "error", "test_topology": "error", "test_other": "passed"}, ended.text
    for test in ("test_measured", "test_topology"):
        assert ended.cases[test].text.splitlines() == [
            "throughput is measured on Linux only, and this is win32. Run this test there, or leave it out here: "
            "pytest -m 'not gpu and not cpu', or --ignore=FOLDER"
        ]
    assert not (project.folder / ".tfperf").exists()
