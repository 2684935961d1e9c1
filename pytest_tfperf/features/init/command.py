"""`tfperf init`: what it writes, and which steps come next."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator
from enum import StrEnum
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from pytest_tfperf.console.arguments import Commands, Group, add_command
from pytest_tfperf.console.output import show
from pytest_tfperf.console.session_settings import IniFile, ini_file
from pytest_tfperf.core.exit_status import EXIT_GREEN
from pytest_tfperf.core.settings import DEFAULT_TOLERANCE
from pytest_tfperf.errors import TfperfError, page
from pytest_tfperf.hardware.host import text_of
from pytest_tfperf.reports.table import aligned
from pytest_tfperf.revisions.git import run_git

_SETTINGS: Final = {"tfperf_baselines": "baselines", "tfperf_tolerance": f"{DEFAULT_TOLERANCE}"}
_GITHUB: Final = Path(".github/workflows/perf.yml")
_GITLAB: Final = Path(".gitlab-ci.yml")
_GITLAB_BESIDE: Final = Path(".gitlab/throughput.yml")


def add_to(commands: Commands) -> None:
    """Add the command."""
    init = add_command(
        commands,
        _run,
        "init: write a first test, a folder of baselines and settings. --ci adds a file for CI. It overwrites nothing",
        group=Group.START,
        examples=("tfperf init", "tfperf init --ci=github", "tfperf init ~/my-project --tests=speed_tests"),
    )
    init.add_argument("folder", nargs="?", type=Path, default=Path(), metavar="DIR", help="repository (default: here)")
    init.add_argument("--tests", default="perf_tests", metavar="NAME", help="folder of the tests (default: perf_tests)")
    init.add_argument(
        "--ci",
        choices=["github", "gitlab", "none"],
        help="write a CI file for it (default: for the one that the git remote names, else none)",
    )


def _run(arguments: argparse.Namespace) -> int:
    root: Path = arguments.folder
    if not root.is_dir():
        raise TfperfError(f"{root}: there is no such folder", next_step="Make it, or name another one")
    if not re.fullmatch(r"\w[\w.-]*", arguments.tests, re.ASCII):
        raise TfperfError(f"--tests={arguments.tests}: give the name of a folder, as in perf_tests")
    remote = text_of(root / ".git" / "config")
    ci = arguments.ci or ("github" if "github.com" in remote else "gitlab" if "gitlab" in remote else "none")
    ci_file = _ci_file(root, ci, is_asked_for=arguments.ci is not None)
    # A file that can't be read stops the command before anything is written.
    configuration = ini_file(root.absolute())
    # Names in .gitignore may be in any encoding.
    ignored = (root / ".gitignore").read_text("utf-8", "surrogateescape") if (root / ".gitignore").exists() else ""
    framework = framework_of(find_spec)
    lines = [
        *_new_files(root, arguments.tests, ci_file, framework),
        *_settings(root, configuration),
        _edited_git_ignores(root, ignored),
    ]
    if ci == "none" and arguments.ci is None:
        lines.append("no CI file, because no git remote names GitHub or GitLab: tfperf init --ci=github writes one")
    steps = next_steps(arguments.tests, ci, framework, default_branch(root))
    show(*filter(None, lines), "", "Next:", *(f"  {step}" for step in steps))
    return EXIT_GREEN


class Framework(StrEnum):
    """The framework of the first test, as its package is called."""

    KERAS = "TensorFlow"
    PYTORCH = "PyTorch"
    JAX = "JAX"
    NONE = "NumPy"
    """None is installed; NumPy always is."""

    @property
    def requirements(self) -> str:
        """What requirements.txt has to name: PyPI's package `pytorch` is none, and NumPy comes with us."""
        also = {Framework.KERAS: " and tensorflow", Framework.PYTORCH: " and torch", Framework.JAX: " and jax"}
        return f"pytest-tfperf{also.get(self, '')}"


def framework_of(find: Callable[[str], object]) -> Framework:
    """Return the framework that is installed here; a first test of another one could not run."""
    if find("tensorflow") and find("keras"):
        return Framework.KERAS
    return Framework.PYTORCH if find("torch") else Framework.JAX if find("jax") else Framework.NONE


def default_branch(root: Path) -> str:
    """Return a name of the branch that others start from: origin's, else one that exists here; "main" at worst."""
    head = run_git(root, "symbolic-ref", "--short", "refs/remotes/origin/HEAD").stdout.strip()
    names = [head.removeprefix("origin/"), "main", "master", "trunk", "develop"]
    for name in dict.fromkeys(filter(None, names)):
        for reference in (f"refs/heads/{name}", f"refs/remotes/origin/{name}"):
            if run_git(root, "rev-parse", "--verify", "--quiet", reference).returncode == 0:
                return reference.removeprefix("refs/heads/").removeprefix("refs/remotes/")
    # A repository without a commit has a name for its first branch already.
    unborn = run_git(root, "symbolic-ref", "--short", "HEAD") if not run_git(root, "branch", "-a").stdout else None
    configured = run_git(root, "config", "init.defaultBranch").stdout.strip()
    return (unborn.stdout.strip() if unborn else "") or configured or "main"


def _ci_file(root: Path, ci: str, *, is_asked_for: bool) -> Path | None:
    """Return the path of the CI file to write below `root`; None for no CI.

    Raises:
        TfperfError: the user asked for it, and it exists.
    """
    if ci == "none":
        return None
    name = _GITHUB if ci == "github" else _GITLAB_BESIDE if (root / _GITLAB).exists() else _GITLAB
    if is_asked_for and (root / name).exists():
        raise TfperfError(
            f"{name} exists, and nothing is overwritten",
            next_step=f"Move it away for a new one, or leave it out: tfperf init --ci=none {root}",
        )
    return name


def _new_files(root: Path, tests: str, ci_file: Path | None, framework: Framework) -> Iterator[str]:
    from pytest_tfperf.hardware.discovery import discover

    is_for_gpu = framework is not Framework.NONE and bool(discover().gpus)
    names = {
        "tests": tests,
        "marker": "gpu" if is_for_gpu else "cpu",
        "where": "one GPU" if is_for_gpu else "the CPU",
        "runner": "[self-hosted]    # one with a GPU" if is_for_gpu else "ubuntu-latest    # or a runner of your own",
        "framework": framework,
        "requirements": framework.requirements,
    }
    is_keras = framework is Framework.KERAS
    files = {Path(tests) / "test_speed.py": TEST if is_keras else TEST_OF_PROGRAM}
    files |= {Path(tests) / "speed_models.py": MODELS} if is_keras else {Path(tests) / "train.py": PROGRAMS[framework]}
    files[Path("baselines") / "README.md"] = BASELINES
    for name, text in files.items():
        yield _written(root, name, text.format(**names))
    if ci_file is not None:
        template = "github.yml" if ci_file == _GITHUB else "gitlab.yml"
        text = (resources.files(__package__) / template).read_text("utf-8")
        for placeholder, value in names.items():  # braces are YAML's
            text = text.replace(f"<{placeholder}>", value)
        yield _written(root, ci_file, text)
    if ci_file == _GITLAB_BESIDE:
        yield f"        add to {_GITLAB}:  include: [{{local: {_GITLAB_BESIDE}}}]"


def _written(root: Path, name: Path, text: str) -> str:
    """Write a file unless it exists; returns a line for the user."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        return f"kept    {name}, which exists"
    return f"wrote   {name}"


def _settings(root: Path, own: IniFile | None) -> list[str]:
    """Write pytest.ini where the repository has no settings for pytest; else return the lines to add to its file."""
    if own is None or own.path.parent != root.absolute():
        lines = ["[pytest]", *(f"{name} = {value}" for name, value in _SETTINGS.items())]
        return [_written(root, Path("pytest.ini"), "\n".join(lines) + "\n")]
    lines = own.lines_for(_SETTINGS)
    return [f"        add to {own.path.name}:", *(f"          {line}" for line in lines)] if lines else []


def _edited_git_ignores(root: Path, text: str) -> str:
    """Have git ignore the history and reports; outside of a git repository do nothing."""
    path = root / ".gitignore"
    missing = [name for name in _IGNORED if name not in text.split()]
    if not (root / ".git").exists() or not missing:
        return ""
    done = "edited" if path.exists() else "wrote "
    with path.open("a", encoding="utf-8") as file:
        file.write(("" if not text or text.endswith("\n") else "\n") + "".join(f"{name}\n" for name in missing))
    return f"{done}  .gitignore: {', '.join(missing)}"


TEST = '''"""How fast do our models train? `pytest {tests}` measures."""

import pytest
from pytest_tfperf import Workload


@pytest.mark.{marker}
def test_training_speed(throughput, gpu_topology):
    """On {where}; replace the model of speed_models.py by "package.module:function" of your own."""
    workload = Workload(model="speed_models:small_cnn", batch_size=32)
    throughput.check(workload, on=gpu_topology.take(1))
'''

MODELS = '''"""The model of the first speed test. Workers import this module, and tests never need to import Keras."""

import keras


def small_cnn():
    """Three convolutions and a classifier, on images of 32 x 32."""
    images = keras.Input((32, 32, 3))
    x = images
    for filters in (32, 64, 128):
        x = keras.layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
        x = keras.layers.MaxPooling2D()(x)
    return keras.Model(images, keras.layers.Dense(10)(keras.layers.Flatten()(x)))
'''

TEST_OF_PROGRAM = '''"""How fast does our program train? `pytest {tests}` measures."""

import sys
from pathlib import Path

import pytest

from pytest_tfperf import Command

PROGRAM = Path(__file__).with_name("train.py")


@pytest.mark.{marker}
def test_training_speed(throughput, gpu_topology):
    """On {where}; replace train.py by a program of your own: `tfperf read` shows how its steps are seen."""
    program = Command([sys.executable, PROGRAM], name="train", unit="images/s")
    throughput.check(program, on=gpu_topology.take(1))
'''

PROGRAMS: Final = {
    Framework.PYTORCH: '''"""A small training with PyTorch. The speed test times its optimizer's steps."""

import itertools

import torch
from torch.utils.data import DataLoader, TensorDataset

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
images, labels = torch.randn(6400, 256), torch.randint(10, (6400,))
loader = DataLoader(TensorDataset(images, labels), batch_size=64, shuffle=True)

for epoch in itertools.count(1):
    for images, labels in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
        loss.backward()
        optimizer.step()
    print(f"epoch {{epoch}}: loss {{loss.item():.3f}}", flush=True)
''',
    Framework.JAX: '''"""A small training with JAX. The speed test times its steps."""

import itertools
import sys

import jax
import jax.numpy as jnp

BATCH = 64
images = jax.random.normal(jax.random.key(0), (BATCH, 256))
labels = jax.random.normal(jax.random.key(1), (BATCH, 10))
weights = jnp.zeros((256, 10))


@jax.jit
def train_step(weights):
    loss, gradient = jax.value_and_grad(lambda weights: ((images @ weights - labels) ** 2).mean())(weights)
    return weights - 0.01 * gradient, loss


for number in itertools.count(1):
    weights, loss = train_step(weights)
    sys.audit("tfperf.step", BATCH, loss)  # tells the speed test that a step of so many images ended; else does nothing
    if number % 1000 == 0:
        print(f"step {{number}}: loss {{loss:.3f}}", flush=True)
''',
    Framework.NONE: '''"""A small training with NumPy. The speed test times its steps."""

import itertools
import sys

import numpy

BATCH = 64
random = numpy.random.default_rng(0)
images, labels = random.normal(size=(BATCH, 256)), random.normal(size=(BATCH, 10))
weights = numpy.zeros((256, 10))

for number in itertools.count(1):
    errors = images @ weights - labels
    weights -= 0.01 / BATCH * images.T @ errors
    loss = (errors**2).mean()
    sys.audit("tfperf.step", BATCH, loss)  # tells the speed test that a step of so many images ended; else does nothing
    if number % 1000 == 0:
        print(f"step {{number}}: loss {{loss:.3f}}", flush=True)
''',
}

BASELINES = """# Baselines

One CSV for each machine, written by `pytest {tests} --update-baselines` on that machine. Commit them: a change is then
reviewed as a diff of rows. `tfperf baselines stale` shows what is here. Where two branches recorded, git may not merge
their files: `tfperf baselines merge` does.
"""

# The history, and the pages of `tfperf report` and of docs/history.md's `--tfperf-html=report.html`; pytest-benchmark,
# which comes with us, makes the last one in each project.
_IGNORED: Final = (".tfperf/", "tfperf-report.html", "/report.html", ".benchmarks/")


def next_steps(tests: str, ci: str, framework: Framework, base: str) -> list[str]:
    """The next steps after `tfperf init`."""
    program = "train.py" if framework is Framework.KERAS else f"{tests}/train.py"
    steps = [
        ("tfperf doctor", "is this machine fit to measure?"),
        (f"pytest {tests}", "measure once; there is no baseline yet"),
        (f"pytest {tests} --tfperf-base={base}", f"on a branch, once {base} has these files: is it slower?"),
        (f"tfperf trial -- {tests}", "before it blocks anybody: how often would it be wrong here?"),
        (f"pytest {tests} --update-baselines", "record baselines, then commit them"),
        ("read how to write tests", page("writing-tests.md")),
        (f"tfperf read -- python {program}", "for a program of your own, in any framework: the test that gates it"),
    ]
    if ci == "github":
        steps.append(("Settings > Pages > Source: GitHub Actions", "each night publishes its page"))
        steps.append((f"name {framework.requirements} in requirements.txt", "pull requests install from it"))
    if ci == "gitlab":
        steps.append(("allow Git push requests", "Settings > CI/CD > Job token permissions: the history is a branch"))
    if ci != "none":
        steps.append(("add a runner of your own", "the CI file says what it needs"))
    return aligned(steps)
