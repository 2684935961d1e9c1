"""`tfperf read`, on real programs and on played output."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_tfperf import cli
from pytest_tfperf.console import output
from pytest_tfperf.core.exit_status import EXIT_GREEN, EXIT_NOT_MEASURED, EXIT_USAGE
from pytest_tfperf.core.run import Run, Window
from pytest_tfperf.core.speed_variables import NAME
from pytest_tfperf.features.read.command import _name_of
from pytest_tfperf.features.read.printed import Printed
from tests.helpers.expected import SameTexts


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of this machine would be written into the tests."""
    for name in filter(NAME.match, list(os.environ)):
        monkeypatch.delenv(name)


TRAINS = "import sys, time\nfor _ in range(10**6): time.sleep(0.005); sys.audit('tfperf.step', 32)"


def read(capsys: pytest.CaptureFixture[str], program: str, *options: str) -> tuple[int, str]:
    status = cli.main(["read", "--seconds=20", *options, "--", sys.executable, "-c", program])
    captured = capsys.readouterr()
    return status, captured.out + captured.err


def test_the_steps_of_a_program_are_timed_and_the_whole_test_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    status, text = read(capsys, TRAINS)
    assert (status, "steps     by the audit event; a step holds 32 examples" in text) == (EXIT_GREEN, True), text
    test = text[text.index("import sys") :]
    compile(test, "test", "exec")
    assert 'unit="examples/s",' in test


def test_the_test_is_saved_and_an_existing_file_is_kept(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "perf_tests" / "test_train.py"
    status, text = read(capsys, TRAINS, f"--write={file}")
    assert (status, f"wrote {file}" in text) == (EXIT_GREEN, True), text
    saved = file.read_text()
    assert "throughput.check(program, on=gpu_topology.take(1))" in saved
    status, text = read(capsys, "print('never runs')", f"--write={file}")
    assert (status, "exists, and is not overwritten. Name another file" in text) == (EXIT_USAGE, True), text
    assert file.read_text() == saved


def test_a_program_that_failed_is_named_without_advice_on_what_it_prints(capsys: pytest.CaptureFixture[str]) -> None:
    status, text = read(capsys, "for n in range(9): print('step', n, 'fps', n + 90)\nraise SystemExit(3)")
    assert status == EXIT_NOT_MEASURED
    assert "the program exited with status 3 before a step could be seen" in text
    assert "  | step 8 fps 98" in text
    assert "pattern" not in text


def test_a_program_that_failed_while_it_trained_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    text = read(capsys, TRAINS.replace("10**6", "50") + "\nraise SystemExit(3)")[1]
    assert re.search("the program exited with status 3 after [0-9]+ steps", text), text


def test_it_says_what_it_waits_for(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "SILENT_SECONDS", 0.1)
    text = read(capsys, "import time; time.sleep(3)")[1]
    assert "it waits for the first step: no framework was imported" in text, text


def test_a_python_without_a_probe_is_read_and_told_how_it_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["read", "--", sys.executable, "-I", "-c", "print('hello')"])
    assert "-I runs without the probe that tells a program's steps. Start it without -I" in capsys.readouterr().out


def played(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], printed: Printed, *options: str) -> str:
    monkeypatch.setattr(Printed, "by", lambda *_: printed)
    status = cli.main(["read", *options, "--", "python", "train.py", "--epochs=1"])
    return f"{capsys.readouterr().out}exit status {status}"


def lines(form: str) -> list[tuple[float, bytes]]:
    """A line each 0.5 s, with the number of its step and another one."""
    return [(0.5 * n, f"{form.format(n * 50, n % 3)}\n".encode()) for n in range(1, 31)]


def trained(unit: str = "examples", seconds: float = 0.1) -> Run:
    """Ten steps in so many seconds."""
    windows = tuple(Window(10, seconds + n % 3 / 1000 - 0.001) for n in range(30))
    return Run(windows=windows, examples_per_step=1 if unit == "steps" else 32, unit=unit, fetches=True)


def bars(*totals: int) -> list[tuple[float, bytes]]:
    """Bars of tqdm one after the other, each with 100 steps a second, and with a line each 0.1 s."""
    steps = [(step, total) for total in totals for step in range(10, total + 1, 10)]
    form = "{:3}%|#####     | {}/{} [00:01<00:02, 99.97it/s, loss=0.5]\n"
    return [
        (0.1 * n, form.format(100 * step // total, step, total).encode()) for n, (step, total) in enumerate(steps, 1)
    ]


def test_what_is_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, same_texts: SameTexts
) -> None:
    by_steps: Any = {
        "run": trained(),
        "how": "PyTorch's optimizer; a step holds a batch of the DataLoader, 32 examples",
    }
    slower = by_steps | {"run": trained(seconds=0.13)}
    alone: Any = {
        "run": trained("steps"),
        "how": "PyTorch's optimizer; steps are counted, because no DataLoader gave batches",
    }
    none: Any = {"how": "the program took no step that can be seen in 20 s"}
    cases: dict[str, tuple[Printed, tuple[str, ...]]] = {
        "steps, and nothing is printed": (Printed([], **by_steps), ()),
        "steps, and a printed rate agrees": (Printed(lines("step {} rate: 320{}.5 samples/s"), **by_steps), ()),
        "steps, and a printed rate differs": (Printed(lines("update {} throughput: 640{}.5"), **by_steps), ()),
        "steps, and a counter of examples": (
            Printed(
                [
                    (0.1 * n, f"Train Epoch: 1 [{320 * n}/60000 ({320 * n / 600:.0f}%)]\n".encode())
                    for n in range(1, 90)
                ],
                **by_steps,
            ),
            (),
        ),
        "steps, and few lines of a machine that was busy": (Printed(lines("update {} of many")[:9], **slower), ()),
        "steps, and lines of parts of a step": (
            Printed([(n / 2, f"step {200 * n}\n".encode()) for n in range(1, 30)], **by_steps),
            (),
        ),
        "steps, and a bar in each epoch": (Printed(bars(200, 200, 200), **by_steps), ()),
        "steps, and bars of training and evaluation": (Printed(bars(200, 50, 200, 50), **by_steps), ()),
        "steps, of which one did something else": (
            Printed([], note="up to step 60 one took about 50.2 s more than the usual 0.01 s", **by_steps),
            (),
        ),
        "steps alone, beside a rate in examples": (Printed(lines("step {} fps: 320{}.5"), **alone), ()),
        "steps, and a stated rate": (Printed(lines("{} at 320{}.5"), **by_steps), (r"--pattern=at (?P<rate>.+)",)),
        "no steps": (Printed(lines("step {} fps: 320{}.5"), **none), ("--devices=2",)),
        "no steps, and a stated counter": (
            Printed(lines("step {} fps: 320{}.5"), **none),
            (r"--pattern=step (?P<step>\d+)", "--examples-per-step=32", "--unit=images/s", "--devices=2"),
        ),
        "nothing to read, and it still ran": (Printed([(1.0, b"compiling\n")], is_whole=False, **none), ()),
    }
    shown = {name: played(monkeypatch, capsys, printed, *options) for name, (printed, options) in cases.items()}
    same_texts("read", shown)


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (("python", "train.py"), "train"),
        (("python", "mnist/main.py", "--epochs=1"), "mnist"),
        (("python", "-m", "torch.distributed.run", "gpt/main.py"), "gpt"),
        (("python", "-m", "lab.vae.main"), "vae"),
        (("python", "-m", "lab.vae"), "vae"),
        (("accelerate", "launch", "01_train.py"), "01_train"),
        (("python", "my models/main.py"), "my-program"),
    ],
)
def test_a_program_is_named_after_its_script_or_the_folder_of_main(command: tuple[str, ...], name: str) -> None:
    assert _name_of(command) == name


def test_known_variables_are_written_into_the_test_but_for_secrets_and_paths(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = {"KERAS_BACKEND": "jax", "OMP_NUM_THREADS": "2", "TORCH_API_KEY": "hush", "LD_PRELOAD": "/lib/fast.so"}
    for variable, value in (told | {"EDITOR": "vi", "TF_NUM_INTEROP_THREADS": ""}).items():
        monkeypatch.setenv(variable, value)
    text = played(monkeypatch, capsys, Printed([], run=trained(), how="Keras"))
    assert re.findall("env=.*", text) == ['env={"KERAS_BACKEND": "jax", "OMP_NUM_THREADS": "2"},']


def test_the_test_for_stated_output_is_python(capsys: pytest.CaptureFixture[str]) -> None:
    """It says what the options said."""
    _, text = read(capsys, "print('speed 12')", r"--pattern=speed (?P<rate>\d+)")
    test = text[text.index("import sys") :]
    compile(test, "test", "exec")
    assert r'reads=Reads(pattern="speed (?P<rate>\\d+)")' in test


@pytest.mark.parametrize(
    ("program", "options", "said"),
    [
        ("print('hello')", (), 'sys.audit("tfperf.step", EXAMPLES)'),
        ("print('hello')", (), "no line seems to have a rate or a counter"),
        ("print('hello')", ("--field=x",), "no line is a JSON object"),
        ("", (), "let it print its rate"),
        ("print('12.5')", (r"--pattern=(?P<rate>\d+)",), "refused: the group rate has '12'"),
    ],
)
def test_a_program_that_can_not_be_measured_says_why(
    capsys: pytest.CaptureFixture[str], program: str, options: tuple[str, ...], said: str
) -> None:
    status, text = read(capsys, program, *options)
    assert (status, said in text) == (EXIT_NOT_MEASURED, True), text


@pytest.mark.parametrize(
    ("option", "said"),
    [("--pattern=(", "is no regular expression"), ("--format=tqdm", "examples_per_step=N, or count unit='steps/s'")],
)
def test_options_that_read_nothing_are_an_error(capsys: pytest.CaptureFixture[str], option: str, said: str) -> None:
    status, text = read(capsys, "", option)
    assert (status, said in text) == (EXIT_USAGE, True), text


def test_a_program_that_prints_for_ever_is_ended(capsys: pytest.CaptureFixture[str]) -> None:
    """A shell's: Python can take seconds to start on a busy machine."""
    loop = "n=0; while :; do echo 9.$((n = n + 1)) examples/s; sleep 0.1; done"
    status = cli.main(["read", "--seconds=2", "--pattern=(?P<rate>[0-9.]+) examples", "--", "sh", "-c", loop])
    assert (status, "lines are read" in capsys.readouterr().out) == (EXIT_GREEN, True)
