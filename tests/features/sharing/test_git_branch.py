"""Documents on a branch of a bare repository over file://."""

from __future__ import annotations

import random
import shutil
import string
import time
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import CompletedProcess
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_tfperf.core.history_url import HistoryUrl
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features.sharing import git_branch
from pytest_tfperf.features.sharing.git_branch import GitBranch
from tests.features.sharing.git_servers import (
    BRANCH,
    all_in,
    bare_repository,
    documents,
    hook,
    killed_after,
    squash,
    stand_in,
    subjects,
)
from tests.helpers.repositories import git


@pytest.fixture
def server(tmp_path: Path) -> Path:
    return bare_repository(tmp_path / "server.git")


@pytest.fixture
def url(server: Path) -> HistoryUrl:
    return HistoryUrl(f"git+{server.as_uri()}")


@pytest.fixture
def branch_in(tmp_path: Path, url: HistoryUrl) -> Callable[[str], GitBranch]:
    """The branch as a machine with a folder of its own has it."""
    return lambda name: GitBranch(url, folder=tmp_path / name, root=tmp_path)


@pytest.fixture
def root(tmp_path: Path, server: Path) -> Path:
    """A repository with tests, whose origin is the server."""
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "remote", "add", "origin", str(server))
    (folder / "test_it.py").write_text("")
    git(folder, "add", ".")
    git(folder, "-c", "user.name=Ada", "-c", "user.email=ada@example.com", "commit", "--quiet", "-m", "tests")
    return folder


def of_root(root: Path) -> GitBranch:
    return GitBranch(HistoryUrl("git+."), folder=root / ".tfperf", root=root)


def blobs_in(folder: Path) -> int:
    objects = git(folder / "history.git", "cat-file", "--batch-all-objects", "--batch-check")
    return sum(" blob " in line for line in objects.splitlines())


In = Callable[[str], GitBranch]

WHO = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")

# list, get, put


def test_what_one_machine_puts_another_gets(branch_in: In) -> None:
    branch_in("a").put(documents(40))
    assert all_in(branch_in("b")) == documents(40)


def test_documents_come_in_the_given_order_and_unknown_names_are_left_out(branch_in: In) -> None:
    branch_in("a").put(documents(40))
    names = sorted(documents(40), reverse=True)
    assert [name for name, _ in branch_in("b").get(["v1/none", *names])] == names


def test_a_repository_without_the_branch_has_no_documents(branch_in: In) -> None:
    branch = branch_in("a")
    assert (branch.list(), list(branch.get(["v1/none"]))) == ([], [])


def test_only_names_that_begin_with_the_prefix_are_listed(branch_in: In) -> None:
    branch_in("a").put(documents(2, "box") | documents(2, "box2"))
    assert sorted(branch_in("b").list("v1/box/")) == sorted(documents(2, "box"))


def test_a_document_that_exists_stays_as_it_is(branch_in: In, server: Path) -> None:
    branch = branch_in("a")
    branch.put({"v1/a": b"first"})
    branch.put({"v1/a": b"second"})
    assert (all_in(branch), len(subjects(server))) == ({"v1/a": b"first"}, 1)


def test_one_connection_lists_as_often_as_it_is_asked(branch_in: In, server: Path) -> None:
    branch_in("a").put(documents(2, "box") | documents(2, "other"))
    branch = branch_in("b")
    assert len(branch.list("v1/box/")) == 2
    server.rename(server.parent / "away.git")
    assert len(branch.list()) == 4


def test_a_document_that_was_just_put_can_be_fetched(branch_in: In) -> None:
    branch = branch_in("a")
    assert branch.list() == []
    branch.put(documents(2))
    assert dict(branch.get([*documents(2)])) == documents(2)


def test_documents_are_kept_to_the_last_byte(branch_in: In) -> None:
    odd = {"v1/é \"'\\ \n": b"\0\r\n\xff", "v1/empty": b"", "v1/line end": b"\n"}
    branch_in("a").put(odd)
    assert all_in(branch_in("b")) == odd


def test_commits_are_by_the_plugin_and_start_no_job(branch_in: In, server: Path) -> None:
    branch_in("a").put(documents(2))
    assert git(server, "log", "--format=%an|%cn|%s|%p", BRANCH) == "pytest-tfperf|pytest-tfperf|2 sessions [skip ci]|"


def test_only_documents_that_are_asked_for_are_fetched(branch_in: In, tmp_path: Path) -> None:
    branch_in("a").put(documents(40))
    branch = branch_in("b")
    list(branch.get(branch.list()[:3]))
    assert blobs_in(tmp_path / "b") == 3


def test_documents_are_fetched_many_at_a_time(branch_in: In, tmp_path: Path) -> None:
    branch_in("a").put(documents(40))
    all_in(branch_in("b"))
    assert len([*tmp_path.glob("b/history.git/objects/pack/*.pack")]) == 3  # the tree, 16 documents, 24


def test_a_server_that_filters_nothing_serves_as_well(branch_in: In, server: Path) -> None:
    git(server, "config", "uploadpack.allowFilter", "false")
    branch_in("a").put(documents(40))
    assert all_in(branch_in("b")) == documents(40)


def test_a_document_that_is_too_large_is_left_out(branch_in: In, monkeypatch: pytest.MonkeyPatch) -> None:
    branch_in("a").put({"v1/a": bytes(1000), "v1/b": bytes(3_000_000), "v1/c": bytes(1001), "v1/d": b"d"})
    monkeypatch.setattr(git_branch, "MOST_BYTES", 1000)
    assert all_in(branch_in("b")) == {"v1/a": bytes(1000), "v1/d": b"d"}


def test_links_and_submodules_are_no_documents(branch_in: In, server: Path) -> None:
    branch_in("a").put({"v1/a": b"a"})
    blob, commit = git(server, "rev-parse", f"{BRANCH}:v1/a"), git(server, "rev-parse", BRANCH)
    add = ("update-index", "--add", "--cacheinfo")
    for mode, oid, name in (("120000", blob, "v1/link"), ("160000", commit, "v1/sub"), ("100755", blob, "v1/b")):
        git(server, *add, f"{mode},{oid},{name}")
    tree = git(server, "write-tree")
    git(server, "update-ref", BRANCH, git(server, *WHO, "commit-tree", "-m", "odd", tree))
    assert branch_in("b").list() == ["v1/b"]


# Others


def test_the_owner_may_squash_the_branch(branch_in: In, server: Path) -> None:
    branch = branch_in("a")
    for number in range(3):
        branch.put(documents(number + 1))
    squash(server)
    assert all_in(branch) == documents(3)
    branch.put(documents(4))
    assert (all_in(branch_in("b")), len(subjects(server))) == (documents(4), 2)


@pytest.mark.parametrize("days", [-1, 1])
def test_a_clock_that_is_wrong_by_a_day_does_no_harm(
    branch_in: In, server: Path, monkeypatch: pytest.MonkeyPatch, days: int
) -> None:
    branch_in("a").put(documents(1))
    monkeypatch.setenv("GIT_COMMITTER_DATE", f"{int(time.time()) + days * 86400} +0000")
    squash(server)
    for count, machine in enumerate("abc", 2):
        branch_in(machine).put(documents(count))
        assert all_in(branch_in("a")) == documents(count)


def test_a_path_may_have_spaces_and_signs(tmp_path: Path) -> None:
    url = HistoryUrl(f"git+{bare_repository(tmp_path / 'the team+é%.git').as_uri()}")
    GitBranch(url, folder=tmp_path / "a b", root=tmp_path).put(documents(2))
    assert all_in(GitBranch(url, folder=tmp_path / "c", root=tmp_path)) == documents(2)


def test_the_owner_may_delete_the_branch(branch_in: In, server: Path) -> None:
    branch = branch_in("a")
    branch.put(documents(3))
    git(server, "update-ref", "-d", BRANCH)
    assert all_in(branch) == {}
    branch.put(documents(1))
    assert (all_in(branch_in("b")), len(subjects(server))) == (documents(1), 1)


def test_a_document_that_was_deleted_since_it_was_listed_is_left_out(branch_in: In, server: Path) -> None:
    branch_in("a").put(documents(3))
    branch = branch_in("b")
    names = branch.list()
    git(server, "update-ref", "-d", BRANCH)
    git(server, "gc", "--quiet", "--prune=now")
    branch_in("c").put(documents(2))
    assert dict(branch.get(names)) == documents(2)


def test_ten_pushers_at_once_lose_nothing(branch_in: In, server: Path) -> None:
    def push(number: int) -> None:
        branch_in(f"machine{number}").put(documents(10, f"machine{number}"))

    with ThreadPoolExecutor(10) as pool:
        list(pool.map(push, range(10)))
    everything = {name: data for number in range(10) for name, data in documents(10, f"machine{number}").items()}
    assert (all_in(branch_in("reader")), len(subjects(server))) == (everything, 10)


def test_two_processes_of_one_folder_wait_for_each_other(branch_in: In) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda machine: branch_in("a").put(documents(5, machine)), "wxyz"))
    assert len(branch_in("b").list()) == 20


def test_pushes_that_are_always_overtaken_end(branch_in: In, server: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    branch_in("a").put(documents(1))
    hook(server, f"git update-ref {BRANCH} $(git {' '.join(WHO)} commit-tree -m other -p {BRANCH} {BRANCH}^{{tree}})")
    hook(server, f"unset GIT_QUARANTINE_PATH; {(server / 'hooks' / 'pre-receive').read_text().splitlines()[1]}")
    monkeypatch.setattr(git_branch, "_TRIES", 3)
    with pytest.raises(TfperfError, match=r"others push all the time \(.*\)\. Push again later"):
        branch_in("b").put(documents(2))


# What a kill leaves


@pytest.mark.parametrize("action", ["put", "get"])
def test_a_process_that_is_killed_at_any_moment_breaks_nothing(
    branch_in: In, url: HistoryUrl, tmp_path: Path, action: str
) -> None:
    branch_in("other").put(documents(60))
    for number in range(8):
        killed_after(random.uniform(0.02, 0.4), url, tmp_path / "a", f"{action}{number}")
    found = all_in(branch_in("a"))
    assert documents(60).items() <= found.items()
    assert {len(data) // 5000 for name, data in found.items() if "put" in name} <= {2}  # each is whole
    branch_in("a").put(documents(61))
    assert len(all_in(branch_in("b"))) == len(found) + 1


def truncated(clone: Path) -> None:
    for pack in clone.glob("objects/pack/*.pack"):
        pack.chmod(0o600)
        pack.write_bytes(pack.read_bytes()[:50])


DAMAGES: dict[str, Callable[[Path], object]] = {
    "truncated packs": truncated,
    "no objects": lambda clone: shutil.rmtree(clone / "objects"),
    "no packs": lambda clone: shutil.rmtree(clone / "objects" / "pack"),
    "empty HEAD": lambda clone: (clone / "HEAD").write_text(""),
    "empty configuration": lambda clone: (clone / "config").write_text("[core"),
    "a reference to nothing": lambda clone: (clone / "refs" / "tfperf" / "tip").write_text("1" * 40 + "\n"),
    "an empty reference": lambda clone: (clone / "refs" / "tfperf" / "tip").write_text(""),
    "damaged history": lambda clone: (clone / "shallow").write_text("x"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_clone_is_made_again(
    branch_in: In, server: Path, tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    branch = branch_in("a")
    branch.put(documents(3))
    assert len(all_in(branch)) == 3
    damage(tmp_path / "a" / "history.git")
    branch_in("b").put(documents(5))
    assert all_in(branch_in("a")) == documents(5)
    damage(tmp_path / "a" / "history.git")
    branch_in("a").put(documents(6))
    assert all_in(branch_in("b")) == documents(6)


def test_locks_and_files_of_a_killed_git_are_removed_and_the_clone_stays(branch_in: In, tmp_path: Path) -> None:
    branch_in("a").put(documents(3))
    clone = tmp_path / "a" / "history.git"
    left = [clone / "refs" / "tfperf" / "tip.lock", clone / "shallow.lock", clone / "objects" / "pack" / "tmp_pack_1"]
    for file in left:
        file.touch()
    (clone / "marker").touch()
    branch_in("b").put(documents(4))
    assert all_in(branch_in("a")) == documents(4)
    assert ((clone / "marker").exists(), [file.exists() for file in left]) == (True, [False] * 3)


def test_a_clone_does_not_grow_without_end(branch_in: In, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_branch, "_MOST_PACKS", 4)
    for count in range(1, 8):
        branch_in("b").put(documents(count))
        assert all_in(branch_in("a")) == documents(count)
    assert len([*tmp_path.glob("a/history.git/objects/pack/*.pack")]) <= 6


# The tests' own repository


def test_origin_of_the_tests_repository_keeps_documents_and_the_repository_stays_as_it_is(
    root: Path, server: Path
) -> None:
    (root / "test_it.py").write_text("changed")
    (root / "new.py").write_text("")
    git(root, "add", "new.py")

    def state() -> tuple[object, ...]:
        files = {path: path.read_bytes() for path in (root / ".git").rglob("*") if path.is_file()}
        return files, git(root, "status", "--porcelain")

    before = state()
    of_root(root).put(documents(3))
    assert all_in(of_root(root)) == documents(3)
    assert (state(), len(subjects(server))) == (before, 1)


def test_an_address_relative_to_the_tests_repository_is_found_from_a_folder_in_it(root: Path) -> None:
    git(root, "config", "remote.origin.url", "../server.git")
    (root / "perf").mkdir()
    of_root(root / "perf").put(documents(1))
    assert len(of_root(root).list()) == 1


def test_settings_of_the_tests_repository_give_access_also_those_that_it_includes(
    root: Path, server: Path, tmp_path: Path
) -> None:
    git(root, "config", "remote.origin.url", "https://127.0.0.1:1/server.git")
    (tmp_path / "included").write_text(f'[url "{server}"]\n insteadOf = https://127.0.0.1:1/server.git\n')
    git(root, "config", f"includeIf.gitdir:{root}/.git.path", str(tmp_path / "included"))
    of_root(root).put(documents(1))
    assert len(subjects(server)) == 1


def test_another_repository_s_settings_are_not_used_for_an_address(root: Path, server: Path, url: HistoryUrl) -> None:
    git(root, "config", f"url.{root / 'nowhere'}.insteadOf", url.address)
    branch = GitBranch(url, folder=root / ".tfperf", root=root)
    branch.put(documents(1))
    assert len(subjects(server)) == 1


def test_pushes_go_where_those_of_the_tests_repository_go(root: Path, server: Path, tmp_path: Path) -> None:
    git(root, "config", "remote.origin.url", str(bare_repository(tmp_path / "mirror.git")))
    git(root, "config", "remote.origin.pushurl", str(server))
    of_root(root).put(documents(1))
    assert len(subjects(server)) == 1


def test_a_folder_outside_of_a_repository_has_no_origin(tmp_path: Path) -> None:
    with pytest.raises(TfperfError, match=r"^git\+\.: git finds no repository at .*\. Run in a clone, or name"):
        of_root(tmp_path).list()


def test_a_repository_without_origin_says_how_to_add_it(root: Path) -> None:
    git(root, "remote", "remove", "origin")
    with pytest.raises(TfperfError, match=r"^git\+\.: the repository .* has no origin\. Add it: git remote add origin"):
        of_root(root).list()


# The user's git


@pytest.fixture
def users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Settings of the user."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    return lambda text: (tmp_path / "gitconfig").write_text(text) and None


def test_no_hook_runs_here(branch_in: In, tmp_path: Path, users: Callable[[str], None]) -> None:
    (tmp_path / "users").mkdir()
    for name in ("pre-push", "pre-auto-gc", "reference-transaction"):
        hook(tmp_path / "users", f'[ "$(basename $PWD)" = server.git ] || touch {tmp_path}/ran', name)
    users(f"[core]\n hooksPath = {tmp_path}/users/hooks\n[init]\n templateDir = {tmp_path}/users\n")
    branch_in("a").put(documents(2))
    assert (all_in(branch_in("b")), (tmp_path / "ran").exists()) == (documents(2), False)


def test_the_user_s_settings_for_other_work_do_no_harm(branch_in: In, users: Callable[[str], None]) -> None:
    users(
        "[protocol]\n version = 0\n[fetch]\n prune = true\n[gc]\n auto = 1\n[push]\n gpgSign = true\n"
        "[commit]\n gpgSign = true\n[core]\n quotePath = false\n autocrlf = true\n[color]\n ui = always\n"
        "[transfer]\n fsckObjects = true\n[safe]\n bareRepository = explicit\n"
    )
    for count in (2, 40):
        branch_in("a").put(documents(count))
        assert all_in(branch_in("b")) == documents(count)


@pytest.mark.parametrize(
    ("text", "variables", "first"),
    [
        ("", {}, "ssh -oBatchMode=yes"),
        ("[core]\n sshCommand = ssh -oUser\n", {}, "ssh -oUser"),
        ("", {"GIT_SSH": "ours"}, "ours"),
        ("", {"GIT_SSH_COMMAND": "ssh -oOurs"}, "ssh -oOurs"),
    ],
)
def test_ssh_asks_nothing_unless_the_user_has_a_command_for_it(
    tmp_path: Path,
    users: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    variables: dict[str, str],
    first: str,
) -> None:
    users(text)
    for program in ("ssh", "ours"):
        path = stand_in(tmp_path / "bin" / program, f'echo "{program} $@" >{tmp_path}/told; exit 255')
    for name, value in {**variables, "PATH": path}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(TfperfError):
        GitBranch(HistoryUrl("git+ssh://host.example/x"), folder=tmp_path / "a", root=tmp_path).list()
    assert (tmp_path / "told").read_text().startswith(f"{first} ")


def test_variables_of_a_hook_that_runs_the_tests_lead_nowhere_else(
    branch_in: In, root: Path, server: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = git(root, "for-each-ref")
    for name in ("GIT_DIR", "GIT_COMMON_DIR"):
        monkeypatch.setenv(name, str(root / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(root))
    monkeypatch.setenv("GIT_INDEX_FILE", str(root / ".git" / "index"))
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(root / ".git" / "objects"))
    monkeypatch.setenv("GIT_QUARANTINE_PATH", str(root / ".git" / "objects"))
    monkeypatch.setenv("GIT_NAMESPACE", "other")
    monkeypatch.setenv("GIT_CONFIG_PARAMETERS", "'remote.tfperf.url'='/nowhere'")
    branch_in("a").put(documents(2))
    of_root(root).put(documents(3))
    monkeypatch.undo()
    assert (all_in(branch_in("b")), git(root, "for-each-ref")) == (documents(3), before)


def test_settings_in_the_user_s_variables_hold(root: Path, server: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(root, "config", "remote.origin.url", "https://127.0.0.1:1/server.git")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", f"url.{server}.insteadOf")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "https://127.0.0.1:1/server.git")
    of_root(root).put(documents(1))
    assert len(subjects(server)) == 1


@pytest.mark.parametrize("address", ["ext::sh -c touch% RAN", "http://127.0.0.1:1/x", "git://127.0.0.1:1/x"])
def test_other_ways_to_a_server_are_refused(root: Path, tmp_path: Path, address: str) -> None:
    git(root, "config", "remote.origin.url", address.replace("RAN", str(tmp_path / "ran")))
    git(root, "config", "protocol.allow", "always")
    with pytest.raises(TfperfError, match=r"only ssh, https and files are allowed .* not allowed\)\. Name such"):
        of_root(root).list()
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("host", ["-oProxyCommand=touch${IFS}RAN", "x"])
@pytest.mark.parametrize("form", ["ssh://{}/x", "{}:x"])
def test_no_host_is_an_option_of_ssh(root: Path, tmp_path: Path, host: str, form: str) -> None:
    address = form.format(host.replace("RAN", "ran"))
    git(root, "config", "remote.origin.url", address)
    with pytest.raises(TfperfError):
        of_root(root).list()
    assert not (root / "ran").exists()


def test_a_name_that_is_none_of_a_branch_is_refused(tmp_path: Path, url: HistoryUrl) -> None:
    branch = GitBranch(HistoryUrl(f"{url.secret}#x.lock"), folder=tmp_path / "a", root=tmp_path)
    with pytest.raises(TfperfError, match=r"git allows no branch 'x\.lock'\. Name another: #BRANCH"):
        branch.list()


def test_two_branches_may_share_a_clone(branch_in: In, tmp_path: Path, url: HistoryUrl) -> None:
    branch_in("b").put(documents(1))
    branch, other = (
        branch_in("a"),
        GitBranch(HistoryUrl(f"{url.secret}#other"), folder=tmp_path / "a", root=tmp_path),
    )
    assert len(branch.list()) == 1
    other.put(documents(2, "other"))
    assert len(other.list()) == 2
    branch.put(documents(2))
    assert all_in(branch_in("b")) == documents(2)


def test_another_branch_of_the_repository_is_another_place(branch_in: In, tmp_path: Path, url: HistoryUrl) -> None:
    branch_in("a").put(documents(1))
    other = GitBranch(HistoryUrl(f"{url.secret}#perf/nightly"), folder=tmp_path / "a", root=tmp_path)
    other.put(documents(2, "other"))
    assert (all_in(branch_in("a")), all_in(other)) == (documents(1), documents(2, "other"))


# Errors


def test_a_machine_without_git_says_so(branch_in: In, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(TfperfError, match=r": git can't be run: No such file or directory\. Install git$"):
        branch_in("a").list()


def test_a_git_that_is_too_old_is_named(branch_in: In, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", stand_in(tmp_path / "bin" / "git", "echo git version 2.30.2"))
    with pytest.raises(TfperfError, match=r"needs git 2\.31, and this is git version 2\.30\.2\. Update git$"):
        branch_in("a").list()


def test_a_missing_repository_is_no_empty_history(tmp_path: Path) -> None:
    branch = GitBranch(HistoryUrl(f"git+file://{tmp_path}/none.git"), folder=tmp_path / "a", root=tmp_path)
    for act in (branch.list, lambda: branch.put(documents(1))):
        with pytest.raises(TfperfError, match=r"there is no such repository, or .*\. Check the address and the token$"):
            act()


def test_a_protected_branch_is_told_in_the_server_s_words(branch_in: In, server: Path) -> None:
    hook(server, "echo 'Only Ada may push here.'; exit 1")
    with pytest.raises(TfperfError) as caught:
        branch_in("a").put(documents(1))
    assert str(caught.value).partition(": ")[2] == (
        "the server does not let this branch be pushed (remote: Only Ada may push here. "
        "! refs/tfperf/new:refs/heads/tfperf-history [remote rejected] (pre-receive hook declined)). "
        "Exempt it from the repository's rules, or name another: #BRANCH"
    )


DENIED = "fatal: unable to access 'https://host.example/o/r/': The requested URL returned error: 403"
NO_SSH = (
    "fatal: Could not read from remote repository.\n\n"
    "Please make sure you have the correct access rights\nand the repository exists."
)
REJECTED = "!\trefs/tfperf/new:refs/heads/b\t[remote rejected]"


@pytest.mark.parametrize(
    ("output", "fact"),
    [
        (f"remote: Permission to o/r.git denied to github-actions[bot].\n{DENIED}", "no permission to write"),
        (f"remote: You are not allowed to push code to this project.\n{DENIED}", "no permission to write"),
        (
            f"ERROR: The key you are authenticating with has been marked as read only.\n{NO_SSH}",
            "no permission to write",
        ),
        (
            f"remote: error: GH013: Repository rule violations found.\n{REJECTED} (push declined)",
            "the server does not let",
        ),
        (
            "remote: GitLab: You are not allowed to push code to protected branches on this project.\n"
            f"{REJECTED} (pre-receive hook declined)",
            "the server does not let",
        ),
        (f"{REJECTED} (cannot lock ref 'refs/heads/b': is at 1 but expected 2)", "others push all the time"),
        (f"ERROR: Repository not found.\n{NO_SSH}", "there is no such repository"),
        (
            f"remote: ERROR: The project you were looking for could not be found.\n{NO_SSH}",
            "there is no such repository",
        ),
        ("fatal: repository 'https://host.example/o/r/' not found", "there is no such repository"),
        ("fatal: could not read Username for 'https://host.example': terminal prompts disabled", "the login failed"),
        ("remote: HTTP Basic: Access denied. The password or token is incorrect.", "the login failed"),
        (f"git@host.example: Permission denied (publickey).\n{NO_SSH}", "the login failed"),
        (
            "fatal: unable to access 'https://host.example/': Could not resolve host: host.example",
            "the server can't be",
        ),
        (f"ssh: connect to host host.example port 22: Connection timed out\n{NO_SSH}", "the server can't be"),
        (f"kex_exchange_identification: Connection closed by remote host\n{NO_SSH}", "the server can't be"),
        (DENIED.replace("403", "503"), "the server can't be"),
        ("fatal: detected dubious ownership in repository at '/srv/r'", "git refuses a repository of another user"),
        ("error: unable to read sha1 file of v1/a (1234)", "git failed"),
    ],
)
def test_words_of_code_hosts_and_git_are_understood(branch_in: In, output: str, fact: str) -> None:
    error = branch_in("a")._error(CompletedProcess((), 1, b"", output.encode()))
    assert error.fact.partition(".git: ")[2].startswith(fact)


SECRETS = st.builds(
    "s{}".format, st.text(string.ascii_letters + string.digits + "$&+,/:;=?@%!*'() -_.~<>|\\é", min_size=9, max_size=40)
)


class Telltale:
    """A git that fails, and repeats in its errors all that it was given."""

    def run(self, command: Sequence[str], *, env: Mapping[str, str], **_: object) -> CompletedProcess[bytes]:
        settings = (value for name, value in env.items() if name.startswith("GIT_CONFIG_"))
        return CompletedProcess(command, 1, b"", " ".join([*command, *settings]).encode())


@given(user=SECRETS, secret=SECRETS, is_user=st.booleans())
@settings(max_examples=300)
def test_no_secret_of_an_address_is_in_an_error(user: str, secret: str, is_user: bool) -> None:
    login = quote(secret, safe="") if is_user else f"{quote(user, safe='')}:{quote(secret, safe='')}"
    branch = GitBranch(HistoryUrl(f"git+https://{login}@host.example/repository"), folder=Path("/"), root=Path("/"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(git_branch, "subprocess", Telltale())
        patch.setattr(
            git_branch, "shortened", lambda text, most: text
        )  # nothing is only hidden because a line was long
        error = branch._error(branch._run("push", online=True))
    said = f"{error} {error.fact} {error.text} {error.brief} {error!r}"
    basic = b64encode(f"{user}:{secret}".encode()).decode()
    assert "git failed" in said
    assert [form for form in (secret, quote(secret, safe=""), basic) if form in said] == []
