"""What can't be is refused before anything is measured: the fact, the place, the next step."""

from __future__ import annotations

import re

import pytest
from inner import WHATEVER_IT_IS, Finished, Project

from pytest_tfperf.settings import Settings
from pytest_tfperf.stores import baseline_file

USAGE_ERROR = 4
NOT_MEASURED = 6

ONE_TEST = """
    import pytest
    from pytest_tfperf import Workload

    @pytest.mark.cpu
    def test_it(throughput, gpu_topology):
        throughput.check(Workload(model="nets:tiny", batch_size=1), on=gpu_topology.take(1))
"""


def parametrised(name: str, value: str, indirect: bool = False) -> str:
    return f"""
    import pytest
    from pytest_tfperf import Workload

    @pytest.mark.parametrize("{name}", [{value}], indirect={indirect})
    def test_it(throughput, {name}):
        pass
    """


@pytest.mark.parametrize(
    ("test", "said"),
    [
        (parametrised("model", "'resnet500'"), "unknown model 'resnet500'. Did you mean 'resnet50'? Known: "),
        (parametrised("input_pipeline", "'devise'", True), "unknown input_pipeline 'devise'. Did you mean 'device'?"),
        (parametrised("variable_update", "'replicate'"), "unknown variable_update 'replicate'. Did you mean 'repl"),
        (parametrised("w", "Workload(model='resnet500', batch_size=1)"), "unknown model 'resnet500'. Did you mean"),
        (parametrised("batch_size", "0"), "batch_size=0: images per replica must be a whole number from 1"),
    ],
    ids=["model", "input_pipeline", "variable_update", "workload", "batch_size"],
)
def test_a_parameter_that_can_not_be_is_told_at_collection(pytester: pytest.Pytester, test: str, said: str) -> None:
    pytester.makepyfile(test_it=test)
    result = pytester.runpytest("--collect-only")
    told = result.stdout.str().partition("= throughput =")[2]
    assert (result.ret, said in told, "test_it.py::test_it[" in told) == (USAGE_ERROR, True, True)


MATRIX = """
    import pytest

    @pytest.mark.parametrize("model", ["resnet500", "trivial", "vgg"])
    @pytest.mark.parametrize("precision", ["float32", "float16"])
    def test_it(throughput, model, precision):
        pass
"""


def test_bad_names_keep_no_other_test_from_running(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=MATRIX)
    result = pytester.runpytest()
    result.assert_outcomes(passed=1, errors=5)
    assert result.ret == NOT_MEASURED


def test_all_bad_names_are_told_before_the_first_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=MATRIX)
    before = pytester.runpytest().stdout.str().partition("\ntest_it.py ")[0]
    assert "5 of 6 throughput tests ask for what can't be, and will be errors:" in before
    assert [name for name in ("model 'resnet500'", "model 'vgg'", "precision 'float16'") if name not in before] == []


def test_a_bad_name_is_an_error_in_one_line_that_begins_with_its_place(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=MATRIX)
    result = pytester.runpytest("-k", "vgg and float32")
    result.stdout.re_match_lines(
        ["_* ERROR at setup of .*", r"test_it\.py:3: unknown model 'vgg'\. .*", "=+ throughput"]
    )


def test_each_bad_name_is_told_once_at_the_end(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=MATRIX)
    told = pytester.runpytest().stdout.str().partition("= throughput =")[2].partition("= short")[0]
    assert (told.count("unknown "), told.count("were errors"), "::test_it[float32-vgg] and 1 more:" in told) == (
        3,
        1,
        True,
    )


def test_a_bad_name_of_a_test_that_is_skipped_is_no_error(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=MATRIX.replace("def test_it", "@pytest.mark.skip\n    def test_it"))
    pytester.runpytest().assert_outcomes(skipped=6)


def test_collecting_lists_tests_beside_bad_names(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=MATRIX)
    assert "test_it.py::test_it[float32-trivial]" in pytester.runpytest("--collect-only", "-q").stdout.str()


def test_a_workload_that_can_not_be_stops_collection(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=parametrised("workload", "Workload(model='trivial', batch_size=0)"))
    said = pytester.runpytest("--collect-only").stdout.str()
    assert "batch_size=0: images per replica must be a whole number from 1" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--tfperf-steps=0"], "--tfperf-steps: '0' must be a whole number from 1"),
        (["--tfperf-steps=ten"], "--tfperf-steps: 'ten' is no number"),
        (["--tfperf-runs=4"], "--tfperf-runs: '4' must be a whole number from 5"),
        (["--tfperf-tolerance=5"], "--tfperf-tolerance: '5' must be a fraction between 0 and 1"),
        (["--tfperf-tolerance=nan"], "--tfperf-tolerance: 'nan' must be a fraction between 0 and 1"),
        (["--tfperf-timeout=0"], "--tfperf-timeout: '0' must be above 0"),
        (["--tfperf-inject-slowdown=1"], "--tfperf-inject-slowdown: '1' must be a fraction from 0 to below 1"),
        (["--tfperf-worker=spawn"], "--tfperf-worker: unknown value 'spawn'. Known: fork, fresh"),
        (["--tfperf-inject-slowdown=40%"], "-slowdown: '40%' is no number: write a fraction, 0.4 for 40 %"),
        (["--tfperf-inject-slowdown=40"], "'40' must be a fraction from 0 to below 1, 0.4 for 40 %"),
        (["--tfperf-input-pipeline=devise"], "--tfperf-input-pipeline: unknown input_pipeline 'devise'. Did you mean"),
        (["--tfperf-machine=a/b"], "--tfperf-machine: 'a/b' can't be a machine's name"),
        (["-otfperf_machine=a/b"], "tox.ini: tfperf_machine: 'a/b' can't be a machine's name"),
        (["--tfperf-baselines=tox.ini"], "--tfperf-baselines: "),
        (["--tfperf-dir=tox.ini"], "tox.ini is a file. Name a folder, which need not be there yet"),
        (
            ["--update-baselines=fail"],
            "--update-baselines: unknown value 'fail'. Did you mean 'failed'? Known: ",
        ),
        (["--update-baselines="], "--update-baselines: unknown value ''. Known: failed."),
        (["-otfperf_steps=x"], "tox.ini: tfperf_steps: 'x' is no number"),
        (["-otfperf_smoke=maybe"], "tox.ini: tfperf_smoke: 'maybe' must be true or false"),
        (["--update-baselines", "--tfperf-smoke"], "--update-baselines with --tfperf-smoke: one window is no baseline"),
        (["--update-baselines", "--tfperf-inject-slowdown=0.1"], "the loss would become the reference"),
        (["--tfperf-smoke", "--tfperf-require-baseline"], "the smoke run judges nothing"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_bad_option_is_a_usage_error_that_says_where(
    pytester: pytest.Pytester, arguments: list[str], said: str
) -> None:
    pytester.makeini("[pytest]")
    with pytest.raises(pytest.UsageError, match=re.escape(said)):
        pytester.parseconfigure(*arguments)


def test_a_bad_environment_variable_is_named(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFPERF_STEPS", "-3")
    said = "environment variable TFPERF_STEPS: '-3' must be a whole number from 1"
    with pytest.raises(pytest.UsageError, match=said):
        pytester.parseconfigure()


PLACES = {
    "ini": ([], {}),
    "environment": ([], {"TFPERF_MACHINE": "from-environment"}),
    "option": (["--tfperf-machine=from-option"], {"TFPERF_MACHINE": "from-environment"}),
}


@pytest.mark.parametrize("place", PLACES)
def test_an_option_wins_over_the_environment_and_that_over_the_ini_file(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    pytester.makeini("[pytest]\ntfperf_machine = from-ini\n")
    arguments, environment = PLACES[place]
    monkeypatch.setenv("TFPERF_MACHINE", environment.get("TFPERF_MACHINE", ""))
    assert Settings.from_config(pytester.parseconfig(*arguments)).machine == f"from-{place}"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("throughput.check(W, on=gpu_topology.take(1), steps=0)", "steps=0: at least one step must be timed"),
        ("throughput.check(W, on=gpu_topology.take(1), warmup_steps=-1)", "warmup_steps=-1: a number of steps from 0"),
        ("throughput.compare(W, W.with_(xla=True, trainer='keras'), on=gpu_topology.take(2))", "can't meet inside XLA"),
        (
            "throughput.check(W.with_(forward_only=True, trainer='keras'), on=gpu_topology.take(1))",
            "use trainer='loop'",
        ),
        (
            "throughput.check(W.with_(input_pipeline='imagenet-only', optimizer='momentum'), on=gpu_topology.take(1))",
            "nothing trained: leave out optimizer",
        ),
        (
            "throughput.check(W, on=gpu_topology.take(0))",
            "take(0, nodes=1): devices must be a whole number of at least 1",
        ),
        ("throughput.check(W, on=gpu_topology.take(1), tolerance=5)", "tolerance=5: give a fraction between 0 and 1"),
        ("throughput.check(W, on=gpu_topology.take(1), tolerance=(0.1, 0.1))", "tolerance: lower 0.1 must lie between"),
        ("throughput.check(W.with_(model='vgg'), on=gpu_topology.take(1))", "unknown model 'vgg'."),
        ("throughput.check(W.with_(input_pipeline='x'), on=gpu_topology.take(1))", "unknown input_pipeline 'x'."),
        ("throughput.compare(W, W, on=gpu_topology.take(1), max_pairs=2)", "max_pairs=2: it takes a whole number"),
        ("throughput.compare(W, W, on=gpu_topology.take(1), max_seconds=0)", "max_seconds=0 must be above 0"),
        ("throughput.compare(W, W, on=gpu_topology.take(1), tolerance=2)", "give a fraction between 0 and 1"),
        ("throughput.compare(W, W, on=gpu_topology.take(1), steps=0)", "at least one step must be timed"),
        ("throughput.check(W.with_(all_reduce='nccl'), on=gpu_topology.take(1))", "all_reduce='nccl' needs GPUs, and"),
        ("throughput.compare(W, W.with_(all_reduce='nccl'), on=gpu_topology.take(1))", "all_reduce='nccl' needs GPUs"),
        ("throughput.check(W.with_(batch_size=0), on=gpu_topology.take(1))", "batch_size=0: images per replica must"),
    ],
)
def test_a_bad_argument_ends_the_test_before_a_worker_starts(bad_calls: Finished, call: str, said: str) -> None:
    case = bad_calls.cases[f"test_it[{CALLS[call]}]"]
    assert said in case.text


CALLS: dict[str, int] = {
    mark.args[1][i][0]: i
    for mark in test_a_bad_argument_ends_the_test_before_a_worker_starts.pytestmark
    for i in range(len(mark.args[1]))
}


@pytest.mark.parametrize("mark", ["cpu", "gpu"])
def test_a_machine_of_which_nothing_was_taken_is_no_place_to_train(project: Project, mark: str) -> None:
    project.write("test_it.py", ONE_TEST.replace("mark.cpu", f"mark.{mark}").replace(".take(1)", ""))
    assert "on=gpu_topology.take(n)" in project.run().cases["test_it"].message


@pytest.fixture(scope="module")
def bad_calls(shared: Project) -> Finished:
    shared.write(
        "test_it.py",
        f"""
        import pytest
        from pytest_tfperf import Workload

        W = Workload(model="nets:tiny", batch_size=1)

        @pytest.mark.cpu
        @pytest.mark.parametrize("number", range({len(CALLS)}))
        def test_it(throughput, gpu_topology, number):
            eval({list(CALLS)!r}[number], dict(throughput=throughput, gpu_topology=gpu_topology, W=W))
        """,
    )
    return shared.run()


def test_a_bad_argument_is_no_regression(bad_calls: Finished) -> None:
    assert (set(bad_calls.kinds.values()), bad_calls.status) == ({"error"}, 6)


@pytest.mark.parametrize("call", ["steps=0", "batch_size=0"])  # the second raises inside of dataclasses
def test_a_bad_argument_is_told_in_one_line_that_begins_with_its_place(bad_calls: Finished, call: str) -> None:
    number = next(number for text, number in CALLS.items() if call in text)
    said = bad_calls.cases[f"test_it[{number}]"].text
    assert re.fullmatch(rf"test_it\.py:10: {call}: .*", said), said


def test_no_worker_was_started_for_a_bad_argument(bad_calls: Finished, shared: Project) -> None:
    assert not (shared.folder / ".tfperf" / "logs").exists()


HEADER = ",".join(baseline_file.COLUMNS)
ROW = "nets:tiny-b1-replicated-device,1x1,1000,,,images/s,1,,,measured,,,,,,,"


@pytest.mark.parametrize(
    ("file", "said"),
    [
        (f"{HEADER.replace('lower,', '')}\n", "box.csv, line 1: no column lower"),
        (f"{HEADER}\n{ROW.replace('1000', 'nan')}\n", "box.csv, line 2: reference 'nan' is not a number"),
        (f"{HEADER}\n{ROW}", "box.csv, line 2: the last line is cut off"),
    ],
    ids=["no column", "not a number", "cut off"],
)
def test_a_broken_baselines_file_is_refused_once_before_a_worker_starts(project: Project, file: str, said: str) -> None:
    project.write("test_it.py", ONE_TEST)
    project.write("baselines/box.csv", file)
    finished = project.run()
    assert (finished.status, finished.text.count(said), (project.folder / ".tfperf" / "logs").exists()) == (4, 1, False)


def test_a_broken_baselines_file_of_another_machine_does_not_take_the_night(project: Project) -> None:
    project.write("test_it.py", ONE_TEST)
    project.baseline("nets:tiny-b1-replicated-device", **WHATEVER_IT_IS)
    project.write("baselines/dgx2.csv", "garbage\n")
    finished = project.run()
    assert (finished.kinds, finished.text.count("dgx2.csv, line 1: ")) == ({"test_it": "passed"}, 1)
