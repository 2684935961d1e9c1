"""SECURITY.md names all that the package connects to and starts, and each variable that holds a secret."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "pytest_tfperf"
TEXT = (ROOT / "SECURITY.md").read_text()

# A file that starts programs or opens connections, and what SECURITY.md says of it. Of a new one it must say something.
STARTS = {
    "console/pytest_process.py": "| pytest | `tfperf trial`, `tfperf bisect` |",
    "features/bisect/states.py": "`tfperf bisect --build`",
    "features/cluster/rank_launcher.py": "mpirun, `srun`",
    "features/cluster/engines/ray.py": "Ray",
    "features/cluster/engines/slurm.py": "`scancel`",
    "features/datasets.py": "`tfperf make-imagenet`",
    "features/notify/telling.py": "the program of a line `command`",
    "features/sharing/git_branch.py": "a branch that keeps the history",
    "features/sharing/sync.py": "| `tfperf history pull` and `push` |",
    "hardware/host.py": "`lscpu`",
    "hardware/nvml.py": "`tfperf doctor`, to start CUDA",
    "programs/command_run.py": "the program of a `Command`",
    "programs/supervisor.py": "supervisors of programs",
    "revisions/git.py": "| git | ",
    "revisions/pythons.py": "uv or pip",
    "training/rank.py": "ranks",
    "training/server.py": "workers",
    "workers/process_end.py": "`nvidia-cuda-mps-control`",
    "workers/processes.py": "workers",
}
CONNECTS = {
    "features/cluster/engines/ray.py": "Ray cluster",
    "features/cluster/nodes.py": "its host name is looked up",
    "features/sharing/postgresql.py": "a team's PostgreSQL server",
    "features/sharing/stored_folder.py": "an object store",
    "probe/link.py": "the session, on this machine",
    "training/horovod.py": "TensorFlow and Horovod, between ranks",
    "training/server.py": "the session, for workers on this machine",
    "web/api.py": "the servers of Slack, Teams and your own",
    "workers/wire.py": "the session, for ranks on other nodes",
}
STARTING = {("subprocess", "run"), ("subprocess", "Popen"), ("os", "fork"), ("os", "execvp"), ("os", "posix_spawn")}
CONNECTING = {
    *(
        ("socket", name)
        for name in ("create_connection", "create_server", "gethostbyname", "getaddrinfo", "socketpair")
    ),
    *(
        ("psycopg", "connect"),
        ("fsspec", "get_filesystem_class"),
        ("ray", "init"),
        ("", "build_opener"),
        ("", "urlopen"),
        ("requests", "get"),
    ),
}


def called(calls: set[tuple[str, str]]) -> set[str]:
    """The files of the package with one of these calls."""
    return {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and name_of(node.func) in calls
    }


def name_of(function: ast.expr) -> tuple[str, str]:
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        return function.value.id, function.attr
    return "", function.id if isinstance(function, ast.Name) else ""


def test_each_file_that_starts_a_program_is_accounted_for() -> None:
    assert called(STARTING) == STARTS.keys()
    assert [words for words in STARTS.values() if words not in TEXT] == []


def test_each_file_that_connects_is_accounted_for() -> None:
    assert called(CONNECTING) == CONNECTS.keys()
    assert [words for words in CONNECTS.values() if words not in TEXT] == []


def test_each_variable_that_holds_a_secret_is_named() -> None:
    words = {
        node.value
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    variables = {word for word in words if word.isupper() and word.endswith(("_TOKEN", "_URL")) and word.isascii()}
    variables.discard("JENKINS_URL")  # only tells that it is a job of Jenkins
    assert sorted(name for name in variables if name not in TEXT) == []
