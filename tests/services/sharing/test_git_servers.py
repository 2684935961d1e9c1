"""Documents on a branch that a server keeps: https with tokens, ssh with keys, and a disk that is full."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import quote

import pytest

from pytest_tfperf.core.history_url import HistoryUrl
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features.sharing import sync
from pytest_tfperf.features.sharing.git_branch import GitBranch
from tests.features.sharing.git_servers import (
    all_in,
    bare_repository,
    documents,
    hook,
    killed_after,
    stand_in,
    subjects,
)
from tests.helpers.inner import Project
from tests.helpers.patience import PATIENCE_SECONDS, wait_for
from tests.helpers.repositories import git
from tests.services.git_https import READER, WRITER, CodeHost, code_host, header
from tests.services.small_disk import leave_a_megabyte, small_disk

TESTS = """
    import sys

    def test_program(throughput, on):
        program = "for step in range(30): print(f'{1000 + step % 3} examples/s')"
        throughput.check(Command([sys.executable, "-c", program], name="program", reads=RATES_TO_THE_END), on=on)
"""
SSHD = shutil.which("sshd") or shutil.which("/usr/sbin/sshd")


@pytest.fixture
def server(tmp_path: Path) -> Path:
    (tmp_path / "served").mkdir()
    return bare_repository(tmp_path / "served" / "team.git")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The repository of the tests."""
    git(tmp_path, "init", "--quiet", "project")
    return tmp_path / "project"


def branch_at(url: str, folder: Path, root: Path = Path("/")) -> GitBranch:
    return GitBranch(HistoryUrl(url), folder=folder, root=root)


def of_root(root: Path) -> GitBranch:
    return branch_at("git+.", root / ".tfperf", root)


# https


@pytest.fixture
def host(server: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CodeHost]:
    with code_host(server.parent) as started:
        monkeypatch.setenv("GIT_SSL_CAINFO", str(server.parent.parent / "certificate.pem"))
        yield started
        assert started.in_arguments == set()


def url_with(token: str, host: CodeHost) -> str:
    return f"git+https://x-access-token:{quote(token, safe='')}@{host.address}/team.git"


def test_a_token_in_the_url_may_write_and_is_in_no_file(host: CodeHost, server: Path, tmp_path: Path) -> None:
    branch_at(url_with(WRITER, host), tmp_path / "a").put(documents(40))
    assert all_in(branch_at(url_with(WRITER, host), tmp_path / "b")) == documents(40)
    files = [path for folder in "ab" for path in (tmp_path / folder).rglob("*") if path.is_file()]
    assert [path for path in files if b"ghs_" in path.read_bytes() or b"asic " in path.read_bytes()] == []


def test_documents_above_what_git_sends_in_one_piece_arrive(host: CodeHost, tmp_path: Path) -> None:
    large = {f"v1/{number}": os.urandom(700_000) for number in range(5)}
    branch_at(url_with(WRITER, host), tmp_path / "a").put(large)
    assert all_in(branch_at(url_with(WRITER, host), tmp_path / "b")) == large


def test_the_header_of_a_github_job_gives_access_and_is_sent_once(
    host: CodeHost, root: Path, server: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(root, "remote", "add", "origin", f"https://{host.address}/team.git")
    git(root, "config", f"http.https://{host.address}/.extraheader", header(WRITER))
    of_root(root).put(documents(3))
    assert all_in(of_root(root)) == documents(3)
    assert {len(given) for given in host.authorizations} == {1}


def test_a_header_in_a_file_that_the_repository_includes_gives_access(
    host: CodeHost, root: Path, server: Path, tmp_path: Path
) -> None:
    git(root, "remote", "add", "origin", f"https://{host.address}/team.git")
    (tmp_path / "job").write_text(f'[http "https://{host.address}/"]\n extraheader = {header(WRITER)}\n')
    git(root, "config", f"includeIf.gitdir:{root}/.git.path", str(tmp_path / "job"))
    of_root(root).put(documents(3))
    assert len(subjects(server)) == 1


def test_a_header_among_the_user_s_settings_is_not_sent_twice(
    host: CodeHost, root: Path, server: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(root, "remote", "add", "origin", f"https://{host.address}/team.git")
    (tmp_path / "gitconfig").write_text(f'[http "https://{host.address}/"]\n extraheader = {header(WRITER)}\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    of_root(root).put(documents(3))
    assert len(subjects(server)) == 1


def test_the_login_in_origin_of_a_gitlab_job_gives_access(host: CodeHost, root: Path, server: Path) -> None:
    git(root, "remote", "add", "origin", url_with(WRITER, host).removeprefix("git+"))
    of_root(root).put(documents(3))
    assert len(subjects(server)) == 1


def test_the_repository_s_credential_helper_gives_access(host: CodeHost, root: Path, server: Path) -> None:
    git(root, "remote", "add", "origin", f"https://x-access-token@{host.address}/team.git")
    (root / "token").write_text(f"password={WRITER}\n")
    git(root, "config", "credential.helper", f"!cat {root}/token; :")
    of_root(root).put(documents(3))
    assert len(subjects(server)) == 1


@pytest.mark.parametrize("login", ["", "x-access-token:ghs_wrong@", "ghs_wrong@"])
def test_a_failed_login_is_told_without_the_token_and_nothing_is_asked(
    host: CodeHost, tmp_path: Path, login: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asks = tmp_path / "bin" / "asks"
    stand_in(asks, f"touch {tmp_path}/asked; echo secret")
    for name in ("GIT_ASKPASS", "SSH_ASKPASS"):
        monkeypatch.setenv(name, str(asks))
    (tmp_path / "gitconfig").write_text(f"[core]\n askPass = {asks}\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    with pytest.raises(TfperfError, match=r"the login failed \(.*\)\. Give git a token or a key") as caught:
        branch_at(f"git+https://{login}{host.address}/team.git", tmp_path / "a").list()
    assert ("ghs_" in repr(caught.value), (tmp_path / "asked").exists()) == (False, False)


def test_a_token_that_may_only_read_reads_and_a_push_says_what_it_lacks(host: CodeHost, tmp_path: Path) -> None:
    branch_at(url_with(WRITER, host), tmp_path / "a").put(documents(3))
    reader = branch_at(url_with(READER, host), tmp_path / "b")
    assert all_in(reader) == documents(3)
    with pytest.raises(
        TfperfError, match=r"no permission to write \(remote: Write access .*\)\. Give it to the token or key"
    ) as caught:
        reader.put(documents(4))
    assert "ghs_" not in repr(caught.value)


def test_a_protected_branch_is_told_in_the_server_s_words(host: CodeHost, server: Path, tmp_path: Path) -> None:
    hook(server, "echo 'error: GH006: Protected branch update failed for refs/heads/tfperf-history.' >&2; exit 1")
    with pytest.raises(
        TfperfError, match=r"does not let this branch be pushed \(remote: error: GH006: Protected .*\)\. Exe"
    ):
        branch_at(url_with(WRITER, host), tmp_path / "a").put(documents(3))


def test_a_repository_that_does_not_exist_is_told(host: CodeHost, tmp_path: Path) -> None:
    with pytest.raises(TfperfError, match=r"no such repository, or this login may not read it \(.*not found\)\. Check"):
        branch_at(url_with(WRITER, host).replace("team", "none"), tmp_path / "a").list()


def test_a_certificate_of_an_unknown_authority_is_refused(
    host: CodeHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GIT_SSL_CAINFO")
    with pytest.raises(TfperfError, match=r"certificate can't be verified \(.*\)\. Name its authority: git config"):
        branch_at(url_with(WRITER, host), tmp_path / "a").list()
    assert host.authorizations == []


def test_a_server_that_ends_the_connection_in_the_middle_breaks_nothing(host: CodeHost, tmp_path: Path) -> None:
    branch_at(url_with(WRITER, host), tmp_path / "a").put(documents(40))
    branch = branch_at(url_with(WRITER, host), tmp_path / "b")
    host.cuts_after = 600
    with pytest.raises(TfperfError, match=r"the server can't be reached \(.*\)\. Check the network"):
        all_in(branch)
    host.cuts_after = None
    assert all_in(branch) == documents(40)


@pytest.mark.parametrize("action", ["get", "put"])
def test_a_process_that_is_killed_while_the_server_drips_breaks_nothing(
    host: CodeHost, tmp_path: Path, action: str
) -> None:
    url = url_with(WRITER, host)
    branch_at(url, tmp_path / "a").put(documents(40))
    host.bytes_per_second = 2_000
    for seconds in (0.5, 1.5, 2.5):
        killed_after(seconds, HistoryUrl(url), tmp_path / "b", action)
    host.bytes_per_second = None
    branch_at(url, tmp_path / "b").put(documents(41))
    assert documents(41).items() <= all_in(branch_at(url, tmp_path / "b")).items()


def a_job_with(token: str, host: CodeHost, folder: Path) -> Project:
    """A fresh checkout of a GitHub job, which keeps the token in the repository's settings."""
    project = Project(folder, trains=False)
    project.tests(TESTS)
    git(folder, "init", "--quiet")
    git(folder, "remote", "add", "origin", f"https://{host.address}/team.git")
    git(folder, "config", f"http.https://{host.address}/.extraheader", header(token))
    return project


def test_jobs_share_a_history_by_their_tokens_and_one_that_may_only_read_says_what_it_lacks(
    host: CodeHost, server: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync, "SESSION_SECONDS", PATIENCE_SECONDS)
    with a_job_with(WRITER, host, tmp_path / "nightly") as nightly:
        first = nightly.run("-vv", "-ra", TFPERF_HISTORY_URL="git+.", CI="true")
    with a_job_with(READER, host, tmp_path / "pull") as pull:
        second = pull.run("-vv", "-ra", TFPERF_HISTORY_URL="git+.", CI="true")
        sessions = [*pull.history.newest_sessions()]
    assert (first.status, "history not" in first.text, len(subjects(server))) == (0, False, 1), first.text
    assert (second.status, len(sessions)) == (0, 2), second.text
    assert "history not sent: git+.: no permission to write (remote: Write access to repository" in second.text
    assert "ghs_" not in first.text + second.text


# ssh


@pytest.fixture(params=["AcceptEnv GIT_PROTOCOL"])
def ssh(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    """The address of a started sshd that serves this machine's folders, and a command that has a key for it."""
    if SSHD is None:
        pytest.skip("sshd is not installed: apt install openssh-server")
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    for name in ("host", "user", "other"):
        keygen = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / f"{name}_key")]
        subprocess.run(keygen, check=True)
    with started_sshd(tmp_path, request.param) as port:
        key = (tmp_path / "host_key.pub").read_text()
        (tmp_path / "known_hosts").write_text(f"[127.0.0.1]:{port} {key}")
        options = f"-F none -o IdentitiesOnly=yes -o UserKnownHostsFile={tmp_path}/known_hosts -o BatchMode=yes"
        yield f"ssh://{getpass.getuser()}@127.0.0.1:{port}", f"ssh {options} -i {tmp_path}/user_key"


@contextmanager
def started_sshd(folder: Path, setting: str) -> Iterator[int]:
    """An sshd that reads its keys from the folder; its port."""
    log = folder / "sshd.log"
    for _ in range(10):  # another process may take the free port
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        (folder / "sshd_config").write_text(
            f"ListenAddress 127.0.0.1:{port}\nHostKey {folder}/host_key\nAuthorizedKeysFile {folder}/user_key.pub\n"
            "PasswordAuthentication no\nKbdInteractiveAuthentication no\nUsePAM no\nStrictModes no\nPidFile none\n"
            f"PermitRootLogin prohibit-password\n{setting}\n"
        )
        log.unlink(missing_ok=True)
        with subprocess.Popen([str(SSHD), "-D", "-E", str(log), "-f", str(folder / "sshd_config")]) as process:
            try:
                wait_for(partial(listens_or_ended, process, log))
                if process.poll() is None:
                    yield port
                    return
            finally:
                process.kill()
    raise AssertionError(log.read_text())


def listens_or_ended(process: subprocess.Popen[bytes], log: Path) -> bool:
    return process.poll() is not None or (log.exists() and "Server listening" in log.read_text())


def test_documents_go_over_ssh_with_the_user_s_own_command(
    ssh: tuple[str, str], server: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, command = ssh
    monkeypatch.setenv("GIT_SSH_COMMAND", command)
    branch_at(f"git+{address}{server}", tmp_path / "a").put(documents(40))
    assert all_in(branch_at(f"git+{address}{server}", tmp_path / "b")) == documents(40)


def test_the_key_of_the_tests_repository_gives_access(ssh: tuple[str, str], server: Path, root: Path) -> None:
    address, command = ssh
    git(root, "remote", "add", "origin", f"{address}{server}")
    git(root, "config", "core.sshCommand", command)
    of_root(root).put(documents(3))
    assert all_in(of_root(root)) == documents(3)


# As where nobody changed Debian's sshd_config.
@pytest.mark.parametrize("ssh", [""], indirect=True)
@pytest.mark.parametrize("setting", ["uploadpack.allowFilter false", "uploadpack.allowAnySHA1InWant true"])
def test_an_old_protocol_suffices(
    ssh: tuple[str, str], server: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    monkeypatch.setenv("GIT_SSH_COMMAND", ssh[1])
    git(server, "config", *setting.split())
    branch_at(f"git+{ssh[0]}{server}", tmp_path / "a").put(documents(40))
    assert all_in(branch_at(f"git+{ssh[0]}{server}", tmp_path / "b")) == documents(40)


@pytest.mark.parametrize("ssh", [""], indirect=True)
def test_an_old_protocol_that_sends_no_single_documents_is_told(
    ssh: tuple[str, str], server: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_SSH_COMMAND", ssh[1])
    branch_at(f"git+{ssh[0]}{server}", tmp_path / "a").put(documents(3))
    with pytest.raises(
        TfperfError, match=r"sends no single documents \(.*\)\. Let its sshd have `AcceptEnv GIT_PROTOCOL`"
    ):
        all_in(branch_at(f"git+{ssh[0]}{server}", tmp_path / "b"))


def test_an_unknown_host_is_no_question(ssh: tuple[str, str], server: Path, tmp_path: Path) -> None:
    with pytest.raises(TfperfError, match=r"the host's key is unknown \(Host key .*\)\. Connect once by hand"):
        branch_at(f"git+{ssh[0]}{server}", tmp_path / "a").list()


def test_a_key_that_the_server_does_not_know_is_a_failed_login(
    ssh: tuple[str, str], server: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_SSH_COMMAND", ssh[1].replace("user_key", "other_key"))
    with pytest.raises(TfperfError, match=r"the login failed \(.*Permission denied.*\)\. Give git a token or a key"):
        branch_at(f"git+{ssh[0]}{server}", tmp_path / "a").list()


def test_a_repository_that_is_not_there_is_told_over_ssh(
    ssh: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_SSH_COMMAND", ssh[1])
    with pytest.raises(TfperfError, match=r"there is no such repository, or"):
        branch_at(f"git+{ssh[0]}{tmp_path}/none.git", tmp_path / "a").list()


# A full disk


def test_a_full_disk_here_is_told_and_costs_nothing_once_it_has_space(server: Path) -> None:
    url = f"git+{server.as_uri()}"
    with small_disk() as disk:
        branch_at(url, disk / "a").put(documents(3))
        large = {f"v1/{number}": os.urandom(1_000_000) for number in range(3)}
        filler = leave_a_megabyte(disk)
        with pytest.raises(TfperfError, match=r"the disk is full \(.*\)\. Free some space, here or on the server"):
            branch_at(url, disk / "a").put(large)
        filler.unlink()
        branch_at(url, disk / "a").put(large)
        filler = leave_a_megabyte(disk)
        with pytest.raises(TfperfError, match=r"the disk is full \(.*\)\. Free some space, here or on the server"):
            all_in(branch_at(url, disk / "b"))
        filler.unlink()
        assert all_in(branch_at(url, disk / "b")) == documents(3) | large


def test_a_full_disk_of_the_server_is_told(tmp_path: Path) -> None:
    with small_disk() as disk:
        url = f"git+{bare_repository(disk / 'team.git').as_uri()}"
        branch_at(url, tmp_path / "a").put(documents(3))
        filler = leave_a_megabyte(disk)
        with pytest.raises(TfperfError, match=r"the disk is full \(.*\)\. Free some space, here or on the server"):
            branch_at(url, tmp_path / "a").put({f"v1/{number}": os.urandom(1_000_000) for number in range(3)})
        filler.unlink()
        branch_at(url, tmp_path / "a").put(documents(4))
        assert all_in(branch_at(url, tmp_path / "b")) == documents(4)
