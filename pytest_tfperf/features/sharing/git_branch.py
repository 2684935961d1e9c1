"""Documents on a branch of a git repository, by way of a bare partial clone in the session's own folder."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Final, TypeVar, final
from urllib.parse import unquote, urlsplit

from pytest_tfperf.core.history_url import HistoryUrl
from pytest_tfperf.errors import TfperfError, worded
from pytest_tfperf.features.sharing.destination import MOST_BYTES
from pytest_tfperf.lines import one_line, shortened
from pytest_tfperf.reports.numbers import counted
from pytest_tfperf.revisions.git import refusal_of, repository_of, run_git
from pytest_tfperf.revisions.worktrees import FULL, alone_in

_OLDEST_GIT: Final = (2, 31)  # the first that reads GIT_CONFIG_COUNT
_TRIES: Final = 40  # of a push, while others push
_FIRST_BATCH, _LARGEST_BATCH = 16, 512  # documents: over a slow link some arrive soon, over a fast one in few requests
_MOST_PACKS: Final = 100  # each fetch adds one
_REMOTE: Final = "tfperf"
_TIP, _NEW = "refs/tfperf/tip", "refs/tfperf/new"
_IDENTITY: Final = "pytest-tfperf <pytest-tfperf@localhost> now"
_FETCH: Final = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--filter=blob:none")
_PUSH: Final = ("push", "--quiet", "--porcelain", "--no-verify", "--no-signed", "--no-follow-tags")

# Of the environment's GIT_ variables. Those of a hook lead to another repository, and GIT_TRACE_CURL shows tokens.
_KEPT_VARIABLES: Final = re.compile(r"GIT_(SSH|SSL|PROXY|HTTP|EXEC_PATH|CONFIG_(?!PARAMETERS))")
_VARIABLES: Final = {
    "GIT_ALLOW_PROTOCOL": "ssh:https:file",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",
    "SSH_ASKPASS": "",
    "SSH_ASKPASS_REQUIRE": "never",
    "GCM_INTERACTIVE": "never",
    "LC_ALL": "C",  # its errors are parsed
}
_SETTINGS: Final = (
    ("core.hooksPath", "/dev/null"),
    ("core.bigFileThreshold", str(MOST_BYTES)),  # git keeps larger blobs out of its memory
    ("fetch.prune", "false"),
    ("gc.auto", "0"),  # it would go on in the background
    ("maintenance.auto", "false"),
    ("http.lowSpeedLimit", "1"),  # no git that outlives a kill of its caller waits for ever
    ("http.lowSpeedTime", "120"),
    ("protocol.version", "2"),  # older ones fetch no blob by its hash
)
# The settings of the tests' repository that access to its origin needs; actions/checkout keeps the token in a header.
_OF_ACCESS: Final = re.compile(r"(http|credential|url|ssh)\.|core\.sshcommand$")

# Of a push, when another one came first: git's words, and those of servers that lock the branch.
_IS_BEHIND: Final = (
    r"rejected\] \(.*(fetch first|non-fast-forward|stale info|cannot lock|failed to update|incorrect old|already "
    r"exists)"
)
_CAUSES: Final = {
    _IS_BEHIND: "others push all the time. Push again later",
    FULL.pattern: "the disk is full. Free some space, here or on the server",
    r"dubious ownership": "git refuses a repository of another user. If you trust it: git config --global --add "
    "safe.directory FOLDER",
    r"transport '.*' not allowed": "only ssh, https and files are allowed. Name such an address: "
    "git+https://HOST/REPOSITORY",
    r"[Pp]rotected branch|rule violations|hook declined": "the server does not let this branch be pushed. Exempt it "
    "from the repository's rules, or name another: #BRANCH",
    r"error: 403|Permission to .* denied|not allowed to push|Write access|read[- ]only|insufficient permission": (
        "no permission to write. Give it to the token or key: in a job of GitHub `permissions: contents: write`, in "
        "GitLab's settings of job tokens the permission to push"
    ),
    r"[Rr]epository.* not found|does not appear to be a git repository|could not be found|does not exist": (
        "there is no such repository, or this login may not read it. Check the address and the token"
    ),
    r"Host key verification failed": "the host's key is unknown. Connect once by hand, or add what ssh-keyscan prints "
    "to ~/.ssh/known_hosts",
    r"Authentication failed|could not read (Username|Password)|Permission denied \(|error: 401|Access denied": (
        "the login failed. Give git a token or a key, because it must not ask for one"
    ),
    r"unadvertised object": "the server sends no single documents. Let its sshd have `AcceptEnv GIT_PROTOCOL`, or its "
    "repository uploadpack.allowAnySHA1InWant",
    r"certificate|SSL": "the server's certificate can't be verified. Name its authority: git config --global "
    "http.sslCAInfo FILE",
    r"[Cc]ould not resolve|Connection (refused|reset|closed)|unreachable|timed out|[Tt]imeout|No route|"
    r"Failed to connect|unable to access|hung up|disconnect|RPC failed": (
        "the server can't be reached. Check the network and the address"
    ),
}
"""What git and servers write, and what it means, with the next step; the first match counts."""

T = TypeVar("T")


class _Unexplained(TfperfError):
    """git failed, and no network, server or disk explains it: the clone may be damaged."""


@final
class GitBranch:
    """A branch of a repository, whose files are the documents; its owner may squash it.

    An object shows the branch as it was at its first call, or after its last `put`. The clone is a cache, with one
    commit and the blobs asked for. One process at a time uses it, so a lock file in it is that of a killed git. git
    runs in the process group of the caller, who may kill it at any moment.

    Args:
        url: `git+.` is origin of the tests' repository, with the settings of that repository that its access needs.
        folder: the folder of the clone.
        root: the folder of the tests.
    """

    def __init__(self, url: HistoryUrl, *, folder: Path, root: Path) -> None:
        self._url = url
        self._root = root
        self._folder = folder.absolute()
        self._clone = self._folder / "history.git"
        self._tip = ""  # the branch's last commit; "" where there is no branch
        self._blobs: dict[str, str] | None = None
        self._secrets: set[str] = set()

    def list(self, prefix: str = "v1/") -> Sequence[str]:
        """Return the names that begin with the prefix; none where there is no such branch yet."""
        with self._alone():
            return [name for name in self._or_anew(self._at_tip) if name.startswith(prefix)]

    def get(self, names: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        """Yield names and documents, in the given order."""
        start, size = 0, _FIRST_BATCH
        while batch := names[start : start + size]:
            start, size = start + size, min(2 * size, _LARGEST_BATCH)
            with self._alone():
                blobs = self._or_anew(partial(self._fetch_blobs, batch))
            yield from self._read(blobs)

    def put(self, documents: Mapping[str, bytes]) -> None:
        """Store the documents as one commit on top of all that others push meanwhile."""
        with self._alone():
            for attempt in range(1, _TRIES + 1):
                overtaken = self._or_anew(partial(self._push, documents))
                self._blobs = None
                if overtaken is None:
                    return
                if attempt == _TRIES:
                    raise overtaken
                time.sleep(random.uniform(0, min(0.1 * attempt, 1)))

    # The clone

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Wait until no other process uses the clone, and remove what a killed git left."""
        way_out = "Make it writable, or name another folder with --tfperf-dir"
        with worded(self._folder, "written", way_out), alone_in(self._folder, lock="history.lock"):
            for left in (*self._clone.rglob("*.lock"), *self._clone.glob("objects/pack/tmp_*")):
                left.unlink(missing_ok=True)
            if len([*self._clone.glob("objects/pack/*.pack")]) > _MOST_PACKS:
                self._remove()
            yield

    def _remove(self) -> None:
        shutil.rmtree(self._clone, ignore_errors=True)
        self._blobs = None

    def _or_anew(self, action: Callable[[], T]) -> T:
        """Return the action's result; where it fails without an outer cause, once more with a new clone."""
        try:
            return action()
        except _Unexplained:
            self._remove()
            return action()

    def _at_tip(self) -> dict[str, str]:
        """Return the hash of each document, fetched at most once until a push: each connection takes a second."""
        if self._blobs is not None:
            return self._blobs
        if not (self._clone / "HEAD").exists():
            self._git("init", "--quiet", "--bare", "--template=")
        source = f"+refs/heads/{self._url.branch}:{_TIP}"
        fetched = self._run(*_FETCH, "--depth=1", _REMOTE, source, online=True)
        tip, blobs = "", dict[str, str]()
        if fetched.returncode == 0:
            tip = self._git("rev-parse", _TIP).decode().strip()
            for line in self._git("ls-tree", "-r", "-z", "--full-tree", tip).split(b"\0")[:-1]:
                about, _, name = line.partition(b"\t")
                mode, _, blob = about.decode().split()
                if mode.startswith("100"):  # neither a link nor a submodule
                    blobs[name.decode(errors="replace")] = blob
        elif b"couldn't find remote ref" not in fetched.stderr:
            raise self._error(fetched)
        self._tip, self._blobs = tip, blobs
        return blobs

    def _fetch_blobs(self, names: Sequence[str]) -> dict[str, str]:
        known = self._at_tip()
        blobs = {name: known[name] for name in names if name in known}
        if blobs:  # git asks for none that are here
            hashes = "\n".join(blobs.values()).encode()
            self._git("-c", "fetch.negotiationAlgorithm=noop", *_FETCH, "--stdin", _REMOTE, feed=hashes, online=True)
        return blobs

    def _read(self, blobs: Mapping[str, str]) -> Iterator[tuple[str, bytes]]:
        """Yield those that are not too large, one in memory at a time."""
        command = ["git", f"--git-dir={self._clone}", "cat-file", "--batch"]
        pipe, variables = subprocess.PIPE, _variables(_SETTINGS)
        with subprocess.Popen(command, env=variables, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL) as reader:
            assert reader.stdin is not None
            assert reader.stdout is not None
            with suppress(BrokenPipeError):
                reader.stdin.write("".join(f"{blob}\n" for blob in blobs.values()).encode())  # fits into a pipe
                reader.stdin.close()
            for name in blobs:
                _, kind, size = (*reader.stdout.readline().split(), b"", b"")[:3]
                if kind != b"blob":
                    self._remove()
                    raise TfperfError(f"{self._clone} was damaged, and is removed", next_step="Try again")
                left = int(size) + 1  # and a line end
                if left <= MOST_BYTES + 1:
                    yield name, reader.stdout.read(left)[:-1]
                    continue
                while left and (part := reader.stdout.read(min(left, 2**20))):
                    left -= len(part)

    def _push(self, documents: Mapping[str, bytes]) -> TfperfError | None:
        """Commit and push what the branch lacks; returns an error if another push came first."""
        known = self._at_tip()
        new = {name: data for name, data in documents.items() if name not in known}
        if not new:
            return None
        message = f"{counted(len(new), 'session')} [skip ci]"
        feed = f"commit {_NEW}\ncommitter {_IDENTITY}\ndata {len(message)}\n{message}\n".encode()
        if self._tip:
            feed += f"from {self._tip}\n".encode()
        # JSON quotes names as fast-import wants them.
        paths = ((json.dumps(name, ensure_ascii=False).encode(), data) for name, data in new.items())
        feed += b"".join(b"M 100644 inline %s\ndata %d\n%s\n" % (path, len(data), data) for path, data in paths)
        self._git("fast-import", "--quiet", "--force", "--done", "--date-format=now", feed=feed + b"done\n")
        target = f"{_NEW}:refs/heads/{self._url.branch}"
        pushed = self._run(*_PUSH, _REMOTE, target, online=True)
        if pushed.returncode == 0:
            return None
        error = self._error(pushed)
        if not re.search(_IS_BEHIND.encode(), pushed.stdout + pushed.stderr):
            raise error
        return error

    # Running git

    def _git(self, *arguments: str, feed: bytes = b"", online: bool = False) -> bytes:
        done = self._run(*arguments, feed=feed, online=online)
        if done.returncode:
            raise self._error(done)
        return done.stdout

    def _run(self, *arguments: str, feed: bytes = b"", online: bool = False) -> subprocess.CompletedProcess[bytes]:
        """Run git; only an online one knows of the server, so that no other asks it for blobs that are missing."""
        variables = _variables([*_SETTINGS, *(self._access if online else ())])
        command = ["git", f"--git-dir={self._clone}", *arguments]
        return subprocess.run(command, cwd=self._place, env=variables, input=feed, capture_output=True, check=False)

    @cached_property
    def _place(self) -> Path:
        """The folder that git runs in: for `git+.` the root of that repository, because its origin may be relative."""
        version = run_git(self._folder, "version")
        if version.returncode:
            raise TfperfError(f"{self._url}: {version.stderr}", next_step="Install git")
        if tuple(map(int, re.findall(r"\d+", version.stdout)[:2])) < _OLDEST_GIT:
            fact = f"{self._url} needs git {'.'.join(map(str, _OLDEST_GIT))}, and this is {version.stdout.strip()}"
            raise TfperfError(fact, next_step="Update git")
        if self._url.address != ".":
            return self._folder
        if (repository := repository_of(self._root)) is None:
            why = refusal_of(self._root) or f"git finds no repository at {self._root}"
            raise TfperfError(f"{self._url}: {why}", next_step="Run in a clone, or name an address: git+https://...")
        return repository

    @cached_property
    def _access(self) -> Sequence[tuple[str, str]]:
        """The settings with which git reaches the server."""
        branch, settings = self._url.branch, list[tuple[str, str]]()
        if run_git(self._folder, "check-ref-format", f"refs/heads/{branch}").returncode:
            raise TfperfError(f"{self._url}: git allows no branch {branch!r}", next_step="Name another: #BRANCH")
        addresses = {"remote.origin.url": self._url.address}
        if self._url.address == ".":
            # Only its own: git reads those of the user anyway, and servers refuse a header that comes twice.
            listed = run_git(self._place, "config", "--list", "-z", "--show-scope", "--includes").stdout.split("\0")
            entries = [entry.partition("\n")[::2] for entry in listed[1::2]]
            own = [entry for scope, entry in zip(listed[::2], entries, strict=False) if scope in ("local", "worktree")]
            settings += [(name, value) for name, value in own if _OF_ACCESS.match(name)]
            addresses = {name: value for name, value in own if re.fullmatch(r"remote\.origin\.(push)?url", name)}
            if "remote.origin.url" not in addresses:
                raise TfperfError(
                    f"{self._url}: the repository {self._place} has no origin",
                    next_step="Add it: git remote add origin ADDRESS; or name an address: git+https://...",
                )
        for name, address in addresses.items():
            place, login, secret = _login_apart(address)
            settings += [(name.replace("origin", _REMOTE), place), *login]
            self._secrets |= {secret, unquote(secret)}
        self._secrets |= {value.rpartition(" ")[2] for name, value in settings if name.endswith("extraheader")}
        is_chosen = "GIT_SSH" in os.environ or "core.sshcommand" in dict(settings)  # GIT_SSH_COMMAND goes before both
        if not is_chosen and self._run("config", "--get", "core.sshCommand").returncode:
            settings.append(("core.sshCommand", "ssh -oBatchMode=yes -oServerAliveInterval=30"))
        return (*settings, (f"remote.{_REMOTE}.promisor", "true"))

    def _error(self, failed: subprocess.CompletedProcess[bytes]) -> TfperfError:
        output = (failed.stderr + b"\n" + failed.stdout).decode(errors="replace")
        for secret in self._secrets - {""}:
            output = output.replace(secret, "***")
        output = self._url.without_secrets(output)
        lines = [" ".join(line.split()) for line in output.splitlines() if not line.startswith("hint:")]
        kind: type[TfperfError] = _Unexplained
        fact, next_step = "git failed", "Try git itself with this address"
        for pattern, text in _CAUSES.items():
            if matching := [line for line in lines if re.search(pattern, line)]:
                (fact, _, next_step), kind = text.partition(". "), TfperfError
                lines = [*(line for line in lines if re.match(r"remote: .*\w", line)), matching[0]]
                break
        words = shortened(one_line(" ".join(dict.fromkeys(lines)).strip()), 300)
        return kind(f"{self._url}: {fact} ({words or failed.returncode})", next_step=next_step)


def _login_apart(address: str) -> tuple[str, Sequence[tuple[str, str]], str]:
    """Return an address without its login, the login as settings, and the password, or the user where there is none.

    git makes the whole address an argument of its helpers.
    """
    parts = urlsplit(address) if address.startswith("https://") else None
    if parts is None or "@" not in parts.netloc:
        return address, (), ""
    login, _, host = parts.netloc.rpartition("@")
    server, (user, colon, password) = f"https://{host}", login.partition(":")
    basic = b64encode(f"{unquote(user)}:{unquote(password)}".encode()).decode()
    header = (f"http.{server}/.extraheader", f"Authorization: Basic {basic}")
    setting = header if colon else (f"credential.{server}.username", unquote(user))
    return server + parts.path, (setting,), password or user


def _variables(settings: Sequence[tuple[str, str]]) -> dict[str, str]:
    """The environment with settings for git in it: other users can read a process's arguments."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith("GIT_") or _KEPT_VARIABLES.match(name)
    }
    users = int(os.environ.get("GIT_CONFIG_COUNT") or 0)
    for number, (name, value) in enumerate(settings, users):
        kept |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return {**kept, **_VARIABLES, "GIT_CONFIG_COUNT": str(users + len(settings))}
