"""The commands by which engines start ranks, how many nodes they know of, and options that they refuse."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features.cluster.engines.mpirun import hosts_named_by
from pytest_tfperf.features.cluster.plugin import Engine, find_engine, is_empty, split_launcher
from pytest_tfperf.workers.failures import OUT_OF_MEMORY

RANK = ["python", "-m", "a.rank"]
VARIABLES = ["TFPERF_ADDRESS", "PYTHONPATH"]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Puts programs of this name on a PATH that has no others; each writes down how it was called."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    for name in ("SLURM_JOB_ID", "SLURM_JOB_NUM_NODES", "SLURM_NNODES"):
        monkeypatch.delenv(name, raising=False)
    called = tmp_path / "called"

    def install(*names: str, does: str = "") -> Path:
        for name in names:
            program = folder / name
            program.write_text(f'#!/bin/sh\necho "{name} $*" >> {called}\n{does}\n')
            program.chmod(0o755)
        return called

    return install


def engine(launcher: str) -> Engine:
    found = find_engine(launcher)
    assert found is not None
    return found


def has(command: list[str], *words: str) -> bool:
    """Whether these words stand in the command, side by side."""
    return any(command[i : i + len(words)] == list(words) for i in range(len(command)))


def test_local_is_no_engine() -> None:
    assert find_engine("local") is None


# mpirun


@pytest.fixture
def mpirun(install: Callable[..., Path]) -> Callable[[str], Engine]:
    install("mpirun")
    return lambda options: engine(f"mpirun {options}")


def test_mpirun_starts_so_many_ranks_on_each_node_with_the_variables_that_they_need(
    mpirun: Callable[[str], Engine],
) -> None:
    command = mpirun("-H nodea:4,nodeb:4").command(2, 4, RANK, VARIABLES)
    assert has(command, "-H", "nodea:4,nodeb:4")
    assert has(command, "-np", "8")
    assert has(command, "--map-by", "ppr:4:node", "--bind-to", "none")
    assert has(command, "-x", "TFPERF_ADDRESS", "-x", "PYTHONPATH")
    assert command[-3:] == RANK


@pytest.mark.parametrize(("user", "is_allowed"), [(0, True), (1000, False)])
def test_mpirun_is_told_that_root_may_run_it(
    mpirun: Callable[[str], Engine], monkeypatch: pytest.MonkeyPatch, user: int, is_allowed: bool
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: user)
    assert ("--allow-run-as-root" in mpirun("").command(1, 1, RANK, [])) is is_allowed


@pytest.mark.parametrize(
    ("options", "nodes"),
    [
        ("", None),
        ("--mca btl tcp,self", None),
        ("-H nodea", 1),
        ("-H nodea:4,nodeb:4", 2),
        ("--host=nodea,nodeb,nodec", 3),
        ("-H nodea,nodea,nodeb", 2),
        ("-H nodea -H nodeb", 2),
        ("-H 10.0.0.1:2,node-b.cluster_1.example", 2),
        ("-H nodea:*,nodeb:auto", 2),
    ],
)
def test_mpirun_knows_the_nodes_that_its_options_name(
    mpirun: Callable[[str], Engine], options: str, nodes: int | None
) -> None:
    assert mpirun(options).most_nodes == nodes


@pytest.mark.parametrize("option", ["--hostfile {}", "-machinefile {}", "--hostfile={}"])
def test_a_host_file_names_a_node_a_line_with_slots_and_comments(
    mpirun: Callable[[str], Engine], tmp_path: Path, option: str
) -> None:
    (tmp_path / "hosts").write_text(
        "# the cluster\n\nnodea slots=4 max_slots=8\n  nodeb\tslots = 2   # in repair next week\nnodea slots=4\n"
        "root@10.0.0.3 max-slots=2 port=22 // another\n"
    )
    assert mpirun(option.format(tmp_path / "hosts")).most_nodes == 3


@pytest.mark.parametrize("option", ["--hostfile hosts", "-machinefile hosts", "--hostfile=hosts"])
def test_a_host_file_is_found_from_any_folder(
    mpirun: Callable[[str], Engine], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    (tmp_path / "hosts").write_text("nodea\n")
    monkeypatch.chdir(tmp_path)
    command = " ".join(mpirun(option).command(1, 1, RANK, VARIABLES))
    assert option.replace(" hosts", f" {tmp_path}/hosts").replace("=hosts", f"={tmp_path}/hosts") in command


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, r"/hosts can't be read: .*No such file"),
        (b"\xff\xfe", r"/hosts can't be read: it is not UTF-8"),
        (b"", r"host file .*/hosts names no host; write one a line, as in: nodea slots=4"),
        (b"# nodea\n\n", r"names no host"),
        (b"nodea\nslots=4\n", r"/hosts:2: mpirun takes no 'slots=4'\. Write a host, and its slots behind it"),
        (b"nodea\n\n--oversubscribe\n", r"/hosts:3: mpirun takes no '--oversubscribe'"),
        (b"not a host!! slots=abc\n", r"/hosts:1: mpirun takes no 'not a host!! slots=abc'"),
        (b"nodea slots=4\nnodeb slots=abc\n", r"/hosts:2: mpirun takes no 'nodeb slots=abc'"),
        (b"@nodea\n", r"/hosts:1: mpirun takes no '@nodea'"),
        (b"nodea slots=0\n", r"/hosts:1: mpirun takes no 'nodea slots=0'"),
        (b"nodea max_slots=-1\n", r"/hosts:1: mpirun takes no"),
        (b"nodea slots=\n", r"/hosts:1: mpirun takes no"),
        (b"nodea slots 4\n", r"/hosts:1: mpirun takes no"),
        (b"nodea nodeb\n", r"/hosts:1: mpirun takes no"),
        (b"nodea,nodeb\n", r"/hosts:1: mpirun takes no"),
        (b"nodea:4\n", r"/hosts:1: mpirun takes no 'nodea:4'.*nodea slots=4 max_slots=8 in a file"),
    ],
    ids=lambda value: repr(value) if isinstance(value, bytes) else "",
)
def test_a_host_file_that_can_not_be_one_is_refused_with_the_line(
    mpirun: Callable[[str], Engine], tmp_path: Path, text: bytes | None, message: str
) -> None:
    if text is not None:
        (tmp_path / "hosts").write_bytes(text)
    with pytest.raises(TfperfError, match=message):
        mpirun(f"--hostfile {tmp_path / 'hosts'}")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("-H", "mpirun's option -H has no value"),
        ("-H nodea,,nodeb", "mpirun -H nodea,,nodeb: mpirun takes no ''"),
        ("--host=", "has an option without its value: '--host='"),
        ("-H nodea:four", "mpirun takes no 'nodea:four'"),
        ("-H nodea:0", "mpirun takes no 'nodea:0'"),
        ("-H nodea:,nodeb", "mpirun takes no 'nodea:'"),
    ],
)
def test_hosts_that_can_not_be_such_are_refused(mpirun: Callable[[str], Engine], options: str, message: str) -> None:
    with pytest.raises((TfperfError, ValueError), match=message):
        mpirun(options)


# Slurm


@pytest.fixture
def slurm(install: Callable[..., Path]) -> Callable[..., Engine]:
    install("srun")
    return lambda options="": engine(f"slurm {options}")


def in_allocation(monkeypatch: pytest.MonkeyPatch, nodes: str = "2") -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", nodes)


def test_srun_starts_so_many_ranks_on_each_of_so_many_nodes(slurm: Callable[..., Engine]) -> None:
    command = slurm("--partition=gpu --time=30").command(2, 4, RANK, VARIABLES)
    assert command[0] == "srun"
    assert has(command, "-N", "2", "--ntasks=8", "--ntasks-per-node=4")
    assert "--kill-on-bad-exit=1" in command
    assert command[-5:] == ["--partition=gpu", "--time=30", *RANK]


def test_outside_an_allocation_srun_starts_a_job_with_a_name_of_its_own(slurm: Callable[..., Engine]) -> None:
    def names(engine: Engine) -> list[str]:
        return [word for word in engine.command(2, 1, RANK, []) if word.startswith("--job-name=")]

    one, other = slurm(), slurm()
    assert one.most_nodes is None
    assert len(names(one)) == 1
    assert names(one) != names(other)
    assert "--overlap" not in one.command(2, 1, RANK, [])


def test_inside_an_allocation_srun_starts_a_step_that_shares_its_cores_with_pytest(
    slurm: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    in_allocation(monkeypatch)
    command = slurm().command(2, 1, RANK, [])
    assert "--overlap" in command
    assert not any(word.startswith("--job-name") for word in command)


def test_a_step_does_not_take_over_the_shape_of_the_step_in_which_pytest_runs(
    slurm: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    in_allocation(monkeypatch)
    monkeypatch.setenv("SLURM_GPUS_PER_TASK", "1")
    command = slurm("--cpu-bind=cores").command(2, 1, RANK, [])
    assert command[:4] == ["env", "-u", "SLURM_GPUS_PER_TASK", "srun"]
    assert command.index("--cpu-bind=none") < command.index("--cpu-bind=cores")  # the user's option wins


@pytest.mark.parametrize(("variable", "nodes"), [("SLURM_JOB_NUM_NODES", 4), ("SLURM_NNODES", 3)])
def test_an_allocation_says_how_many_nodes_there_are(
    slurm: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch, variable: str, nodes: int
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv(variable, str(nodes))
    assert slurm().most_nodes == nodes


# Of Slurm 24.11: a rank was killed, and srun ended the others.
KILLED = """\
srun: error: n2: task 5: Killed
srun: launch/slurm: _step_signal: Terminating StepId=6.0
slurmstepd-n1: error: *** STEP 6.0 ON n1 CANCELLED AT 2026-11-27T04:44:13 ***
srun: error: n2: task 4: Terminated
srun: error: n1: tasks 0-1,3: Terminated
srun: Force Terminated StepId=6.0
"""


@pytest.mark.parametrize(
    ("output", "ended"),
    [
        (KILLED, {5: -9, 4: -15, 0: -15, 1: -15, 3: -15}),
        ("srun: error: n2: task 1: Out Of Memory\n", {1: OUT_OF_MEMORY}),
        ("srun: error: n2: task 1: Segmentation fault (core dumped)\n", {1: -11}),
        ("srun: error: n2: task 1: Exited with exit code 3\n", {1: 3}),
        ("srun: error: Unable to allocate resources: Invalid partition\n", {}),
    ],
)
def test_srun_names_the_rank_that_ended_first(output: str, ended: dict[int, int], slurm: Callable[..., Engine]) -> None:
    assert list(slurm().ended_ranks(output).items()) == list(ended.items())


def test_a_job_of_its_own_is_killed_and_awaited_by_its_name(install: Callable[..., Path]) -> None:
    called = install("srun", "scancel", "squeue")
    started = engine("slurm")
    (name,) = (word for word in started.command(2, 1, RANK, []) if word.startswith("--job-name="))
    started.cancel()
    own = name.replace("--job-name", "--name")
    assert called.read_text().splitlines() == [
        f"scancel --signal=KILL {own}",
        f"scancel {own}",
        f"squeue --noheader {own}",
    ]


def test_the_users_own_allocation_is_left_alone(install: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    called = install("srun", "scancel", "squeue")
    in_allocation(monkeypatch)
    engine("slurm").cancel()
    assert not called.exists()


def test_a_slurm_whose_commands_are_gone_makes_no_error_of_ending_a_job(slurm: Callable[..., Engine]) -> None:
    slurm().cancel()


# Ray, and ranks that something else starts


@pytest.fixture
def ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Engine]:
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    return lambda options="": engine(f"ray {options}")


def test_ray_is_driven_by_a_process_of_its_own(ray: Callable[..., Engine]) -> None:
    command = ray("--address=10.0.0.1:6379").command(2, 4, RANK, VARIABLES, 8)
    assert command[0] == sys.executable
    wanted = {"--address=10.0.0.1:6379", "--nodes=2", "--ranks-per-node=4", "--gpus=8", "--variable=PYTHONPATH"}
    assert wanted <= set(command)
    assert command[command.index("--") + 1 :] == RANK


def test_ranks_that_something_else_starts_have_no_command() -> None:
    external = engine("external --nodes=3")
    assert (external.most_nodes, external.command(3, 1, RANK, VARIABLES)) == (3, [])
    external.cancel()


# Launchers that can't be used


@pytest.mark.parametrize(
    ("launcher", "message"),
    [
        ("mpirun -H nodea", r"there is no mpirun on PATH\. Install Open MPI"),
        ("slurm", r"there is no srun on PATH\. Run pytest where Slurm's commands are"),
    ],
)
@pytest.mark.usefixtures("install")
def test_an_engine_whose_program_is_missing_says_where_it_comes_from(launcher: str, message: str) -> None:
    with pytest.raises(TfperfError, match=f"^--tfperf-launcher={launcher}: {message}"):
        find_engine(launcher)


def test_ray_that_is_not_installed_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)  # Python's way to say that a module can't be imported
    with pytest.raises(TfperfError, match=r"^--tfperf-launcher=ray: Ray is not installed: pip install ray"):
        find_engine("ray")


@pytest.mark.usefixtures("ray")
@pytest.mark.parametrize(
    ("launcher", "message"),
    [
        ("external", "external takes --nodes=N, found 'nothing'"),
        ("external --nodes=0", "external takes --nodes=N, found '--nodes=0'"),
        ("external --nodes=two", "external takes --nodes=N"),
        ("external --nodes=\N{SUPERSCRIPT TWO}", "external takes --nodes=N"),
        ("external --nodes=2 --port=80", "external takes --nodes=N, found '--nodes=2 --port=80'"),
        ("ray --nodes=2", "ray takes --address=ADDRESS, found '--nodes=2'"),
    ],
)
def test_an_engine_says_which_options_it_takes(launcher: str, message: str) -> None:
    with pytest.raises(TfperfError, match=f"^--tfperf-launcher={launcher}: {message}"):
        find_engine(launcher)


@pytest.mark.parametrize(
    ("launcher", "message"),
    [
        ("slrum", r"^is not a launcher\. Did you mean 'slurm'\? Known: external, local, mpirun, ray, slurm\.$"),
        ("", "is not a launcher"),
        ("local -H nodea", "has options, and local takes none"),
        ("mpirun -H 'nodea", "can't be split into words"),
    ],
)
def test_text_that_names_no_launcher_is_refused_before_anything_is_looked_for(launcher: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        split_launcher(launcher)


OPTIONS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=9)


@given(st.lists(OPTIONS.filter(lambda option: not is_empty(option)), max_size=4))
def test_options_reach_an_engine_as_a_shell_would_split_them(options: list[str]) -> None:
    assert split_launcher(shlex.join(["mpirun", *options])) == ("mpirun", options)


HOST_WORDS = st.sampled_from(
    [
        "nodea",
        "nodeb",
        "root@nodea",
        "10.0.0.3",
        "slots=4",
        "slots = 2",
        "max_slots=8",
        "max-slots=0",
        "port=22",
        "=",
        "#",
        "//",
    ]
) | st.text(max_size=8)


@given(st.lists(st.lists(HOST_WORDS, max_size=4).map(" ".join), max_size=5))
def test_whatever_a_host_file_holds_each_line_gives_at_most_one_host_or_the_file_is_refused(lines: list[str]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "hosts"
        path.write_text("\n".join(lines), encoding="utf-8")
        found, refusal = ["?"], ""
        try:
            found = hosts_named_by(["--hostfile", str(path)])
        except TfperfError as error:
            refusal = str(error)
        text = path.read_text(encoding="utf-8")
        assert str(path) in refusal or 0 < len(found) <= len(text.splitlines())
        assert refusal or all(host in text for host in found)
