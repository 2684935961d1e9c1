"""Programs that are measured by their steps: the real driver, supervisor and probe, and small programs that train."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from pytest_tfperf.core.command import Command
from pytest_tfperf.core.figure import Figure
from pytest_tfperf.errors import MeasurementError, UserCodeFailed
from pytest_tfperf.probe import entry, frameworks, link, steps
from pytest_tfperf.probe.hook_folder import HookFolder
from pytest_tfperf.programs import probed_program, probed_run
from pytest_tfperf.programs.own_formats import FigureLines
from pytest_tfperf.programs.probed_run import ProbedRun
from pytest_tfperf.workers.launcher import PreparedCommand
from pytest_tfperf.workers.wire import Listener
from tests.helpers.patience import PATIENCE_SECONDS, is_gone, running, wait_for

Start = Callable[..., ProbedRun]

# A loop that trains for ever; a test's program ends with its run.
LOOP = """
    import os, sys, time
    def train(steps=10**9, examples=8, loss=0.5):
        for _ in range(steps):
            time.sleep(0.001)
            sys.audit("tfperf.step", examples, loss)
"""


def prepared(folder: Path, argv: Sequence[str], command: dict[str, Any], env: dict[str, str]) -> PreparedCommand:
    scratch = folder / f"scratch {len(list(folder.iterdir()))}"
    scratch.mkdir()
    return PreparedCommand(
        command=Command(argv, name="it", env={**os.environ, **env}, cwd=folder, **command),
        log=folder / "log",
        silence_seconds=PATIENCE_SECONDS,
        facts={},
        scratch=scratch,
    )


def started(made: PreparedCommand, figures: FigureLines | None = None, slowdown: float = 0.0) -> ProbedRun:
    return probed_run.start(
        made,
        made.command,
        slowdown=slowdown,
        figures=figures or FigureLines([]),
        phase=lambda _: None,
        notice=lambda _: None,
    )


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    runs: list[ProbedRun] = []

    def start(
        program: str,
        *options: str,
        figures: Sequence[Figure] = (),
        slowdown: float = 0.0,
        env: dict[str, str] | None = None,
        argv: Sequence[str] = (),
        **command: Any,
    ) -> ProbedRun:
        file = tmp_path / "program.py"
        file.write_text(dedent(LOOP) + dedent(program))
        made = prepared(tmp_path, argv or [sys.executable, *options, str(file)], command, env or {})
        run = started(made, FigureLines(figures), slowdown)
        runs.append(run)
        return run

    yield start
    for run in runs:
        run.close()


def windows(run: ProbedRun, number: int = 3, size: int = 5) -> list[Any]:
    found = []
    for _ in range(number):
        run.request(size)
        found.append(run.receive())
    return found


def supervisor_of(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("PPid")))


def shows(run: ProbedRun, text: str) -> bool:
    """Whether the program prints this, sooner or later."""
    return bool(wait_for(lambda: text in printed(run)))


def printed(run: ProbedRun) -> str:
    run._program.drain()
    return run._program.run._log.end


# What is measured


def test_a_program_that_tells_its_steps_answers_windows(start: Start) -> None:
    run = start("train()", unit="images/s")
    assert (run.examples_per_step, run.unit, run.taken) == (8, "images", 3)
    first, *_ = windows(run)
    assert (first.steps, first.examples, first.loss) == (5, 40, 0.5)
    assert first.seconds >= 5 * 0.001


def test_without_examples_steps_are_counted_and_that_is_said(start: Start) -> None:
    run = start("train(examples=None)")
    assert (run.examples_per_step, run.unit) == (1, "steps")
    assert run.note == "steps are counted, because nothing tells the examples of a step: give examples_per_step="


def test_given_examples_hold(start: Start) -> None:
    run = start("train(examples=None)", unit="images/s", examples_per_step=32)
    assert (run.examples_per_step, run.unit, windows(run)[0].examples) == (32, "images", None)


def test_a_loss_that_is_no_number_is_told(start: Start) -> None:
    run = start("train(loss=float('nan'))")
    assert str(windows(run)[0].loss) == "nan"


def test_a_slowdown_is_added_to_its_windows(start: Start) -> None:
    run = start("train()", slowdown=0.9)
    assert windows(run)[0].seconds >= 10 * 5 * 0.001


def test_it_waits_between_two_windows(start: Start) -> None:
    run = start("""
        for number in range(10**9):
            print("step", number, flush=True)
            train(1)
    """)
    windows(run, 1)
    before = printed(run).count("step")
    time.sleep(0.3)
    assert printed(run).count("step") <= before + 1
    windows(run, 1)
    assert printed(run).count("step") >= before + 5


def test_stalls_count_although_no_loader_is_seen(start: Start) -> None:
    assert start("train()").fetches  # so all examples are divided by all seconds


def test_a_step_in_which_it_did_something_else_is_named(start: Start) -> None:
    run = start("train(40); time.sleep(2.5); train()")
    run.request(5)
    for _ in range(12):
        run.request(5)  # one ahead, so that it never waits
        run.receive()
    assert "the program did something else, such as sampling or a checkpoint" in run.note
    assert not run.fetches


def test_a_figure_of_its_lines_is_read_meanwhile(start: Start) -> None:
    run = start("print('accuracy: 0.75', flush=True); train()")
    assert shows(run, "accuracy: 0.75")


def test_a_program_that_prints_much_is_not_blocked_while_it_trains(start: Start) -> None:
    run = start("""
        for _ in range(10**9):
            print("x" * 200_000, flush=True)
            train(1)
    """)
    assert [window.steps for window in windows(run, 5, 10)] == [10] * 5


def test_a_thread_that_fills_the_pipe_while_it_is_held_does_not_block_the_next_window(start: Start) -> None:
    run = start("""
        import threading
        def chat():
            while True:
                print("x" * 100_000, flush=True)
        threading.Thread(target=chat, daemon=True).start()
        train()
    """)
    windows(run, 1)
    time.sleep(0.3)
    run.hold()
    time.sleep(0.3)
    assert [window.steps for window in windows(run, 3)] == [5] * 3


def test_a_held_program_computes_nothing_in_its_threads_and_processes(start: Start) -> None:
    run = start("""
        import multiprocessing, threading
        def computes(what):
            while True:
                time.sleep(0.005)
                print(what, flush=True)
        threading.Thread(target=computes, args=["a thread"], daemon=True).start()
        multiprocessing.Process(target=computes, args=["a process"], daemon=True).start()
        train()
    """)
    windows(run, 1)
    assert wait_for(lambda: all(what in printed(run) for what in ("a thread", "a process")))
    run.hold()
    time.sleep(0.2)  # what was written before it stopped is there
    before = printed(run)
    time.sleep(0.3)
    assert printed(run) == before
    windows(run, 1)
    after = len(before)
    assert wait_for(lambda: all(what in printed(run)[after:] for what in ("a thread", "a process")))


def test_a_hold_may_last_longer_than_a_silent_driver_is_waited_for(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probed_program, "MOST_STOPPED_SECONDS", 2.0)
    run = start("train()")
    windows(run, 1)
    run.hold()
    time.sleep(2.5)
    assert windows(run, 1)[0].steps == 5


def test_the_first_steps_after_a_stop_are_left_out_and_counted(start: Start) -> None:
    run = start("train()")
    windows(run, 1, 20)
    run.hold()
    windows(run, 2, 20)
    assert [(window.untimed, window.steps) for window in run._windows] == [(0, 20), (2, 20), (0, 20)]
    assert run._program.steps == 3 + 20 + 2 + 20 + 20


def test_a_stop_before_the_first_window_leaves_no_step_out(start: Start) -> None:
    run = start("train()")
    run.hold()
    windows(run, 1, 20)
    assert run._windows[0].untimed == 0


def test_a_job_of_a_shell_is_not_stopped(start: Start, tmp_path: Path) -> None:
    shell = shutil.which("bash")
    assert shell is not None
    run = start("train()", argv=[shell, "-c", f"set -m; {sys.executable} {tmp_path / 'program.py'}; true"])
    assert run.why_not_held == "its process can't be stopped between two windows"


@pytest.mark.parametrize(
    ("argument", "is_refused"),
    [
        ("--output-dir=/data/run", True),
        ("--checkpoint_path /data/run", True),
        ("--master-port=29500", True),
        ("--num_workers 4", False),
        ("--save_every=1000", False),
        ("--log-interval 10", False),
        ("--data=/data/images", False),
        ("--network=/models/x.yaml", False),
        ("--report=100", False),
    ],
)
def test_two_programs_run_at_once_unless_an_argument_names_one_place_to_write(
    tmp_path: Path, argument: str, is_refused: bool
) -> None:
    a, b = (Command(["train", *argument.split()], name="it", cwd=str(tmp_path / side)) for side in "ab")
    assert bool(probed_program.why_not_at_once(a, b)) is is_refused


@pytest.mark.parametrize("pid", ["os.getppid()", "1"])
def test_a_process_that_is_none_of_the_programs_is_never_stopped(start: Start, pid: str) -> None:
    run = start(f"os.getpid = lambda: {pid}\ntrain()")
    assert run.why_not_held == "its process can't be stopped between two windows"
    run.hold()
    assert windows(run)[0].steps == 5


# How it is started


@pytest.mark.parametrize("options", [["-s"], ["-u"], ["-B"], ["-X", "dev"], ["-W", "ignore"], ["-O"], ["-Wignore"]])
def test_other_options_of_python_leave_the_probe(start: Start, options: list[str]) -> None:
    assert windows(start("train()", *options))[0].steps == 5


@pytest.mark.parametrize("option", ["-I", "-E", "-S", "-IB", "-uE", "-Es"])
def test_a_python_without_the_probe_is_refused_at_once(start: Start, option: str) -> None:
    letter = next(letter for letter in option if letter in "IES")
    with pytest.raises(MeasurementError) as raised:
        start("train()", option)
    assert str(raised.value).splitlines()[0] == (
        f"{Path(sys.executable).name} {option} runs without the probe that tells a program's steps. "
        f"Start it without -{letter}, or state what it prints: reads=Reads(...)"
    )


def test_a_python_without_the_probe_that_a_shell_starts_is_told_at_its_end(start: Start, tmp_path: Path) -> None:
    with pytest.raises(MeasurementError, match=r"^the program ended before a step could be seen: no framework"):
        start("train(9)", argv=["/bin/sh", "-c", f"{sys.executable} -I {tmp_path}/program.py"])


def test_a_module_and_a_text_are_programs_too(start: Start, tmp_path: Path) -> None:
    assert windows(start("train()", argv=[sys.executable, "-m", "program"]))[0].steps == 5
    assert windows(start("", argv=[sys.executable, "-c", "import program; program.train()"]))[0].steps == 5


def test_its_own_sitecustomize_runs(start: Start, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own/sitecustomize.py").write_text("print('mine', flush=True)")
    run = start("print(sys.modules['sitecustomize'].__file__); train()", env={"PYTHONPATH": str(tmp_path / "own")})
    assert printed(run).splitlines() == ["mine", str(tmp_path / "own/sitecustomize.py")]


def test_an_own_sitecustomize_that_fails_does_so_as_without_the_probe(start: Start, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own/sitecustomize.py").write_text("import missing_module")
    run = start("train()", env={"PYTHONPATH": str(tmp_path / "own")})
    assert "Error in sitecustomize" in printed(run)
    assert windows(run)[0].steps == 5


def test_an_own_audit_hook_hears_the_steps_too(start: Start) -> None:
    run = start("""
        seen = set()
        def hear(event, _):
            if event == "tfperf.step" and not seen:
                seen.add(event)
                print("heard", flush=True)
        sys.addaudithook(hear)
        train()
    """)
    assert windows(run)[0].steps == 5
    assert "heard" in printed(run)


def test_an_audit_hook_that_forbids_connections_leaves_the_program_unmeasured(start: Start) -> None:
    with pytest.raises(MeasurementError, match=r"^the program can't be measured: Gone: no network"):
        start(
            """
            def forbid(event, _):
                if event == "socket.connect":
                    raise PermissionError("no network")
            sys.addaudithook(forbid)
            train()
            """
        )


def test_the_probe_is_not_on_the_programs_path(start: Start) -> None:
    run = start("print([p for p in sys.path if 'hook' in p], flush=True); train()")
    assert printed(run) == "[]\n"


# How it ends


@pytest.mark.parametrize(
    ("program", "fact", "kind"),
    [
        ("train(20)", "the program ended", MeasurementError),
        ("train(20); sys.exit('no data')", "the program exited with status 1 after 8 steps", UserCodeFailed),
        ("train(20); os.kill(os.getpid(), 9)", "the program was ended by SIGKILL", UserCodeFailed),
    ],
    ids=["status 0", "status 1", "SIGKILL"],
)
def test_a_program_that_ends_early_says_after_how_many_steps(
    start: Start, program: str, fact: str, kind: type[MeasurementError]
) -> None:
    run = start(program)
    windows(run, 1)
    with pytest.raises(kind) as raised:
        windows(run, 1, size=100)
    assert raised.value.fact.startswith(fact)
    assert raised.value.fact.endswith("after 8 steps")


@pytest.mark.parametrize(
    ("program", "fact"),
    [
        ("", "the program ended before a step could be seen: no framework was imported"),
        (
            "train(2)",
            "the program ended before a step could be seen: no framework was imported; "
            "a step of the audit event was seen, and too few followed",
        ),
        ("sys.exit(3)", "the program exited with status 3 before a step could be seen: no framework was imported"),
    ],
)
def test_a_program_that_takes_no_step_says_what_was_seen(start: Start, program: str, fact: str) -> None:
    with pytest.raises(MeasurementError) as raised:
        start(program)
    assert raised.value.fact == fact


def test_a_program_that_goes_on_without_steps_says_what_was_looked_for(start: Start) -> None:
    with pytest.raises(MeasurementError) as raised:
        start("time.sleep(600)", first_within=0.5)
    assert raised.value.fact.startswith("the program took no step that can be seen in ")
    assert "sys.audit('tfperf.step', EXAMPLES)" in str(raised.value)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_program_that_is_killed_while_it_is_held_says_so(start: Start, number: signal.Signals) -> None:
    run = start("train()")
    windows(run, 1)
    run.hold()
    os.kill(run.pids[0], number)
    with pytest.raises(MeasurementError) as raised:
        windows(run, 1)
    assert raised.value.fact.startswith(f"the program was ended by {number.name}")
    assert raised.value.fact.endswith("after 8 steps")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_supervisor_that_is_killed_while_it_is_held_takes_the_program_with_it(
    start: Start, number: signal.Signals
) -> None:
    run = start("train()")
    windows(run, 1)
    run.hold()
    pid = run.pids[0]
    os.kill(supervisor_of(pid), number)
    with pytest.raises(MeasurementError, match=r"SIGTERM|supervisor"):
        windows(run, 1)
    assert wait_for(lambda: is_gone(pid))


def test_closing_ends_a_held_program_and_what_it_started(start: Start, tmp_path: Path) -> None:
    run = start("""
        import signal, subprocess
        child = subprocess.Popen(["sleep", "600"], start_new_session=True)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(open("ended", "w").close()))
        print(child.pid, flush=True)
        train()
    """)
    windows(run, 1)
    run.hold()
    child = int(printed(run).split()[0])
    run.close()
    assert (tmp_path / "ended").exists()
    assert is_gone(run.pids[0])
    assert is_gone(child)


def test_a_program_whose_driver_is_gone_goes_on_until_it_ends(start: Start, tmp_path: Path) -> None:
    run = start("train(30); open('ended', 'w').close()")
    windows(run, 1)
    run._ranks[0].channel.close()
    assert wait_for((tmp_path / "ended").exists)


def test_a_program_that_is_held_ends_with_a_killed_driver(tmp_path: Path) -> None:
    ends = 'import signal\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(open("ended", "w").close()))\n'
    (tmp_path / "program.py").write_text(dedent(LOOP) + ends + "train()")
    driver = f"""
        import sys, time
        from pathlib import Path
        from tests.programs import test_probed_run as tests
        folder = Path({str(tmp_path)!r})
        made = tests.prepared(folder, [sys.executable, str(folder / "program.py")], {{}}, {{}})
        run = tests.started(made)
        run.request(5)
        run.receive()
        run.hold()
        print(run.pids[0], flush=True)
        time.sleep(600)
    """
    with running(dedent(driver), cwd=Path(__file__).parents[2]) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        process.kill()
        assert wait_for(lambda: is_gone(pid))
    assert (tmp_path / "ended").exists()  # it was told to end, and could


@pytest.mark.parametrize("own_session", [False, True], ids=["the program", "torchrun's rank"])
def test_a_program_that_a_hanging_driver_has_stopped_goes_on(own_session: bool) -> None:
    stops = "import os, signal; os.kill(os.getpid(), signal.SIGSTOP); print(1)"
    starts = (
        f"import subprocess, sys; subprocess.run([sys.executable, '-c', {stops!r}], start_new_session={own_session})"
    )
    supervisor = (
        "from pytest_tfperf.programs import supervisor; supervisor.MOST_STOPPED_SECONDS = 0.2; supervisor.main()"
    )
    command = [sys.executable, "-c", supervisor, str(os.getpid()), "3", sys.executable, "-c", starts]
    done = subprocess.run(command, stdout=subprocess.PIPE, timeout=PATIENCE_SECONDS)
    assert done.stdout == b"1\n"


@pytest.mark.parametrize("answers", ["nothing", "the greeting", "the job"])
def test_a_driver_that_answers_no_more_lets_the_program_go_on(tmp_path: Path, answers: str) -> None:
    listener = Listener()
    host, port, key = listener.address.rsplit(":", 2)
    hook = HookFolder(tmp_path)
    hook.add(entry, "begin", str(tmp_path / "seen"), host, int(port), key, beside=(steps, link, frameworks))
    for file in (tmp_path / "hook").glob("*.py"):  # a driver has ten seconds
        file.write_text(file.read_text().replace("= 10.0", "= 0.2").replace("receive(10.0)", "receive(0.2)"))
    program = [sys.executable, "-c", dedent(LOOP) + "train(20); print('whole')"]
    with (
        ExitStack() as undo,
        subprocess.Popen(program, env=hook.environment(os.environ), stdout=subprocess.PIPE, text=True) as process,
    ):
        undo.callback(listener.close)
        if answers != "nothing":
            channel, _ = listener.greet(PATIENCE_SECONDS)
            undo.callback(channel.close)
            if "job" in answers:
                channel.send({"slowdown": 0.0, "hold_seconds": 0.2})
        assert process.communicate(timeout=PATIENCE_SECONDS)[0] == "whole\n"
    assert "\tended Gone: timed out" in (tmp_path / "seen").read_text()


def test_steps_that_a_program_tells_late_are_named(start_torch: Start) -> None:
    run = start_torch("epoch(loader)\nwhile True: epoch(loader); train(1)")
    with pytest.raises(MeasurementError) as raised:
        windows(run, 50)
    assert raised.value.fact.endswith("the program tells its steps from step 193 on, after PyTorch's optimizer")


# Processes


def test_two_processes_that_train_are_refused_and_named(start: Start) -> None:
    with pytest.raises(MeasurementError) as raised:
        windows(start("print(os.fork(), flush=True); train()"), 10**6, 1)
    fact = raised.value.fact
    assert fact.startswith("2 processes train (pids ")
    assert fact.endswith("), and nothing says that they do so together")


def test_a_second_training_that_begins_later_is_refused(start: Start, tmp_path: Path) -> None:
    run = start("""
        train(30)
        child = os.fork()
        print("pids", os.getpid(), child, flush=True) if child else None
        train()
    """)
    with pytest.raises(MeasurementError) as raised:
        windows(run, 10**6, 1)
    pids = next(line.split()[1:] for line in (tmp_path / "log").read_text().splitlines() if line.startswith("pids"))
    assert raised.value.fact == (
        f"2 processes train (pids {', '.join(pids)}), and nothing says that they do so together"
    )


def test_a_forked_child_may_be_the_one_that_trains(start: Start) -> None:
    run = start("""
        train(2)  # too few
        child = os.fork()
        if child:
            os.waitpid(child, 0)
        else:
            train()
    """)
    assert windows(run)[0].steps == 5


CHILD = """
    import subprocess
    if "child" in sys.argv:
        train()
    child = [sys.executable, __file__, "child"]
"""


def test_a_child_may_be_the_one_that_trains(start: Start) -> None:
    run = start(CHILD + "    subprocess.run(child)")
    assert windows(run)[0].steps == 5


def test_two_children_that_train_are_refused(start: Start) -> None:
    with pytest.raises(MeasurementError, match=r"^2 processes train \(pids "):
        windows(start(CHILD + "    both = subprocess.Popen(child), subprocess.Popen(child); both[0].wait()"), 10**6, 1)


def test_a_child_without_the_programs_environment_is_not_seen(start: Start) -> None:
    with pytest.raises(MeasurementError, match=r"took no step that can be seen in .*: no framework was imported"):
        start(CHILD + "    subprocess.run(child, env={})", first_within=2)


def test_a_program_that_goes_into_the_background_is_ended_with_its_parent(start: Start, tmp_path: Path) -> None:
    with pytest.raises(MeasurementError, match="the program ended before a step could be seen"):
        start("""
            if os.fork():
                while not os.path.exists("pid"):
                    time.sleep(0.01)
                sys.exit()
            os.setsid()
            with open("new", "w") as file:
                file.write(str(os.getpid()))
            os.rename("new", "pid")
            time.sleep(600)
        """)
    assert wait_for(lambda: is_gone(int((tmp_path / "pid").read_text())))


def test_children_that_do_not_train_do_not_disturb(start: Start) -> None:
    run = start("""
        import subprocess
        while True:
            train(3)
            if not os.fork():
                os._exit(0)
            subprocess.run([sys.executable, "-c", ""])
            os.wait()
    """)
    assert [window.steps for window in windows(run, 5)] == [5] * 5


def test_a_program_that_starts_itself_anew_is_followed(start: Start) -> None:
    run = start("""
        if "again" not in sys.argv:
            train(2)
            os.execv(sys.executable, [sys.executable, *sys.argv, "again"])
        train()
    """)
    assert windows(run)[0].steps == 5


def test_a_program_that_starts_itself_anew_while_it_is_measured_is_told(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probed_program, "_END_SECONDS", 0.5)
    run = start("""
        if "again" not in sys.argv:
            train(20)
            os.execv(sys.executable, [sys.executable, *sys.argv, "again"])
        train()
    """)
    with pytest.raises(
        MeasurementError, match=r"still runs: it has closed its probe's connection, or started itself anew"
    ):
        windows(run, 20)


@pytest.mark.parametrize("first", [0, 3])
def test_a_program_that_closes_all_descriptors_before_it_trains_is_measured(start: Start, first: int) -> None:
    run = start(f"os.closerange({first}, 65536); train()")
    assert windows(run)[0].steps == 5


def test_a_program_that_closes_the_probes_connection_goes_on_and_its_files_are_its_own(
    start: Start, tmp_path: Path
) -> None:
    run = start("""
        train(20)
        os.closerange(3, 65536)
        with open("file", "w") as file:
            train(50)
            file.write("mine")
        os.rename("file", "whole")
        time.sleep(600)
    """)
    with pytest.raises(MeasurementError) as raised:
        windows(run, 20)
    assert raised.value.fact.endswith("and still runs: Gone: the program has closed its probe's connection")
    assert wait_for((tmp_path / "whole").exists)
    assert (tmp_path / "whole").read_text() == "mine"


def test_a_program_may_train_in_a_thread(start: Start) -> None:
    run = start("import threading; t = threading.Thread(target=train); t.start(); t.join()")
    assert windows(run)[0].steps == 5


def test_steps_of_two_threads_are_refused(start: Start) -> None:
    with pytest.raises(MeasurementError, match="two threads take steps, MainThread and Thread-1"):
        windows(start("import threading; threading.Thread(target=train, daemon=True).start(); train()"), 20)


def test_a_training_that_moves_to_another_thread_is_refused_at_once(start: Start) -> None:
    run = start("import threading; train(12); t = threading.Thread(target=train); t.start(); t.join()")
    with pytest.raises(MeasurementError, match="two threads take steps, MainThread and Thread-1"):
        windows(run, 20)


def test_trainings_in_two_threads_with_an_optimizer_each_are_refused(start_torch: Start) -> None:
    program = """
        import threading
        def forever(optimizer):
            while True:
                epoch(DataLoader(), optimizer=optimizer)
        threading.Thread(target=forever, args=[other], name="the other", daemon=True).start()
        forever(optimizer)
    """
    with pytest.raises(MeasurementError, match="two threads take steps, MainThread and the other"):
        windows(start_torch(program), 20)


def test_a_program_that_waits_for_itself_with_an_alarm_is_only_held(start: Start) -> None:
    run = start("""
        import signal
        signal.signal(signal.SIGALRM, lambda *_: None)
        signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
        train()
    """)
    windows(run, 1)
    time.sleep(0.2)
    assert [window.steps for window in windows(run)] == [5] * 3


# What a program may send itself, with the key that its environment's folder holds

SENDS = """
    train(3)
    probe = sys.modules["sitecustomize_of_tfperf"]
    import gc
    link = next(each for each in gc.get_objects() if type(each).__name__ == "Link")
"""


@pytest.mark.parametrize(
    ("message", "why"),
    [
        ("[1, 2]", "it has sent what is no message"),
        ("{'window': 3}", "its answer: expected an object"),
        ("{'window': {'steps': 10**300}}", "a whole number has 301 digits"),
        ("{'window': {'steps': 5}}", "its answer: the field 'untimed' is missing"),
        ("{'error': 3}", "it has sent"),
        ("{'phase': 'x'}", "it has sent"),
        ("{'window': 'x' * 100_000}", "it announces a longer message than pytest-tfperf sends"),
        ("{'window': {**WINDOW, 'steps': 2**60}}", "a number can't be true"),
        ("{'window': {**WINDOW, 'seconds': -1.0}}", "a number can't be true"),
        ("{'window': {**WINDOW, 'seconds': float('inf')}}", ""),
        ("{'window': {**WINDOW, 'examples': -5}}", "a number can't be true"),
        ("{'window': {**WINDOW, 'examples': '8'}}", "expected int"),
        ("{'window': {**WINDOW, 'steps': True}}", "expected int"),
        ("{'window': {**WINDOW, 'untimed': -1}}", "a number can't be true"),
    ],
)
def test_a_message_that_is_no_probes_is_refused(start: Start, message: str, why: str) -> None:
    window = (
        "WINDOW = dict(steps=5, untimed=0, seconds=1.0, loss=None, examples=40, input_seconds=0.0, "
        "between_seconds=0.0, paused_seconds=0.0, skipped=0, others=0, doubt='', counts={})"
    )
    run = start(f"{dedent(SENDS)}\n{window}\nlink.send({message})\ntime.sleep(600)")
    with pytest.raises(MeasurementError) as raised:
        windows(run, 1)
    assert raised.value.fact.startswith("its probe can't be understood: ")
    assert why in raised.value.fact
    assert len(raised.value.fact) < 300


def test_a_message_that_is_not_signed_is_refused(start: Start) -> None:
    run = start(f"{dedent(SENDS)}\nlink._key = b'0' * 32\nlink.send({{'window': 1}})\ntime.sleep(600)")
    with pytest.raises(MeasurementError, match="it does not have this session's key"):
        windows(run, 1)


@pytest.mark.parametrize("hello", ["'pid': 'x', 'rank': 0, 'ranks': 1", "'pid': 1, 'rank': 3, 'ranks': 10**9", ""])
def test_a_call_that_is_no_probes_is_refused(start: Start, hello: str) -> None:
    with pytest.raises(MeasurementError, match="its probe can't be understood: "):
        start(f"""
            import gc
            train(1)
            link = sys.modules["sitecustomize_of_tfperf"].load("tfperf_link")
            probe = next(each for each in gc.get_objects() if type(each).__name__ == "Probe")
            link.Link(*probe._address).send({{{hello}}})
            time.sleep(600)
        """)


def test_a_stranger_at_the_drivers_port_does_not_disturb(start: Start) -> None:
    run = start("""
        import gc, socket
        train(1)
        probe = next(each for each in gc.get_objects() if type(each).__name__ == "Probe")
        others = [socket.create_connection(probe._address[:2]) for _ in range(20)]
        others[0].send(b"GET / HTTP/1.1\\r\\n\\r\\n" * 100)
        train()
    """)
    assert windows(run)[0].steps == 5


# Other Pythons


def python(version: str) -> str:
    """A Python of this version; pyenv's commands on PATH run only where it was told to use that one."""
    found = shutil.which(f"python{version}") or ""
    if found and subprocess.run([found, "-c", ""], capture_output=True).returncode == 0:
        return found
    kept = sorted(Path("~/.pyenv/versions").expanduser().glob(f"{version}.*/bin/python"))
    return str(kept[-1]) if kept else pytest.skip(f"this machine has no Python {version}")


@pytest.mark.parametrize("version", ["3.8", "3.9", "3.10", "3.12", "3.13", "3.14"])
def test_a_python_without_our_package_tells_its_steps(start: Start, tmp_path: Path, version: str) -> None:
    run = start("train()", argv=[python(version), str(tmp_path / "program.py")])
    assert run.environment["python"].startswith(f"{version}.")
    assert [(window.steps, window.examples) for window in windows(run)] == [(5, 40)] * 3


def test_a_python_that_is_too_old_runs_as_without_the_probe(start: Start, tmp_path: Path) -> None:
    with pytest.raises(MeasurementError, match=r"^the program exited with status 5 before a step could be seen"):
        start("sys.exit(5)", argv=[python("3.7"), str(tmp_path / "program.py")])


# A stand-in for PyTorch, with the names that the probe takes hold of; the real one is in test_probed_frameworks.py.

OPTIMIZER = """
before, after = [], []
register_optimizer_step_pre_hook, register_optimizer_step_post_hook = before.append, after.append
class Optimizer:
    inner = None
    def step(self):
        for hook in before:
            hook(self, (), {})
        if self.inner is not None:
            self.inner.step()
        for hook in after:
            hook(self, (), {})
"""
LOADER = """
import itertools, torch
class DataLoader:
    batch_sampler, sampler, num_workers, prefetch_factor = None, None, 0, None
    def __init__(self, batch_size=8, rows=None, number=100):
        self.batch_size, self.number, self.rows, self.dataset = batch_size, number, rows or batch_size, []
    def __iter__(self):
        return _BaseDataLoaderIter(self)
class _BaseDataLoaderIter:
    def __init__(self, loader):
        self.batches = iter([[torch.Tensor(loader.rows)]] * loader.number)
    def __iter__(self):
        return self
    def __next__(self):
        return next(self.batches)
"""
TORCH = """
__version__ = "2.0"
class Tensor:
    def __init__(self, rows):
        self.shape = rows, 4
    def dim(self):
        return len(self.shape)
    def size(self, dimension):
        return self.shape[dimension]
"""
TRAINS = """
import itertools
from torch.optim.optimizer import Optimizer
from torch.utils.data.dataloader import DataLoader
loader, optimizer, other = DataLoader(), Optimizer(), Optimizer()
def epoch(loader, of_a_step=1, optimizer=optimizer):
    for number, batch in enumerate(loader, 1):
        time.sleep(0.001)
        if number % of_a_step == 0:
            optimizer.step()
"""


@pytest.fixture
def start_torch(start: Start, tmp_path: Path) -> Start:
    for name, text in [("torch", TORCH), ("torch/optim", ""), ("torch/utils", ""), ("torch/utils/data", "")]:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(text)
    (tmp_path / "torch/optim/optimizer.py").write_text(OPTIMIZER)
    (tmp_path / "torch/utils/data/dataloader.py").write_text(LOADER)
    return lambda program, **more: start(TRAINS + dedent(program), **more)


@pytest.mark.parametrize("version", ["3.8", "3.13"])
def test_pytorch_is_followed_in_any_python(start_torch: Start, tmp_path: Path, version: str) -> None:
    run = start_torch("while True: epoch(loader)", argv=[python(version), str(tmp_path / "program.py")])
    assert (run.examples_per_step, run.note, run.environment["torch"]) == (8, "", "2.0")
    assert [window.examples for window in windows(run)] == [40] * 3


def test_accumulated_batches_of_pytorch_are_of_one_step(start_torch: Start) -> None:
    run = start_torch("while True: epoch(loader, 4)")
    assert run.examples_per_step == 32


def test_an_optimizer_around_another_takes_one_step(start_torch: Start) -> None:
    run = start_torch("optimizer.inner = other\nwhile True: epoch(loader)")
    assert windows(run)[0].examples == 40


def test_an_optimizer_that_steps_once_for_each_group_of_parameters_takes_one_step(start_torch: Start) -> None:
    """As DeepSpeed's ZeRO lets it."""
    run = start_torch("""
        groups = [{"params": [object()]}, {"params": [object()]}]
        while True:
            for _ in loader:
                time.sleep(0.001)
                for group in groups:
                    optimizer.param_groups = [group]
                    optimizer.step()
    """)
    assert windows(run)[0].examples == 40


def test_an_optimizer_whose_first_parameter_is_replaced_counts_on(start_torch: Start) -> None:
    """As where a training adds or removes parameters."""
    run = start_torch("""
        for number in itertools.count():
            optimizer.param_groups = [{"params": [object()]}] if number else []
            epoch(loader)
    """)
    assert [window.examples for window in windows(run, 5, 50)] == [400] * 5


@pytest.mark.parametrize("inner", ["0", "other"])
def test_an_optimizer_whose_step_has_raised_counts_again(start_torch: Start, inner: str) -> None:
    """As where a training that has run out of memory begins again with a smaller batch."""
    run = start_torch(f"""
        optimizer.inner = {inner}
        other.inner = 0
        try:
            optimizer.step()
        except AttributeError:
            optimizer.inner = other.inner = None
        while True:
            epoch(loader)
    """)
    assert windows(run)[0].examples == 40


def test_of_two_optimizers_the_first_counts(start_torch: Start) -> None:
    run = start_torch("""
        while True:
            for _ in loader:
                time.sleep(0.001)
                optimizer.step()
                other.step()
                other.step()
    """)
    assert windows(run)[0].examples == 40


def test_an_optimizer_of_a_warm_up_does_not_count(start_torch: Start) -> None:
    run = start_torch("other.step(); other.step()\nwhile True: epoch(loader)")
    assert windows(run)[0].examples == 40


def test_a_second_phase_with_another_optimizer_is_told(start_torch: Start) -> None:
    run = start_torch("epoch(loader)\nwhile True: epoch(loader, optimizer=other)")
    with pytest.raises(MeasurementError) as raised:
        windows(run, 50)
    assert raised.value.fact.endswith(
        "and still runs: the optimizer whose steps were counted takes none any more, and another does"
    )


def test_an_optimizer_that_is_made_anew_is_followed(start_torch: Start) -> None:
    run = start_torch("""
        del optimizer
        epoch.__defaults__ = 1, None
        while True:
            epoch(DataLoader(number=12), optimizer=Optimizer())
    """)
    assert [window.examples for window in windows(run, 5, 10)] == [80] * 5


def test_evaluation_on_the_training_data_is_not_timed(start_torch: Start) -> None:
    run = start_torch("""
        while True:
            epoch(loader)
            evaluation = DataLoader(number=100)
            evaluation.dataset = loader.dataset
            for _ in evaluation:
                time.sleep(0.001)
    """)
    windows(run, 1, 200)
    paused = run._windows[-1].paused_seconds
    assert paused >= 100 * 0.001
    assert run.not_counted(1).endswith(" % of the time, as in an evaluation")
    assert windows(run, 1, 200)[0].examples == 1600


def test_graphs_in_a_batch_are_not_taken_for_examples(start_torch: Start) -> None:
    run = start_torch("while True: epoch(DataLoader(batch_size=10, rows=70))")
    assert run.note == (
        "steps are counted, because its batches hold 70 examples, and its loader says 10: give examples_per_step="
    )


@pytest.mark.parametrize("batch", ["(tensor(), torch.Tensor(3))", "{'wave': tensor(9), 'mel': torch.Tensor(80)}"])
def test_a_single_example_of_a_loader_that_states_no_batch_size_is_not_counted(start_torch: Start, batch: str) -> None:
    run = start_torch(f"""
        import torch
        def tensor(*shape):
            made = torch.Tensor(0)
            made.shape = shape
            return made
        from torch.utils.data.dataloader import _BaseDataLoaderIter
        batches = _BaseDataLoaderIter(DataLoader(batch_size=None, rows=8))
        batches.batches = itertools.repeat({batch})
        while True:
            epoch(batches)
    """)
    assert "its batches have no tensor whose examples could be counted" in run.note


def test_a_batch_of_a_programs_own_class_never_fails_it(start_torch: Start) -> None:
    run = start_torch("""
        from torch.utils.data.dataloader import _BaseDataLoaderIter
        class Batch:
            def keys(self, table): ...
            def values(self, table): ...
        batches = _BaseDataLoaderIter(loader)
        batches.batches = itertools.repeat(Batch())
        while True:
            epoch(batches)
    """)
    assert "its batches have no tensor whose examples could be counted" in run.note


def test_the_tensors_of_a_batch_may_come_after_its_names(start_torch: Start) -> None:
    run = start_torch("""
        import torch
        from torch.utils.data.dataloader import _BaseDataLoaderIter
        batches = _BaseDataLoaderIter(loader)
        batches.batches = itertools.repeat({"name": ["a"] * 8, "image": torch.Tensor(8)})
        while True:
            epoch(batches)
    """)
    assert windows(run)[0].examples == 40


def test_batches_that_change_their_kind_while_they_are_counted_are_refused(start_torch: Start) -> None:
    run = start_torch("epoch(loader)\nepoch(DataLoader(batch_size=10, rows=70))")
    with pytest.raises(MeasurementError, match="its batches hold 70 examples, and its loader says 10"):
        windows(run, 20, 10)


def test_a_pytorch_without_hooks_of_all_optimizers_is_told(start_torch: Start, tmp_path: Path) -> None:
    (tmp_path / "torch/optim/optimizer.py").write_text("class Optimizer: pass  # as before 2.0")
    with pytest.raises(MeasurementError, match=r"torch; torch\.optim\.optimizer can't be followed: AttributeError"):
        start_torch("")
