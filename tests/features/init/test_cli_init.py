"""`tfperf init`: what it writes, what it never overwrites, and what it asks the user to add."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_tfperf import cli
from pytest_tfperf.features.init import command as init
from pytest_tfperf.features.init.command import Framework, default_branch, framework_of, next_steps
from tests.helpers.machines import load
from tests.helpers.repositories import git

GREEN, USAGE = 0, 4


def files(root: Path) -> dict[str, str]:
    return {str(path.relative_to(root)): path.read_text() for path in sorted(root.rglob("*")) if path.is_file()}


def remote(root: Path, url: str) -> None:
    (root / ".git").mkdir()
    (root / ".git" / "config").write_text(f'[remote "origin"]\n\turl = {url}\n')


# The files


def test_an_empty_folder_gets_a_test_a_folder_of_baselines_and_an_ini_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["init", str(tmp_path)]) == GREEN
    assert list(files(tmp_path)) == [
        "baselines/README.md",
        "perf_tests/speed_models.py",
        "perf_tests/test_speed.py",
        "pytest.ini",
    ]
    said = capsys.readouterr().out
    assert "wrote   perf_tests/test_speed.py\n" in said
    assert "pytest perf_tests --update-baselines" in said


@pytest.mark.parametrize(
    ("url", "written"),
    [
        (
            "git@github.com:a/b.git",
            [".github/workflows/perf.yml"],
        ),
        ("https://gitlab.example.com/a/b.git", [".gitlab-ci.yml"]),
        ("/srv/git/b.git", []),
    ],
    ids=["github", "gitlab", "other"],
)
def test_the_git_remote_decides_on_the_ci_file(url: str, written: list[str], tmp_path: Path) -> None:
    remote(tmp_path, url)
    cli.main(["init", str(tmp_path)])
    assert [name for name in files(tmp_path) if name.endswith(".yml")] == written


def test_without_a_known_remote_it_says_how_to_get_a_ci_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli.main(["init", str(tmp_path)])
    assert (
        "no CI file, because no git remote names GitHub or GitLab: tfperf init --ci=github" in capsys.readouterr().out
    )


@pytest.mark.parametrize(("machine", "marker"), [("no-gpu", "cpu"), ("dgx1-p100", "gpu")])
def test_the_first_test_has_the_one_marker_that_suits_the_machine(
    machine: str, marker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_tfperf.hardware.discovery.discover", lambda: load(machine))
    cli.main(["init", str(tmp_path)])
    text = (tmp_path / "perf_tests" / "test_speed.py").read_text()
    assert [line for line in text.splitlines() if "mark." in line] == [f"@pytest.mark.{marker}"]


@pytest.mark.parametrize(("machine", "runner"), [("no-gpu", "ubuntu-latest"), ("dgx1-p100", "[self-hosted]")])
def test_a_pull_request_of_a_project_with_gpus_does_not_go_where_there_are_none(
    machine: str, runner: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_tfperf.hardware.discovery.discover", lambda: load(machine))
    cli.main(["init", str(tmp_path), "--ci=github"])
    job = (tmp_path / ".github/workflows/perf.yml").read_text().partition("  against-base:\n")[2]
    assert f"runs-on: {runner} " in job


def test_one_tolerance_is_written(tmp_path: Path) -> None:
    cli.main(["init", str(tmp_path)])
    assert [name for name, text in files(tmp_path).items() if "tolerance" in text] == ["pytest.ini"]


def test_an_option_decides_against_the_remote(tmp_path: Path) -> None:
    remote(tmp_path, "git@github.com:a/b.git")
    cli.main(["init", str(tmp_path), "--ci=none"])
    assert not (tmp_path / ".github").exists()


def test_beside_a_ci_file_of_gitlab_ours_is_one_to_include(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / ".gitlab-ci.yml").write_text("test: {script: make}\n")
    cli.main(["init", str(tmp_path), "--ci=gitlab"])
    assert (tmp_path / ".gitlab-ci.yml").read_text() == "test: {script: make}\n"
    assert (tmp_path / ".gitlab" / "throughput.yml").exists()
    assert "add to .gitlab-ci.yml:  include: [{local: .gitlab/throughput.yml}]" in capsys.readouterr().out


@pytest.mark.parametrize("ci", ["github", "gitlab"])
def test_both_ci_files_gate_with_the_same_command(ci: str, tmp_path: Path) -> None:
    cli.main(["init", str(tmp_path), f"--ci={ci}", "--tests=speed"])
    text = "\n".join(text for name, text in files(tmp_path).items() if name.endswith(".yml"))
    options = '--tfperf-require-baseline --continue-on-collection-errors --tfperf-dir="$HOME/.cache/tfperf"'
    assert f"pytest speed {options} --junitxml=throughput.xml" in " ".join(text.split())
    assert 'tfperf reference create --dir="$HOME/.cache/tfperf"' in text
    assert not re.search(r"<\w+>", text)
    assert "TFPERF_HTML: throughput.html" in text


def test_what_exists_is_never_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    remote(tmp_path, "git@github.com:a/b.git")
    cli.main(["init", str(tmp_path)])
    for path in tmp_path.rglob("*.*"):
        if path.is_file() and path.name not in ("pytest.ini", ".gitignore"):
            path.write_text("mine")
    before = files(tmp_path)
    capsys.readouterr()
    assert cli.main(["init", str(tmp_path)]) == GREEN
    assert files(tmp_path) == before
    said = capsys.readouterr().out
    assert "wrote" not in said
    assert "edited" not in said


@pytest.mark.parametrize(
    ("ci", "there", "name"),
    [
        ("github", [".github/workflows/perf.yml"], ".github/workflows/perf.yml"),
        ("gitlab", [".gitlab-ci.yml", ".gitlab/throughput.yml"], ".gitlab/throughput.yml"),
    ],
)
def test_a_ci_file_that_was_asked_for_and_exists_stops_before_anything_is_written(
    ci: str, there: list[str], name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in there:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("mine")
    assert cli.main(["init", str(tmp_path), f"--ci={ci}"]) == USAGE
    assert files(tmp_path) == dict.fromkeys(there, "mine")
    assert f"{name} exists, and nothing is overwritten. Move it away for a new one" in capsys.readouterr().err


OURS = ".tfperf/\ntfperf-report.html\n/report.html\n.benchmarks/\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, OURS),
        ("*.pyc", f"*.pyc\n{OURS}"),
        (f"{OURS}*.pyc\n", f"{OURS}*.pyc\n"),
        (".tfperf/\n", OURS),
    ],
    ids=["none", "no line end", "there", "of an earlier version"],
)
def test_git_ignores_the_history_and_the_pages(before: str | None, after: str, tmp_path: Path) -> None:
    remote(tmp_path, "/srv/git/b.git")
    if before is not None:
        (tmp_path / ".gitignore").write_text(before)
    cli.main(["init", str(tmp_path)])
    assert (tmp_path / ".gitignore").read_text() == after


def test_git_may_ignore_names_that_are_not_utf_8(tmp_path: Path) -> None:
    remote(tmp_path, "/srv/git/b.git")
    (tmp_path / ".gitignore").write_bytes(b"caf\xe9\n")
    assert cli.main(["init", str(tmp_path)]) == GREEN
    assert (tmp_path / ".gitignore").read_bytes() == b"caf\xe9\n" + OURS.encode()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["no/such"], "no/such: there is no such folder"),
        ([".", "--tests=../up"], "--tests=../up: give the name of a folder"),
        ([".", "--ci=jenkins"], "argument --ci: unknown value 'jenkins'"),
    ],
    ids=["folder", "tests", "ci"],
)
def test_what_can_not_be_is_refused(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["init", *arguments]) == USAGE
    assert said in capsys.readouterr().err


def test_a_damaged_configuration_stops_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options\n")
    assert cli.main(["init", str(tmp_path)]) == USAGE
    assert "pyproject.toml can't be parsed" in capsys.readouterr().err
    assert list(files(tmp_path)) == ["pyproject.toml"]


# What is installed, and the branch that others start from


@pytest.mark.parametrize(
    ("installed", "framework"),
    [
        (("tensorflow", "keras", "torch"), Framework.KERAS),
        (("keras", "torch"), Framework.PYTORCH),
        (("tensorflow", "jax"), Framework.JAX),
        (("keras",), Framework.NONE),
        ((), Framework.NONE),
    ],
)
def test_the_first_test_is_of_what_is_installed(installed: tuple[str, ...], framework: Framework) -> None:
    assert framework_of(lambda name: name in installed) is framework


@pytest.mark.parametrize("framework", [Framework.PYTORCH, Framework.JAX, Framework.NONE])
@pytest.mark.parametrize("ci", ["github", "gitlab"])
def test_nothing_of_another_framework_is_written_or_said(
    framework: Framework, ci: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(init, "framework_of", lambda _: framework)
    cli.main(["init", str(tmp_path), f"--ci={ci}"])
    written = "\n".join(files(tmp_path).values()) + capsys.readouterr().out
    assert str(framework) in written
    assert not re.search("keras|tensorflow", written, re.IGNORECASE)


@pytest.mark.parametrize("framework", list(Framework))
def test_what_it_writes_is_formatted_python(
    framework: Framework, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(init, "framework_of", lambda _: framework)
    cli.main(["init", str(tmp_path)])
    ruff = [sys.executable, "-m", "ruff", "format", "--isolated", "--line-length=120", "--diff", str(tmp_path)]
    done = subprocess.run(ruff, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("framework", "named", "read"),
    [
        (Framework.KERAS, "pytest-tfperf and tensorflow", "train.py"),
        (Framework.PYTORCH, "pytest-tfperf and torch", "perf_tests/train.py"),
        (Framework.JAX, "pytest-tfperf and jax", "perf_tests/train.py"),
        (Framework.NONE, "pytest-tfperf", "perf_tests/train.py"),
    ],
)
def test_the_next_steps_name_packages_as_pip_knows_them_and_the_program_that_was_written(
    framework: Framework, named: str, read: str
) -> None:
    steps = [step.partition("  ")[0] for step in next_steps("perf_tests", "github", framework, "main")]
    assert f"name {named} in requirements.txt" in steps
    assert f"tfperf read -- python {read}" in steps


def test_a_program_without_a_framework_is_no_test_of_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_tfperf.hardware.discovery.discover", lambda: load("dgx1-p100"))
    monkeypatch.setattr(init, "framework_of", lambda _: Framework.NONE)
    cli.main(["init", str(tmp_path)])
    assert "@pytest.mark.cpu" in (tmp_path / "perf_tests" / "test_speed.py").read_text()


def repository(folder: Path, branch: str, *, commits: bool = True) -> Path:
    git(folder.parent, "init", "--quiet", f"--initial-branch={branch}", str(folder))
    if commits:
        who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")
        git(folder, *who, "commit", "--quiet", "--allow-empty", "--message", "first")
    return folder


def test_the_next_step_names_the_default_branch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    origin = repository(tmp_path / "origin", "stable")
    git(tmp_path, "clone", "--quiet", str(origin), "clone")
    git(tmp_path / "clone", "switch", "--quiet", "--create", "mine")
    cli.main(["init", str(tmp_path / "clone")])
    assert "--tfperf-base=stable " in capsys.readouterr().out
    git(tmp_path / "clone", "branch", "--quiet", "--delete", "--force", "stable")
    assert default_branch(tmp_path / "clone") == "origin/stable"


@pytest.mark.parametrize("commits", [True, False])
def test_a_repository_without_a_remote_has_a_default_branch(commits: bool, tmp_path: Path) -> None:
    folder = repository(tmp_path / "a", "master", commits=commits)
    assert default_branch(folder) == "master"
    if commits:
        git(folder, "switch", "--quiet", "--create", "mine")
        assert default_branch(folder) == "master"


def test_without_a_repository_it_is_what_git_is_configured_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    assert default_branch(tmp_path) == "main"
    (tmp_path / "gitconfig").write_text("[init]\n\tdefaultBranch = master\n")
    assert default_branch(tmp_path) == "master"


# The configuration


@pytest.mark.parametrize(
    ("name", "before", "header", "quote"),
    [
        ("pyproject.toml", "[tool.pytest.ini_options] # mine\n", "[tool.pytest.ini_options] # mine", '"'),
        ("pyproject.toml", "[tool.pytest]\nstrict = true\n", "[tool.pytest]", '"'),
        ("pyproject.toml", 'tool.pytest.ini_options = {addopts = "-ra"}\n', "[tool.pytest.ini_options]", '"'),
        ("pytest.toml", "[pytest]\nstrict = true\n", "[pytest]", '"'),
        ("tox.ini", "[tox]\n[pytest]\naddopts = -ra\n", "[pytest]", ""),
        ("setup.cfg", "[tool:pytest]\r\naddopts = -ra\r\n", "[tool:pytest]", ""),
        ("pytest.ini", "", "[pytest]", ""),
    ],
    ids=["header with a comment", "native", "inline", "pytest.toml", "tox", "setup.cfg", "empty"],
)
def test_a_file_of_the_users_stays_and_what_to_add_is_said(
    name: str, before: str, header: str, quote: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_bytes(before.encode())
    assert cli.main(["init", str(tmp_path)]) == GREEN
    assert (tmp_path / name).read_bytes() == before.encode()
    said = [line.strip() for line in capsys.readouterr().out.splitlines()]
    at = said.index(f"add to {name}:")
    assert said[at + 1 : at + 4] == [
        header,
        f"tfperf_baselines = {quote}baselines{quote}",
        f"tfperf_tolerance = {quote}0.02{quote}",
    ]


def test_a_setting_that_is_there_is_not_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\ntfperf_tolerance = 0.1\n")
    cli.main(["init", str(tmp_path)])
    said = capsys.readouterr().out
    assert ("tfperf_baselines = baselines" in said, "tfperf_tolerance" in said) == (True, False)


def test_a_project_without_settings_for_pytest_gets_a_pytest_ini(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    cli.main(["init", str(tmp_path)])
    assert (tmp_path / "pytest.ini").read_text() == "[pytest]\ntfperf_baselines = baselines\ntfperf_tolerance = 0.02\n"


def test_the_settings_of_a_folder_above_are_another_projects(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "mine").mkdir()
    cli.main(["init", str(tmp_path / "mine")])
    assert "tfperf_tolerance" in (tmp_path / "mine" / "pytest.ini").read_text()
