"""Documents on a server with S3's interface (moto's, in place of a real one) and on a real SFTP server."""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_tfperf.core.history_url import HistoryUrl
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features.sharing.destination import Destination, destination_of
from tests.features.sharing.contract import CONTRACT, NAME, Opened, name_of
from tests.helpers.patience import wait_for

pytest.importorskip("s3fs", reason="`make test-stores` installs it")
pytest.importorskip("paramiko", reason="`make test-stores` installs it")

SSHD = shutil.which("sshd") or shutil.which("/usr/sbin/sshd")
SECRET = "hunter2/hunter2"
# Botocore reports its own use of Python's, and moto of Werkzeug's.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

# Puts documents of 1 MB without end.
PUTS = """
import itertools, os, sys
from pathlib import Path
from pytest_tfperf.core.history_url import HistoryUrl
from pytest_tfperf.features.sharing.destination import destination_of
place = destination_of(HistoryUrl(os.environ["URL"]), folder=Path(), root=Path())
for number in itertools.count():
    place.put({f"v1/{number}": bytes(1_000_000)})
"""


def opened(url: str) -> Destination:
    return destination_of(HistoryUrl(url), folder=Path(), root=Path())


@pytest.fixture(scope="module")
def moto() -> Iterator[str]:
    """The address of a started server."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(moto: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """An empty folder in a bucket of the server's; its URL."""
    import s3fs

    monkeypatch.setenv("AWS_ENDPOINT_URL", moto)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    bucket = f"bucket-{abs(hash(request.node.name))}"
    s3fs.S3FileSystem(skip_instance_cache=True).mkdir(bucket)
    return f"s3://{bucket}/folder"


@pytest.fixture
def sftp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An empty folder on a started server; its URL."""
    if SSHD is None:
        pytest.skip("sshd is not installed: apt install openssh-server")
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    for key in (tmp_path / "host_key", home / ".ssh" / "id_ed25519"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    (home / ".ssh" / "known_hosts").write_text(f"[127.0.0.1]:{port} {(tmp_path / 'host_key.pub').read_text()}")
    (tmp_path / "sshd_config").write_text(
        f"ListenAddress 127.0.0.1:{port}\nHostKey {tmp_path}/host_key\n"
        f"AuthorizedKeysFile {home}/.ssh/id_ed25519.pub\nSubsystem sftp internal-sftp\n"
        "PasswordAuthentication no\nKbdInteractiveAuthentication no\nUsePAM no\nStrictModes no\nPidFile none\n"
        "PermitRootLogin prohibit-password\nMaxStartups 50\n"
    )
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    log = tmp_path / "sshd.log"
    with subprocess.Popen([SSHD, "-D", "-E", str(log), "-f", str(tmp_path / "sshd_config")]) as process:
        try:
            assert wait_for(lambda: log.exists() and "Server listening" in log.read_text())
            yield f"sftp://{getpass.getuser()}@127.0.0.1:{port}{tmp_path}/served"
        finally:
            process.kill()


@pytest.fixture(params=["bucket", "sftp"])
def url(request: pytest.FixtureRequest) -> str:
    of_kind: str = request.getfixturevalue(request.param)
    return of_kind


@pytest.mark.parametrize("check", CONTRACT, ids=name_of)
def test_a_store(check: Callable[[Opened], None], url: str) -> None:
    check(lambda: opened(url))


def test_what_is_listed_is_whole_also_after_a_kill(url: str) -> None:
    with subprocess.Popen([sys.executable, "-c", PUTS], env=os.environ | {"URL": url}) as process:
        try:
            wait_for(lambda: len(opened(url).list()) > 1)
        finally:
            process.send_signal(signal.SIGKILL)
    place = opened(url)
    documents = dict(place.get(place.list()))
    assert len(documents) > 1
    assert set(documents.values()) == {bytes(1_000_000)}


def test_a_bucket_that_does_not_exist_is_told(bucket: str) -> None:
    with pytest.raises(TfperfError, match=r"^s3://no-such-bucket/x: the history can't be read: The specified bucket"):
        opened("s3://no-such-bucket/x").list()


def test_a_server_that_does_not_answer_is_told(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    with pytest.raises(TfperfError, match=r"the history can't be written: Could not connect to the endpoint") as raised:
        opened(bucket).put({NAME: b"x"})
    assert SECRET not in str(raised.value)


def test_missing_credentials_are_told(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(TfperfError, match=r"the history can't be read: Unable to locate credentials"):
        opened(bucket).list()


def test_an_unknown_host_gets_no_password(sftp: str) -> None:
    Path("~/.ssh/known_hosts").expanduser().write_text("")
    with pytest.raises(TfperfError, match=r"Server '\[127\.0\.0\.1\]:\d+' not found in known_hosts") as raised:
        opened(sftp.replace("@", f":{SECRET.replace('/', '%2F')}@")).list()
    assert "hunter2" not in str(raised.value)


def test_a_login_that_fails_is_told(sftp: str) -> None:
    Path("~/.ssh/id_ed25519").expanduser().unlink()
    with pytest.raises(TfperfError, match=r"^sftp://127\.0\.0\.1:\d+/.*/served: the history can't be read: ") as raised:
        opened(sftp.replace("@", ":hunter2@")).list()
    assert "hunter2" not in str(raised.value)
