"""A command as a process: what it prints and how it ends, and that nothing it started is left."""

from __future__ import annotations

import os
import signal
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import count
from pathlib import Path
from textwrap import dedent

import pytest

from pytest_tfperf.core.command import Command
from pytest_tfperf.core.topology import DeviceKind, Devices
from pytest_tfperf.errors import DeviceFailed, MeasurementError, OutOfMemory, TfperfError, UserCodeFailed
from pytest_tfperf.programs import command_run
from pytest_tfperf.programs.command_run import BoundedLog, CommandRun
from pytest_tfperf.workers.launcher import PreparedCommand
from pytest_tfperf.workers.local import LocalLauncher
from pytest_tfperf.workers.processes import Interpreter
from tests.helpers.patience import PATIENCE_SECONDS, is_gone, running, wait_for

Start = Callable[..., CommandRun]


def prepared_in(folder: Path, argv: Sequence[str], *, log: str = "log", **environment: str) -> PreparedCommand:
    variables = {**os.environ, **environment}
    return PreparedCommand(
        command=Command(argv, name="it", env=variables, cwd=folder), log=folder / log, silence_seconds=9, facts={}
    )


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    runs: list[CommandRun] = []

    def start(program: str, *arguments: object, **environment: str) -> CommandRun:
        argv = [sys.executable, "-c", dedent(program), *map(str, arguments)]
        prepared = prepared_in(tmp_path, argv, log="command.log", **environment)
        run = CommandRun(prepared)
        runs.append(run)
        return run

    yield start
    for run in runs:
        run.close()


def test_a_log_that_can_not_be_written_is_no_failure_of_the_program(start: Start, tmp_path: Path) -> None:
    (tmp_path / "command.log").mkdir()
    with pytest.raises(MeasurementError, match=r"command\.log can't be written: Is a directory"):
        start("print(1)")


def printed(run: CommandRun) -> str:
    """All that it prints until it ends."""
    parts = []
    while data := run.read(PATIENCE_SECONDS):
        parts.append(data)
    return b"".join(parts).decode()


def test_both_streams_come_as_they_are_printed_and_stdin_is_empty(start: Start) -> None:
    run = start("import sys; print('out'); print('err', file=sys.stderr); print(repr(sys.stdin.read()))")
    assert sorted(printed(run).split()) == ["''", "err", "out"]
    assert run.ended_badly() == ""


def test_pythons_output_is_not_buffered(start: Start) -> None:
    run = start("import time; print('now'); time.sleep(600)")
    assert (run.read(PATIENCE_SECONDS) or b"").startswith(b"now")


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import sys; sys.exit(3)", "exited with status 3"),
        ("import os; os.kill(os.getpid(), 9)", "was ended by SIGKILL"),
        ("import os; os.abort()", "was ended by SIGABRT"),
    ],
)
def test_how_it_ended_is_said(start: Start, program: str, said: str) -> None:
    run = start(program)
    printed(run)
    assert run.ended_badly().startswith(said)


def test_a_failure_shows_the_end_of_its_output_and_the_next_step(start: Start) -> None:
    run = start("print('no space left')")
    printed(run)
    assert str(run.failure("it failed", "free space")).splitlines()[::3] == ["it failed", "  | no space left"]


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import os; os.kill(os.getpid(), 9)", "was ended by the kernel's out-of-memory killer"),
        ("raise SystemExit(1)", "exited with status 1 after the kernel's out-of-memory killer had ended a process"),
    ],
    ids=["the program", "what it started"],
)
def test_a_kill_that_the_kernel_counted_is_no_fault_of_the_program(
    start: Start, monkeypatch: pytest.MonkeyPatch, program: str, said: str
) -> None:
    monkeypatch.setattr(command_run, "kernel_oom_kills", count().__next__)
    run = start(program)
    printed(run)
    assert (run.ended_badly(), type(run.failure("it failed", "free space"))) == (said, OutOfMemory)


def test_a_bad_end_without_such_a_kill_is_the_programs_fault(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_run, "kernel_oom_kills", lambda: 7)
    run = start("raise SystemExit(1)")
    printed(run)
    assert type(run.failure("it failed", "fix it")) is UserCodeFailed


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", OutOfMemory),
        ("RuntimeError: CUDA error: uncorrectable ECC error encountered", DeviceFailed),
        ("RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED", DeviceFailed),
        ("cuLaunchKernel failed: CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure", DeviceFailed),
        ("OSError: [Errno 28] No space left on device: '/data/checkpoint'", DeviceFailed),
        ("RESOURCE_EXHAUSTED: /data/a; Too many open files", DeviceFailed),
        ("RuntimeError: CUDA error: device-side assert triggered", UserCodeFailed),
        # TensorFlow's line where it finds no GPU, and a fault of the program's own below it.
        ("CUDA_ERROR_NO_DEVICE\nTraceback (most recent call last):\nValueError: shapes do not fit", UserCodeFailed),
    ],
)
def test_what_a_gpu_lacked_is_no_fault_of_the_program(start: Start, said: str, kind: type[MeasurementError]) -> None:
    run = start(f"raise SystemExit({said!r})")
    printed(run)
    run.ended_badly()
    assert type(run.failure("it failed", "free memory")) is kind


def test_a_program_that_went_on_after_it_lacked_memory_failed_by_itself(start: Start) -> None:
    run = start("print('CUDA out of memory: a smaller batch is tried')")
    printed(run)
    run.ended_badly()
    assert type(run.failure("it printed no rate", "name one")) is UserCodeFailed


FAMILY = r"""
    import os, signal, subprocess, sys, time

    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = "import os, time; os.write(1, b'child %d\\n' % os.getpid()); time.sleep(600)"
    subprocess.Popen([sys.executable, "-c", child])
    subprocess.Popen([sys.executable, "-c", child], start_new_session=True)
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:  # a daemon, whose parent is gone
            subprocess.run([sys.executable, "-c", child])
        os._exit(0)
    os.write(1, b"parent %d\n" % os.getpid())
    time.sleep(600)
"""


def pids(text: str) -> list[int]:
    return [int(line.split()[1]) for line in text.splitlines() if line.startswith(("child ", "parent "))]


def test_nothing_that_it_started_is_left_although_it_ignores_sigterm(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command_run, "GRACE_SECONDS", 0.1)
    run, text = start(FAMILY), ""
    while len(pids(text)) < 4 and (data := run.read(PATIENCE_SECONDS)):
        text += data.decode()
    run.close()
    assert (len(pids(text)), all(map(is_gone, pids(text)))) == (4, True)


def test_what_it_leaves_behind_when_it_ends_is_ended_at_once(start: Start) -> None:
    text = printed(start(f"{FAMILY[: FAMILY.rindex('time.sleep')]}time.sleep(1)"))
    assert pids(text)
    assert all(map(is_gone, pids(text)))


def test_it_may_end_in_order_on_sigterm_and_its_last_line_are_in_the_log(start: Start, tmp_path: Path) -> None:
    run = start("""
        import signal, sys, time
        def end(*_):
            print("x" * 300_000, "saved")  # more than a pipe holds
            sys.exit()
        signal.signal(signal.SIGTERM, end)
        print("ready")
        time.sleep(600)
    """)
    assert (run.read(PATIENCE_SECONDS) or b"").startswith(b"ready")
    run.close()
    assert (tmp_path / "command.log").read_text().endswith("saved\n")


# Prints the pids of its family, which must all end when it is killed.
DRIVER = """
import os, sys
from pathlib import Path
from pytest_tfperf.core.command import Command
from pytest_tfperf.programs.command_run import CommandRun
from pytest_tfperf.workers.launcher import PreparedCommand
folder = Path(sys.argv[2])
run = CommandRun(PreparedCommand(
    command=Command([sys.executable, "-c", sys.argv[1]], name="it", env=os.environ, cwd=folder),
    log=folder / "log", silence_seconds=9, facts={},
))
while data := run.read(60):
    print(data.decode(), end="", flush=True)
"""


def test_nothing_is_left_when_pytest_is_killed(tmp_path: Path) -> None:
    program = dedent(FAMILY).replace("signal.SIG_IGN", "signal.SIG_DFL")
    with running(DRIVER, program, tmp_path) as driver:
        assert driver.stdout is not None
        family = pids("".join(driver.stdout.readline() for _ in range(4)))
        driver.send_signal(signal.SIGKILL)
    assert len(family) == 4
    assert wait_for(lambda: all(map(is_gone, family)))


# A shell starts Pythons as torchrun and schedulers do: below it, in a session of their own, without their parent, and
# without the environment or the output that they got.
ORPHANS = r"""
    child='import os, time; os.write(int(os.environ.get("TO", 1)), b"child %d\n" % os.getpid()); time.sleep(600)'
    "$PYTHON" -c "$child" &
    setsid "$PYTHON" -c "$child" &
    (setsid "$PYTHON" -c "$child" &)
    (env -i setsid "$PYTHON" -c "$child" &)
    (TO=3 setsid "$PYTHON" -c "$child" 3>&1 1>/dev/null 2>&1 &)
    sleep 600
"""


@pytest.mark.parametrize("terminal", [False, True], ids=["pipe", "terminal"])
def test_a_killed_supervisor_is_noticed_and_all_that_its_program_started_is_ended(
    tmp_path: Path, terminal: bool
) -> None:
    prepared = prepared_in(tmp_path, ["sh", "-c", dedent(ORPHANS)], PYTHON=sys.executable)
    text = ""
    with closing(CommandRun(replace(prepared, command=replace(prepared.command, terminal=terminal)))) as run:
        while len(pids(text)) < 5 and (data := run.read(PATIENCE_SECONDS)):
            text += data.decode()
        os.kill(run.pid, signal.SIGKILL)
        while run.read(PATIENCE_SECONDS):  # until the output ends
            pass
        with pytest.raises(MeasurementError) as refused:
            run.ended_badly()
    assert (len(pids(text)), wait_for(lambda: all(map(is_gone, pids(text))))) == (5, True)
    assert str(refused.value).splitlines()[:2] == [
        f"the program's supervisor (pid {run.pid}) was ended by SIGKILL (somebody's kill -9, or the kernel's "
        "out-of-memory killer: see dmesg), so the program and all that it had started were ended",
        "  next        look for what killed it, then run the test again",
    ]
    assert type(refused.value) is MeasurementError


def test_a_supervisor_that_the_kernel_killed_for_memory_is_a_lack_of_memory(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command_run, "kernel_oom_kills", count().__next__)
    run = start("import time; time.sleep(600)")
    os.kill(run.pid, signal.SIGKILL)
    printed(run)
    with pytest.raises(OutOfMemory, match=r"supervisor \(pid \d+\) was ended by the kernel's out-of-memory killer, so"):
        run.ended_badly()


def test_a_program_that_prints_without_end_has_a_log_of_two_mib(start: Start, tmp_path: Path) -> None:
    run = start("""
        print("first")
        for _ in range(1000):
            print(("x" * 79 + "\\n") * 1000, end="")
        print("last")
    """)
    while run.read(PATIENCE_SECONDS):
        pass
    run.close()
    log = (tmp_path / "command.log").read_text()
    assert (log.startswith("first\n"), log.endswith("last\n"), "bytes are left out here" in log) == (True, True, True)
    assert 2 * 2**20 <= len(log) < 2.2 * 2**20


@pytest.mark.parametrize("sizes", [[10], [100], [101], [5] * 60, [1, 250, 1], [99, 2, 99], [1000]])
def test_a_log_keeps_the_first_and_the_last_bytes(tmp_path: Path, sizes: list[int]) -> None:
    text = "".join(chr(ord("a") + n % 26) * size for n, size in enumerate(sizes)).encode()
    log, begin = BoundedLog(tmp_path / "log", most_bytes=100), 0
    for size in sizes:
        log.write(text[begin : begin + size])
        begin += size
    log.close()
    kept = (tmp_path / "log").read_bytes()
    assert (kept[: min(100, len(text))], kept[-min(100, len(text)) :]) == (text[:100], text[-100:])
    assert kept == text or b"bytes are left out here" in kept


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("no-such-program", "there is no such program on PATH"),
        ("./missing.sh", "there is no such file in "),
        ("/no/such/file", "there is no such file in "),
        ("./train.py", "this file is not executable"),
    ],
)
def test_a_program_that_can_not_be_run_is_an_error_with_the_next_step(tmp_path: Path, program: str, said: str) -> None:
    (tmp_path / "train.py").touch()
    with pytest.raises(MeasurementError, match=f"{program} can't be run: {said}"):
        CommandRun(prepared_in(tmp_path, [program]))


def test_a_script_without_an_interpreter_line_says_why_it_did_not_start(tmp_path: Path) -> None:
    script = tmp_path / "train"
    script.write_bytes(b"\x00\x01")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    run = CommandRun(prepared_in(tmp_path, ["./train"]))
    with closing(run):
        assert printed(run) == "./train can't be started: Exec format error\n"


ONE_CPU = Devices(kind=DeviceKind.CPU, count=1)


def test_a_launcher_hides_gpus_gives_a_folder_for_temporary_files_and_removes_it(tmp_path: Path) -> None:
    program = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'], os.environ['TMPDIR'], os.getcwd())"
    command = Command([sys.executable, "-c", program], name="it", cwd=str(tmp_path))
    with closing(LocalLauncher(logs=tmp_path / "logs", silence_seconds=9)) as launcher:
        run = CommandRun(launcher.prepare_command(command, ONE_CPU, 1))
        seen, scratch, folder = printed(run).split()
        run.close()
    assert (seen, Path(folder), Path(scratch).exists()) == ("-1", tmp_path, False)


@pytest.mark.parametrize(
    ("devices", "shown"),
    [
        (Devices(kind=DeviceKind.GPU, count=2, gpu_uuids=("GPU-a", "GPU-b"), gpu_indices=(3, 1)), "3,1 PCI_BUS_ID"),
        (Devices(kind=DeviceKind.GPU, count=1, gpu_uuids=("MIG-a",)), "MIG-a None"),
    ],
    ids=["indices", "MIG"],
)
def test_a_program_gets_its_gpus_by_index_where_that_is_sure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, devices: Devices, shown: str
) -> None:
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)
    with closing(LocalLauncher(logs=tmp_path, silence_seconds=9)) as launcher:
        given = launcher.prepare_command(Command(["it"], name="it"), devices, 1).command.env
    assert f"{given['CUDA_VISIBLE_DEVICES']} {given.get('CUDA_DEVICE_ORDER')}" == shown


def test_several_nodes_need_something_that_starts_programs_there(tmp_path: Path) -> None:
    with (
        closing(LocalLauncher(logs=tmp_path, silence_seconds=9)) as launcher,
        pytest.raises(TfperfError, match="name what starts it on them, as in --tfperf-launcher='mpirun"),
    ):
        launcher.prepare_command(Command(["it"], name="it"), ONE_CPU, 2)


def test_in_another_environment_its_python_takes_the_place_of_ours_and_runs_in_the_other_folder(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    for folder in (old, new):
        folder.mkdir()
    interpreter = Interpreter("/other/python", {old: new})
    assert interpreter.user_command([sys.executable, "train.py"]) == ["/other/python", "train.py"]
    assert interpreter.user_folder(str(old)) == new


def test_only_a_command_that_begins_with_this_python_follows_another() -> None:
    programs = [sys.executable, "python", "torchrun", "./run.sh"]
    commands = [Command([program, "train.py"], name="it") for program in programs]
    assert [command.runs_this_python for command in commands] == [True, False, False, False]


def test_the_environment_of_a_run_tells_commands_apart_without_showing_them() -> None:
    facts = Interpreter(sys.executable).facts
    one, other = (Command([sys.executable, f"--token={token}"], name="it") for token in ("secret1", "secret2"))
    assert facts(one)["command"] != facts(other)["command"]
    assert "secret" not in str(facts(one))
    assert facts(one)["numpy"]
