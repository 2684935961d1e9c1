"""Invalid input is refused before anything is measured: the fact, the location, the next step."""

from __future__ import annotations

import re

import pytest

from pytest_tfperf.session.options import read_settings
from pytest_tfperf.stores import baseline_file
from tests.helpers.inner import NOT_MEASURED, Finished, Project

USAGE_ERROR = 4


INVALID = """
    import pytest
    from pytest_tfperf import Workload

    @pytest.mark.parametrize("{name}", [{value}], indirect={indirect})
    def test_it(throughput, {name}):
        pass
"""


@pytest.mark.parametrize(
    ("name", "value", "indirect", "said"),
    [
        ("model", "'resnet500'", False, "unknown model 'resnet500'. Did you mean 'resnet50'? Known: "),
        ("input_pipeline", "'devise'", True, "unknown input_pipeline 'devise'. Did you mean 'device'?"),
        ("workload", "Workload(model='resnet500', batch_size=1)", False, "unknown model 'resnet500'. Did you mean"),
        ("workload", "Workload(model='trivial', batch_size=0)", False, "batch_size=0: examples per replica must be"),
    ],
)
def test_an_invalid_parameter_fails_collection(
    pytester: pytest.Pytester, name: str, value: str, indirect: bool, said: str
) -> None:
    pytester.makepyfile(test_it=INVALID.format(name=name, value=value, indirect=indirect))
    result = pytester.runpytest("--collect-only")
    # A Workload that can't be made interrupts pytest itself.
    status = pytest.ExitCode.INTERRUPTED if "batch_size=0" in value else USAGE_ERROR
    assert (result.ret, said in result.stdout.str()) == (status, True)


MATRIX = """
    import pytest

    @pytest.mark.parametrize("model", ["resnet500", "trivial", "vgg"])
    @pytest.mark.parametrize("precision", ["float32", "float16"])
    def test_it(throughput, model, precision):
        pass
"""


def test_collecting_lists_them_where_the_launcher_can_not_be_made(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=MATRIX)
    result = pytester.runpytest("--collect-only", "--tfperf-launcher=external")  # which needs --tfperf-nodes
    assert result.ret == USAGE_ERROR
    result.stdout.fnmatch_lines(["*unknown model 'resnet500'*"])


@pytest.fixture
def matrix(pytester: pytest.Pytester) -> pytest.RunResult:
    pytester.makepyfile(test_it=MATRIX)
    return pytester.runpytest()


def test_invalid_parameters_are_errors_of_their_tests_and_keep_no_other_from_running(matrix: pytest.RunResult) -> None:
    matrix.assert_outcomes(passed=1, errors=5)
    assert matrix.ret == NOT_MEASURED
    matrix.stdout.re_match_lines([r"_* ERROR at setup of .*vgg.*", r"test_it\.py:3: unknown .*"])


def test_invalid_parameters_are_listed_once_each_before_the_first_test(matrix: pytest.RunResult) -> None:
    before, _, after = matrix.stdout.str().partition("\ntest_it.py ")
    assert "5 of 6 throughput tests have invalid parameters; each of them is an error:" in before
    assert "::test_it[float32-vgg] and 1 more:" in before
    assert [before.count(fault) for fault in ("model 'resnet500'", "model 'vgg'", "precision 'float16'")] == [1, 1, 1]
    assert "\n5 not measured: " in after


def test_an_invalid_parameter_of_a_skipped_test_is_no_error(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=MATRIX.replace("def test_it", "@pytest.mark.skip\n    def test_it"))
    pytester.runpytest().assert_outcomes(skipped=6)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--tfperf-tolerance=5"], "--tfperf-tolerance: '5' must be a fraction above 0, up to 0.5"),
        (["--tfperf-worker=spawn"], "--tfperf-worker: 'spawn' must be fork or fresh"),
        (["--tfperf-input-pipeline=devise"], "--tfperf-input-pipeline: unknown input_pipeline 'devise'. Did you mean"),
        (["-otfperf_machine=a/b"], "-o tfperf_machine: 'a/b' cannot be a machine's name"),
        (["-otfperf_steps=x"], "-o tfperf_steps: 'x' must be a whole number, 1 or more"),
        (["--tfperf-dir=tox.ini"], "tox.ini is a file; name a folder"),
        (["--tfperf-baselines=baseline"], "--tfperf-baselines: there is no folder "),
        (["--update-baselines=fail"], "--update-baselines: unknown value 'fail'. Did you mean 'failed'? Known: "),
        (["--update-baselines", "--tfperf-smoke"], "--tfperf-smoke with --update-baselines: one window is no baseline"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_invalid_option_is_a_usage_error_with_its_location(
    pytester: pytest.Pytester, arguments: list[str], said: str
) -> None:
    pytester.makeini("[pytest]")
    with pytest.raises(pytest.UsageError, match=re.escape(said)):
        pytester.parseconfigure(*arguments)


def test_an_invalid_environment_variable_is_named(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFPERF_STEPS", "-3")
    said = "environment variable TFPERF_STEPS: '-3' must be a whole number, 1 or more"
    with pytest.raises(pytest.UsageError, match=said):
        pytester.parseconfigure()


def test_an_option_wins_over_the_environment_and_that_over_the_ini_file(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    def machine(*arguments: str) -> str:
        return read_settings(pytester.parseconfig(*arguments)).machine

    pytester.makeini("[pytest]\ntfperf_machine = ini\n")
    found = [machine()]
    monkeypatch.setenv("TFPERF_MACHINE", "environment")
    found += [machine(), machine("--tfperf-machine=option")]
    assert found == ["ini", "environment", "option"]


OF_NO_SUBJECT = "check(['python', 'train.py'], on=one)"
CALLS = {
    "check(W, on=one, steps=0)": "steps=0: at least one step must be timed",
    "check(W, on=one, warmup_steps=-1)": "warmup_steps=-1: give a whole number of steps, 0 or more",
    "check(W, on=gpu_topology.take(0))": "devices=0 must be a whole number of at least 1",
    "check(W, on=gpu_topology)": "on=gpu_topology: say how many devices, on=gpu_topology.take(n)",
    "check(W, on=one, tolerance=5)": "tolerance=5: give a fraction above 0, up to 0.5",
    "check(tiny(input_pipeline='x'), on=one)": "unknown input_pipeline 'x'.",
    "check(tiny(batch_size=0), on=one)": "batch_size=0: examples per replica must",
    "compare(W, W, on=one, max_pairs=2)": "max_pairs=2: it takes a whole number",
    "compare(W, W, on=one, max_seconds=0)": "max_seconds=0 must be above 0",
    "compare(W, W, on=one, at_least=True)": "at_least=True must be 'published' or a ratio above 0",
    "compare(W, W, on=one, at_least=0.9, tolerance=0.1)": "at_least=0.9 and tolerance=0.1: give one of them",
    "compare(W, Command(['x'], name='x'), on=one)": "for both sides the same kind",
    "check(Command([], name='x'), on=one)": "x: name the program",
    "check(Command(None, name='x'), on=one)": "must be a list of a program and its arguments",
    "check(Command(['x'], name='x', cwd=None), on=one)": "cwd=None must be a folder",
    "check(Command(['x'], name='x', env=['A']), on=one)": "env must map names",
    "check(Command(['x'], name='x', reads=RATES), on=one, warmup_steps=1)": "warmup_steps is of a workload",
    OF_NO_SUBJECT: "give a Workload or a Command(argv, name=...)",
    "compare(W, tiny(all_reduce='nccl'), on=one)": "all_reduce='nccl' needs GPUs",
}
NUMBERS = {call: number for number, call in enumerate(CALLS)}


@pytest.fixture(scope="module")
def calls(played: Project) -> Finished:
    played.tests(
        f"""
        @pytest.mark.parametrize("number", range({len(CALLS)}))
        def test_it(throughput, gpu_topology, number):
            names = dict(throughput=throughput, gpu_topology=gpu_topology, W=tiny(), tiny=tiny)
            names |= dict(Command=Command, RATES=RATES)
            eval("throughput." + {list(CALLS)!r}[number], names | dict(one=gpu_topology.take(1)))
        """
    )
    return played.run()


@pytest.mark.parametrize("call", CALLS)
def test_an_invalid_argument_is_an_error_in_one_line_with_its_location(calls: Finished, call: str) -> None:
    case = calls.cases[f"test_it[{NUMBERS[call]}]"]
    assert case.kind == "error"
    assert re.fullmatch(rf"test_it\.py:\d+: .*{re.escape(CALLS[call])}.*", case.text), case.text


def test_a_check_of_something_else_has_no_words_of_two_sides(calls: Finished) -> None:
    case = calls.cases[f"test_it[{NUMBERS[OF_NO_SUBJECT]}]"]
    assert case.text.endswith("give a Workload or a Command(argv, name=...)")


def test_no_worker_is_started_for_an_invalid_argument(calls: Finished, played: Project) -> None:
    assert (calls.status, played.started_workers) == (NOT_MEASURED, False)


HEADER = ",".join(baseline_file.COLUMNS)


@pytest.mark.parametrize(
    ("file", "said", "python"),
    [
        (f"{HEADER.replace('lower,', '')}\n", "box.csv, line 1: the first line must name each of these columns", ()),
        (f"{HEADER}\nnets:tiny", "box.csv, line 2: the last line is cut off", ("-O",)),
    ],
    ids=["no column", "cut off, python -O"],
)
def test_a_broken_baseline_file_is_a_usage_error_before_the_first_test(
    project: Project, file: str, said: str, python: tuple[str, ...]
) -> None:
    project.tests("def test_it(throughput, on): throughput.check(tiny(), on=on)")
    project.write("baselines/box.csv", file)
    # Under -O pytest warns that it can't execute asserts outside of tests.
    finished = project.run("-W", "ignore::pytest.PytestConfigWarning", python=python)
    assert (finished.status, finished.text.count(said)) == (USAGE_ERROR, 1), finished.text
    assert (finished.cases, project.started_workers) == ({}, False)
