"""Programs that a user has already, gated as they are."""

from __future__ import annotations

import re
import shutil
import signal
import sys
from importlib.util import find_spec
from pathlib import Path
from textwrap import dedent

import pytest

from pytest_tfperf import cli
from tests.helpers.inner import ANY_THROUGHPUT, NOT_MEASURED, Finished, Project
from tests.helpers.patience import wait_for

EXAMPLES = Path(__file__).parents[2] / "examples" / "own_script"

SHORT = ("-o", "tfperf_steps=3")
ONE_READING = ("-o", "tfperf_steps=1")  # enough for runs that are compared as pairs

# Prints the rate of a work that costs so many seconds an example, with some noise. The rate is played, so that the
# machine decides nothing; each line is a window, which lasts 0.15 s at least.
LOOP = """
    import sys, time
    cost = float(sys.argv[1])
    for step in range(1, 10_000):
        time.sleep(0.16)
        print(f"step {step} throughput: {(1 + (step % 3 - 1) / 100) / cost:.3f} examples/s loss: 0.5")
"""

PREAMBLE = """
import sys
from pytest_tfperf import Command, Reads

def run(throughput, on, *argv, name="loop", tolerance=None, steps=None, reads=RATES, **how):
    program = Command([sys.executable, *map(str, argv)], name=name, reads=reads, **how)
    return throughput.check(program, on=on, tolerance=tolerance, steps=steps)
"""


@pytest.fixture
def project(played_project: Project) -> Project:
    """No worker trains here, and so what would ask another Python for its TensorFlow need not import it."""
    return played_project


def write_tests(project: Project, text: str) -> None:
    project.tests(PREAMBLE + text)


@pytest.fixture(scope="module")
def judged(played: Project) -> Finished:
    """One session: a program that is as fast as its baselines, and one that costs half as much again."""
    played.write("loop.py", LOOP)
    played.baseline("same", value=100.0, unit="examples", runs=5, between_runs=0.001, lower=-0.2)
    kept = {"environment": "environment_variables=LD_PRELOAD=/lib/fast.so"}
    played.baseline("slower", value=100.0, unit="examples", runs=5, between_runs=0.001, lower=-0.2, **kept)
    played.baseline("images", value=100.0, unit="images", runs=5, between_runs=0.001)
    write_tests(
        played,
        """
def test_same(throughput, on):
    found = run(throughput, on, "loop.py", 0.01, name="same", tolerance=0.2)
    print("the body came to its end with", found.unit, round(found.examples_per_sec, -1))

def test_slower(throughput, on):
    run(throughput, on, "loop.py", 0.015, name="slower", tolerance=0.2, env={"MALLOC_CONF": "password=hush"})

def test_new(throughput, on):
    run(throughput, on, "loop.py", 0.01, name="new")

def test_another_unit(throughput, on):
    run(throughput, on, "loop.py", 0.01, name="images")
""",
    )
    return played.run("-rP", *SHORT, OMP_NUM_THREADS="1", LD_PRELOAD="", AWS_SECRET_ACCESS_KEY="hush")


def test_a_program_as_fast_as_its_baseline_passes_and_a_slower_one_is_a_regression(judged: Finished) -> None:
    assert judged.kinds == {
        "test_same": "passed",
        "test_slower": "failure",
        "test_new": "passed",
        "test_another_unit": "error",
    }, judged.text
    assert judged.status == 1
    assert "the body came to its end with examples 100.0" in judged.text


def test_the_slowdown_is_confirmed_in_fresh_processes(judged: Finished) -> None:
    text = judged.cases["test_slower"].text
    assert "fresh runs: " in text
    assert "slower than 100.0" in text


def test_variables_that_changed_since_its_baseline_are_named_in_the_message_and_by_explain(
    judged: Finished, played: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = "LD_PRELOAD /lib/fast.so -> (unset), MALLOC_CONF (unset) -> password=***, OMP_NUM_THREADS (unset) -> 1"
    assert f"  environment {changed}" in judged.cases["test_slower"].text
    assert cli.main(["explain", "test_slower", "--dir", str(played.folder / ".tfperf")]) == 0
    assert f"environment: {changed}" in " ".join(capsys.readouterr().out.split())
    assert "hush" not in str(played.measured("test_slower").environment)


def test_a_row_of_another_unit_is_refused(judged: Finished) -> None:
    assert "is in images/s, and this test measures examples/s" in judged.cases["test_another_unit"].message


def test_the_history_keeps_the_measurement_whole(judged: Finished, played: Project) -> None:
    found = played.measured("test_same")
    assert (found.workload.id, found.throughput.unit, found.throughput.loss) == ("same", "examples", 0.5)
    assert found.environment["command"]


def test_what_was_exported_is_judged_again(
    judged: Finished, played: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    export = str(tmp_path / "all.json")
    assert cli.main(["history", "--dir", str(played.folder / ".tfperf"), "--export", "-o", export]) == 0
    assert cli.main(["replay", export]) == 1
    assert "slower on" in capsys.readouterr().out


def test_each_run_leaves_one_log_and_no_process(judged: Finished, played: Project) -> None:
    assert not played.processes()
    assert all("throughput: " in log.read_text() for log in (played.folder / ".tfperf" / "logs").glob("worker-*"))


def test_baselines_are_recorded_and_then_hold(project: Project) -> None:
    project.write("loop.py", LOOP)
    write_tests(project, "def test_it(throughput, on): run(throughput, on, 'loop.py', 0.01, tolerance=0.2)")
    recorded = project.run("--update-baselines", *SHORT)
    assert (recorded.status, recorded.kinds) == (0, {"test_it": "passed"}), recorded.text
    (row,) = project.baselines.load("box").values()
    assert (row.key.workload, row.unit, row.runs) == ("loop", "examples", 5)
    assert project.run("--tfperf-require-baseline", *SHORT).kinds == {"test_it": "passed"}


def test_another_python_is_compared_in_alternate_runs(project: Project) -> None:
    """Only this side loses its half."""
    project.write("loop.py", LOOP)
    write_tests(project, "def test_it(throughput, on): run(throughput, on, 'loop.py', 0.01, tolerance=0.2)")
    finished = project.run(f"--tfperf-against={sys.executable}", "--tfperf-inject-slowdown=0.5", *ONE_READING)
    assert (finished.status, finished.kinds) == (1, {"test_it": "failure"}), finished.text
    assert re.search(r"ratio 0\.[45]", finished.cases["test_it"].text), finished.text


@pytest.mark.slow  # twelve pairs
def test_the_code_of_its_baseline_confirms_a_slowdown(project: Project) -> None:
    """The reference environment runs the same command in the other checkout, where the program is faster."""
    project.write("loop.py", LOOP.replace("/ cost", "/ cost / 1.5"))
    project.write("old/loop.py", LOOP)
    project.baseline("loop", value=100.0, unit="examples", runs=5, between_runs=0.001)
    write_tests(project, "def test_it(throughput, on): run(throughput, on, 'loop.py', 0.01, tolerance=0.2)")
    finished = project.run(f"--tfperf-reference={sys.executable}:{project.folder / 'old'}", *ONE_READING)
    assert finished.kinds == {"test_it": "failure"}, finished.text
    assert "interleaved pairs with the reference environment" in finished.cases["test_it"].text


@pytest.mark.slow  # fresh runs confirm it
def test_a_reference_environment_that_would_run_the_current_code_clears_nothing(
    project: Project, tmp_path: Path
) -> None:
    """Both of its sides would be as slow."""
    reads_factor = "import os, sys\nsys.path.insert(0, open(os.environ['WHERE']).read())\nfrom factor import FACTOR\n"
    loop = reads_factor + dedent(LOOP.replace("/ cost", "/ cost / FACTOR"))
    for folder, factor in (("", 1.5), ("old/", 1.0)):
        project.write(f"{folder}loop.py", loop)
        project.write(f"{folder}factor.py", f"FACTOR = {factor}\n")
    project.baseline("loop", value=100.0, unit="examples", runs=5, between_runs=0.001)
    write_tests(project, "def test_it(throughput, on): run(throughput, on, 'loop.py', 0.01, tolerance=0.2)")
    reference = f"--tfperf-reference={sys.executable}:{project.folder / 'old'}"
    where = tmp_path / "where"
    where.write_text(str(project.folder))
    finished = project.run(reference, *SHORT, WHERE=str(where))
    assert finished.kinds == {"test_it": "failure"}, finished.text
    assert f"both sides run {project.folder / 'factor.py'}, which is in no commit" in finished.text


SHELL = """
def test_it(throughput, on):
    argv = ["sh", "-c", f"exec {sys.executable} loop.py 0.01"]
    throughput.check(Command(argv, name="loop", reads=RATES), on=on, tolerance=0.2)
"""


def test_a_command_that_does_not_begin_with_this_python_has_no_reference_side(project: Project) -> None:
    """Both sides would have the same packages, and so clear the slowdown that fresh runs confirm."""
    project.write("loop.py", LOOP.replace("/ cost", "/ cost / 1.5"))
    project.write("old/loop.py", LOOP.replace("/ cost", "/ cost / 1.5"))
    project.baseline("loop", value=100.0, unit="examples", runs=5, between_runs=0.001)
    write_tests(project, SHELL)
    finished = project.run(f"--tfperf-reference={sys.executable}:{project.folder / 'old'}", *SHORT)
    assert finished.kinds == {"test_it": "failure"}, finished.text
    assert "interleaved pairs" not in finished.cases["test_it"].text


def test_against_refuses_a_command_that_does_not_begin_with_this_python(project: Project) -> None:
    project.write("loop.py", LOOP)
    write_tests(project, SHELL)
    finished = project.run(f"--tfperf-against={sys.executable}", *SHORT)
    assert finished.kinds == {"test_it": "error"}, finished.text
    assert "Begin the command with sys.executable" in finished.text.replace("\n", " ")


def test_a_smoke_run_wants_one_reading(project: Project) -> None:
    project.write("loop.py", LOOP)
    write_tests(project, "def test_it(throughput, on): run(throughput, on, 'loop.py', 0.01, reads=RATES_TO_THE_END)")
    assert project.run("--tfperf-smoke").kinds == {"test_it": "passed"}


FAULTS = {
    "test_quiet": ("'-c', 'print(12)'", "printed nothing usable before it ended: no line matches"),
    "test_silent": ("'-c', ''", "it printed nothing at all"),
    "test_status": ("'-c', 'import sys; sys.exit(\"no data\")'", "exited with status 1 after 0 readings"),
    "test_early": ("'-c', 'print(\"9 examples/s\")'", "the program ended after 1 reading, of which the first is"),
    "test_zero": ("'-c', 'print(\"9 examples/s\\\\n0 examples/s\")'", "it printed 0 as its rate, which can't be one"),
    "test_steps": (
        "'-c', 'print(\"step 1\")', reads=Reads(pattern=r'(?P<step>[0-9])')",
        "steps are read: say how many units a step holds",
    ),
    "test_nan": (
        "'-c', 'print(\"9 examples/s loss: nan\\\\n\" * 9)', reads=RATES_TO_THE_END",
        "INVALID: loss became NaN",
    ),
    "test_missing": ("'missing.py'", "exited with status 2 after 0 readings"),
    "test_field": (
        "'-c', 'print(dict(a=1))', reads=Reads(field='rate')",
        "no line is a JSON object, in which the field 'rate' would be read",
    ),
    "test_pattern": (
        "'-c', '', reads=Reads(pattern='(.*)')",
        "has no named group: it must have one of rate, step, seconds",
    ),
    "test_hangs": ("'-c', 'import time; print(3); time.sleep(600)'", "printed nothing that can be read for 10 s and"),
    "test_readings": ("'-c', '', steps=2", "steps=2: give at least 3 readings, because fewer have no error estimate"),
    "test_name": ("'-c', '', name='b 3'", "name='b 3' must be at most 100 letters"),
}


def _call(test: str, argv: str) -> str:
    """A command with a name of its own, as each needs one."""
    return f"run(throughput, on, {argv}{'' if 'name=' in argv else f', name={test!r}'})"


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    with Project(tmp_path_factory.mktemp("faulty"), trains=False) as project:
        write_tests(
            project,
            "\n".join(f"def {name}(throughput, on): {_call(name, argv)}" for name, (argv, _) in FAULTS.items())
            + """
def test_program(throughput, on):
    throughput.check(Command(["no-such-program"], name="it"), on=on)

def test_text(throughput, on):
    throughput.check(Command("train.py --epochs=1", name="it"), on=on)

def test_nodes(throughput, gpu_topology):
    run(throughput, gpu_topology.nodes(2).take(1), "-c", "")
""",
        )
        return project.run("-o", "tfperf_timeout=10")  # Python can take seconds to start on a busy machine


@pytest.mark.parametrize("name", FAULTS)
def test_a_program_that_can_not_be_measured_is_an_error_that_says_why(faulty: Finished, name: str) -> None:
    assert faulty.status == NOT_MEASURED
    case = faulty.cases[name]
    assert case.kind == "error", case
    assert FAULTS[name][1] in case.message + case.text


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("test_program", "no-such-program can't be run: there is no such program on PATH"),
        ("test_text", "must be a list of a program and its arguments"),
        ("test_nodes", "name what starts it on them, as in --tfperf-launcher='mpirun"),
    ],
)
def test_what_can_not_be_started_is_an_error_that_says_why(faulty: Finished, name: str, said: str) -> None:
    assert said in faulty.cases[name].message + faulty.cases[name].text


def test_the_short_summary_has_the_fact(faulty: Finished) -> None:
    assert re.search(r"::test_early - the program ended after", faulty.text), faulty.text


def test_errors_show_the_end_of_the_output_and_the_next_step(faulty: Finished) -> None:
    text = faulty.cases["test_status"].text
    assert ("  next  " in text, "  | no data" in text) == (True, True), text


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_when_pytest_is_ended(project: Project, by: signal.Signals) -> None:
    project.write(
        "family.py",
        """
        import subprocess, sys, time
        from pathlib import Path
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
        Path("started").touch()
        while True:
            print("9 examples/s")
            time.sleep(0.2)
        """,
    )
    write_tests(project, "def test_it(throughput, on): run(throughput, on, 'family.py')")
    process = project.start()
    project.wait_for_file("started", process)
    process.send_signal(by)
    project.end_of(process)
    assert wait_for(lambda: not project.processes()), project.processes()


def test_a_programs_folder_variables_and_terminal_are_its_own(project: Project) -> None:
    project.write(
        "sub/shows.py",
        """
        import os, sys, time
        from pathlib import Path
        columns = os.get_terminal_size().columns
        print(sys.stdin.read(), Path.cwd().name, os.environ["MINE"], sys.stdout.isatty(), columns)
        for _ in range(5):
            time.sleep(0.16)
            print("9 examples/s")
        """,
    )
    how = "cwd='sub', env={'MINE': 'yes'}, terminal=True, reads=RATES_TO_THE_END"
    write_tests(project, f"def test_it(throughput, on): run(throughput, on, 'shows.py', {how})")
    assert project.run(*SHORT).kinds == {"test_it": "passed"}
    (log,) = (project.folder / ".tfperf" / "logs").glob("worker-*")
    assert " sub yes True 240" in log.read_text()


def test_a_name_that_two_tests_share_is_an_error_that_names_both(project: Project) -> None:
    """Each would be judged by the other's baseline, even if only the variables of their tests differ."""
    project.write("loop.py", LOOP)
    write_tests(
        project,
        """
def test_one(throughput, on): run(throughput, on, 'loop.py', 0.01)

def test_other(throughput, on): run(throughput, on, 'loop.py', 0.02)

def test_one_again(throughput, on): run(throughput, on, 'loop.py', 0.01)
""",
    )
    finished = project.run(*SHORT)
    assert finished.kinds == {"test_one": "passed", "test_other": "error", "test_one_again": "error"}, finished.text
    for test in ("test_other", "test_one_again"):
        said = f"::{test} is the name of another command already, in test_it.py::test_one, and both"
        assert f"name='loop' in test_it.py{said}" in finished.cases[test].text


def test_a_program_in_doubt_runs_again_with_a_new_folder_and_a_new_function(project: Project) -> None:
    project.tests(
        """
        import sys
        from pytest_tfperf import Command, Reads

        def test_it(throughput, on, tmp_path):
            command = [sys.executable, "-c", "print('at 9\\\\n' * 9)", f"--out={tmp_path}"]
            rate = lambda line: float(line[3:]) if line.startswith("at ") else None
            reads = Reads(parse=rate, until_end=True)
            for _ in range(2):
                throughput.check(Command(command, name="mine", reads=reads), on=on)
        """
    )
    project.baseline("mine", unit="examples", value=1e6)
    finished = project.run(*SHORT)
    assert finished.kinds == {"test_it": "failure"}, finished.text


def test_lines_with_a_rate_that_were_not_read_are_shown(project: Project) -> None:
    project.write(
        "odd.py",
        """
        import time
        for n in range(20):
            time.sleep(0.16)
            print("1,5 examples/s" if n == 9 else f"9.{n} examples/s")
        """,
    )
    odd = 'Reads(pattern="(?P<rate>[0-9.,]+) examples/s", until_end=True)'
    write_tests(project, f"def test_it(throughput, on): run(throughput, on, 'odd.py', reads={odd})")
    finished = project.run(*SHORT)
    assert re.search(r"test_it: 1 line with a rate was not read: .*: '1,5 examples/s'", finished.text), finished.text


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """The documented examples, against rows that pass any throughput."""
    with Project(tmp_path_factory.mktemp("examples")) as project:
        for file in EXAMPLES.glob("*.py"):
            shutil.copy(file, project.folder)
        project.baseline("keras-fit", unit="examples", **ANY_THROUGHPUT)
        for name in ("tensorflow-loop", "pytorch-loop", "jax-loop"):
            project.baseline(name, unit="images", **ANY_THROUGHPUT)
        return project.run(*SHORT)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("test", "package"),
    [("keras_fit", "keras"), ("tensorflow_loop", "tensorflow"), ("pytorch", "torch"), ("jax", "jax")],
)
def test_the_documented_examples_pass(examples: Finished, test: str, package: str) -> None:
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    assert examples.cases[f"test_{test}"].kind == "passed", examples.text
